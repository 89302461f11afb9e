"""Images of a prompt reach an agent in the form of its wire, or the prompt is refused: they are never left out."""

import os
import sys
from pathlib import Path

import pytest

from tests.agent.pixels import png
from tests.drivers.scenarios import HELLO
from tests.drivers.test_session import EACH_DRIVER, HERE, replayed
from treadle.drivers.card import Card, cards
from treadle.drivers.worker.driver import WorkerAgent
from treadle.errors import ToolError, Unsupported
from treadle.events import TurnEnded
from treadle.session import Agent, SessionSpec
from treadle.sessions.totals import run_turn
from treadle.wire.common.images import encoded


async def ended(agent: Agent, text: str, image: bytes) -> TurnEnded:
    session = await agent.open(SessionSpec(cwd=os.getcwd()))
    try:
        [*_, last] = [event async for event in run_turn(session, text, images=(image,))]
    finally:
        await session.close()
    assert isinstance(last, TurnEnded)
    return last


@pytest.mark.parametrize("card", EACH_DRIVER)
async def test_an_image_is_sent_with_the_prompt(card: Card, tmp_path: Path) -> None:
    last = await ended(replayed(card, "text", noted=tmp_path / "noted"), "[[hello]]", png())
    [told] = [line for line in (tmp_path / "noted").read_text().splitlines() if "[[hello]]" in line and '"in"' in line]
    assert last.text == HELLO and encoded(png()) in told and "image/png" in told


async def test_what_is_no_image_is_refused_before_the_agent_sees_it() -> None:
    with pytest.raises(ToolError, match="image 1 is not a PNG, JPEG, GIF or WebP image"):
        await ended(replayed(cards()["claude"], "text"), "[[hello]]", b"no image")


async def test_an_agent_of_this_protocol_that_takes_no_images_refuses_the_prompt(tmp_path: Path) -> None:
    recorded = (HERE / "gemini" / "recordings" / "text.jsonl").read_text()
    assert '"image": true' in recorded
    (tmp_path / "blind.jsonl").write_text(recorded.replace('"image": true', '"image": false'))
    with pytest.raises(Unsupported, match="gemini accepts no images"):
        await ended(replayed(cards()["gemini"], str(tmp_path / "blind.jsonl")), "[[hello]]", png())


async def test_a_worker_refuses_them_because_its_wire_has_only_words() -> None:
    worker = WorkerAgent([sys.executable, "-m", "treadle.testing.faulty_worker", "{}"])
    with pytest.raises(Unsupported, match="accepts no images"):
        await ended(worker, "look", png())
