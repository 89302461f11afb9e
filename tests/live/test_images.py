"""An image that comes with a prompt reaches the model behind each real program."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.agent.pixels import png
from tests.drivers.programs import PROGRAMS
from tests.drivers.scenarios import HELLO, PATIENCE
from tests.live.agents import agent, model
from treadle.events import TurnEnded
from treadle.session import SessionSpec
from treadle.sessions.totals import run_turn


@pytest.mark.parametrize("name", PROGRAMS)
async def test_an_image_of_a_prompt_reaches_the_model(name: str, tmp_path: Path) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    async with model(name, work) as server:
        driven = agent(name, home, server.url, None, work)
        async with asyncio.timeout(2 * PATIENCE):
            session = await driven.open(SessionSpec(cwd=str(work), mode="full-auto"))
            try:
                [*_, last] = [
                    event async for event in run_turn(session, "[[hello]] what is it?", images=(png(64, 64),))
                ]
            finally:
                await session.close()
        assert isinstance(last, TurnEnded) and last.text == HELLO, last
        bodies = [json.dumps(asked.body) for asked in server.asked]
        assert any("iVBORw0KGgo" in body for body in bodies), bodies[-1][-3000:]
