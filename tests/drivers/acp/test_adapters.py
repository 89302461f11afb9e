"""The adapters that make Claude Code and Codex speak the protocol (0.99.0 and 2.6.0), played from recordings."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

import treadle
from tests.stand_ins import REPLAY
from treadle.drivers.acp.driver import AcpAgent
from treadle.drivers.card import Launch, cards
from treadle.events import AnyEvent, Asked, ToolDenied, ToolEnded, TurnEnded, Usage
from treadle.session import Answer, SessionSpec
from treadle.sessions.totals import run_turn

RECORDINGS = Path(__file__).parent / "adapters"


async def played(name: str, answer: Answer, cwd: Path) -> list[AnyEvent]:
    recording = str(RECORDINGS / f"{name}.jsonl")
    argv = (sys.executable, "-S", REPLAY, recording)
    source = str(Path(treadle.__file__).parents[1])
    agent = AcpAgent(cards()["acp"], Launch(argv=argv), environ={**os.environ, "PYTHONPATH": source})
    async with asyncio.timeout(60):
        session = await agent.open(SessionSpec.of(cwd=str(cwd), mode="suggest", answers=True))
        found = []
        try:
            async for event in run_turn(session, "go"):
                found.append(event)
                if isinstance(event, Asked):
                    await session.answer(event.request, answer)
        finally:
            await session.close()
    return found


def of(events: list[AnyEvent], kind: type) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


@pytest.mark.parametrize(
    ("name", "counts", "cost"),
    [("claude", (240, 50, 100, 20), 0.0031199999999999995), ("codex", (260, 50, 100, 0), None)],
)
async def test_an_allowed_command_runs_and_the_turn_is_counted(
    name: str, counts: tuple[int, ...], cost: float | None, tmp_path: Path
) -> None:
    events = await played(f"{name}-allowed", Answer(decision="allow"), tmp_path)
    end = events[-1]
    assert isinstance(end, TurnEnded) and end.outcome == "completed"
    assert [asked.command for asked in of(events, Asked)] == ["touch perm-marker.txt"]
    assert [ended.ok for ended in of(events, ToolEnded)] == [True]
    [usage] = of(events, Usage)
    told = (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens)
    assert (told, usage.cost_usd) == (counts, cost)


@pytest.mark.parametrize(("name", "reason"), [("claude", "end_turn"), ("codex", "denied")])
async def test_a_refused_command_does_not_run_and_for_codex_ends_the_turn(
    name: str, reason: str, tmp_path: Path
) -> None:
    events = await played(f"{name}-denied", Answer(decision="deny", text="not today"), tmp_path)
    end = events[-1]
    assert isinstance(end, TurnEnded) and (end.outcome, end.stop_reason) == ("completed", reason)
    assert [(denied.by, denied.reason) for denied in of(events, ToolDenied)] == [("person", "not today")]
    assert of(events, ToolEnded) == []
