"""What a subagent does carries the call that started it, wherever the program says so."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.drivers.programs import PROGRAMS
from tests.drivers.scenarios import PATIENCE, USED, script
from tests.drivers.test_subagents import PROMPT, check
from tests.live.agents import agent, recording
from tests.live.test_model_wire import driven
from treadle.agent.providers.script import CallLine, Script, ScriptedReply
from treadle.session import SessionSpec
from treadle.sessions.totals import run_turn
from treadle.testing.server import ModelServer

LOOK = {"description": "look", "prompt": "[[tool]]", "subagent_type": "general-purpose", "run_in_background": False}
STARTS: dict[str, tuple[str, dict[str, Any]]] = {
    "claude": ("Agent", LOOK),
    "codex": ("multi_agent_v1::spawn_agent", {"message": "[[tool]]"}),
    "qwen": ("agent", LOOK),
}
"""How the model of each starts a subagent. The others do not say which call a subagent belongs to."""
WAIT = r'"?agent_id'
"""In what Codex returns when it has started one: it goes on meanwhile."""


@pytest.mark.parametrize("wire", ["direct", "gateway"])
@pytest.mark.parametrize("name", STARTS)
async def test_a_subagents_events_have_a_parent(name: str, wire: str, tmp_path: Path) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    work.mkdir()
    program = PROGRAMS[name]
    tool, arguments = STARTS[name]
    titled, *rest = script(program.tools, str(work) if program.absolute else "").reply
    starts = (CallLine(name=tool, arguments=arguments, id="call_start"),)
    shell, nap = program.tools.shell("python3 -c 'import time; time.sleep(2)'")
    more = (
        ScriptedReply(when=r"\[\[delegate\]\]", text="I ask another.", call=starts, usage=USED),
        ScriptedReply(when=WAIT, call=(CallLine(name=shell, arguments=nap, id="call_nap"),), usage=USED),
    )
    async with ModelServer(Script(reply=(titled, *more, *rest)), batch=False) as server, asyncio.timeout(2 * PATIENCE):
        if wire == "gateway":
            made = driven(name, home, server.url)
        else:
            home.mkdir()
            made = agent(name, home, server.url, recording(name, "subagent"), work)
        session = await made.open(SessionSpec.of(cwd=str(work), mode="full-auto", model_wire=wire))
        try:
            assert session.info.wire is not None and session.info.wire.way == wire
            check([event async for event in run_turn(session, PROMPT)])
        finally:
            await session.close()
