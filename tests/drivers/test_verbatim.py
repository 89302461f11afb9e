"""A prompt that is to be given as it stands runs no command of an outside agent."""

import os
from pathlib import Path

import pytest

from tests.drivers.scenarios import HELLO
from tests.drivers.test_session import replayed
from treadle.drivers.card import cards
from treadle.errors import Unsupported
from treadle.events import TurnEnded
from treadle.session import Prompt, Session, SessionSpec


async def ended(session: Session, text: str) -> TurnEnded:
    reader = session.events()
    try:
        await session.prompt(Prompt(text=text, verbatim=True))
        async for event in reader:
            if isinstance(event, TurnEnded):
                return event
    finally:
        await session.close()
    raise AssertionError("it did not end")


async def test_claude_code_is_told_that_nobody_typed_it(tmp_path: Path) -> None:
    session = await replayed(cards()["claude"], "text", noted=tmp_path / "noted").open(SessionSpec(cwd=os.getcwd()))
    assert (await ended(session, "/clear [[hello]]")).text == HELLO
    [told] = [line for line in (tmp_path / "noted").read_text().splitlines() if "/clear [[hello]]" in line]
    assert '"client_composed": true' in told


@pytest.mark.parametrize("name", ["gemini", "pi"])
async def test_an_agent_that_cannot_be_told_refuses_what_begins_with_a_slash(name: str) -> None:
    session = await replayed(cards()[name], "text").open(SessionSpec(cwd=os.getcwd()))
    with pytest.raises(Unsupported, match="begins with a slash"):
        await ended(session, "/clear [[hello]]")
