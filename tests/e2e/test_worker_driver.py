"""Our driver at one end of the pipe and our worker at the other."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.worker_process import COMMAND
from tests.scripts import calls, says
from treadle.drivers.worker.driver import WorkerAgent, WorkerSession
from treadle.events import Asked, ToolDenied, ToolEnded, ToolStarted, TurnEnded
from treadle.io.peer import Patience
from treadle.session import Answer, Prompt, SessionSpec
from treadle.sessions.totals import run_turn, totals

PATIENT = Patience(handshake=60, silence=60, cancel=60, shutdown=60)
TOOLS = calls(
    "bash", {"command": "echo found"}, text="Looking.", usage={"input": 10, "output": 2, "cache_read": 4}, cost=0.002
) + says("Found.", usage={"input": 20, "output": 1}, cost=0.001)
SLEEP = (
    calls("bash", {"command": "until [ -e steered ]; do sleep 0.01; done"})
    + says("Going left.", when="left")
    + says("Going on.")
)


@asynccontextmanager
async def session(tmp_path: Path, script: str, **spec: Any) -> AsyncIterator[WorkerSession]:
    (tmp_path / "model.toml").write_text(script)
    wanted = SessionSpec.of(**{"cwd": str(tmp_path), "model": "scripted:model.toml", "mode": None, **spec})
    opened = await WorkerAgent(COMMAND, patience=PATIENT).open(wanted)
    try:
        yield opened
    finally:
        await asyncio.wait_for(opened.close(), 60)


async def test_a_turn_crosses_both_ends_whole(tmp_path: Path) -> None:
    async with session(tmp_path, TOOLS) as opened:
        events = [event async for event in run_turn(opened, "look")]
    summary = totals(events)
    assert (summary.outcome, summary.text, summary.iterations) == ("completed", "Found.", 2)
    assert summary.usage.total_tokens == 37 and summary.usage.cost_usd == pytest.approx(0.003)
    [use] = summary.tools
    assert (use.started.name, use.started.kind, use.started.command) == ("bash", "execute", "echo found")
    assert use.ended is not None and "found" in use.ended.result and use.ended.call == use.started.call


async def test_a_turn_can_be_interrupted_and_the_next_one_runs(tmp_path: Path) -> None:
    async with session(tmp_path, SLEEP) as opened:
        reader = opened.events(after=-1)
        id = await opened.prompt(Prompt(text="go"))
        async for event in reader:
            if isinstance(event, ToolStarted):
                break
        await opened.interrupt(id, "enough")
        ended = [event async for event in run_turn(opened, "again")][-1]
    assert isinstance(ended, TurnEnded) and (ended.outcome, ended.text) == ("completed", "Going on.")


@pytest.mark.parametrize("decision", ["allow", "deny"])
async def test_a_question_crosses_to_whoever_can_answer(tmp_path: Path, decision: Any) -> None:
    async with session(tmp_path, TOOLS, mode="suggest", answers=True) as opened:
        reader = opened.events(after=-1)
        await opened.prompt(Prompt(text="go"))
        seen: list[Any] = []
        async for event in reader:
            seen.append(event)
            if isinstance(event, Asked):
                assert event.text == "bash (execute) requires approval in suggest mode"
                await opened.answer(event.request, Answer(decision=decision, text="no thanks"))
            if isinstance(event, TurnEnded):
                break
    assert any(isinstance(event, ToolEnded) for event in seen) == (decision == "allow")
    assert [event.reason for event in seen if isinstance(event, ToolDenied)] == (
        [] if decision == "allow" else ["no thanks"]
    )
