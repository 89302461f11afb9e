"""Workers that do what workers do."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from treadle.drivers.worker.driver import WorkerAgent, WorkerSession
from treadle.events import Event, TurnEnded
from treadle.io.peer import Patience
from treadle.session import SessionSpec
from treadle.sessions.totals import run_turn

PATIENT = Patience(handshake=60, silence=60, cancel=60, shutdown=60, grace=0.5)
"""For workers that do their part: a busy machine is not their fault."""


DELTA = {"event": {"event": "content_delta", "text": "a"}}


OK = {"result": {"status": "ok", "response": "done"}}


def agent(script: dict[str, Any], patience: Patience = PATIENT) -> WorkerAgent:
    return WorkerAgent([sys.executable, "-m", "treadle.testing.faulty_worker", json.dumps(script)], patience=patience)


@asynccontextmanager
async def session(script: dict[str, Any], patience: Patience = PATIENT, **spec: Any) -> AsyncIterator[WorkerSession]:
    asked = SessionSpec.of(**{"cwd": os.getcwd(), "model": "m", **spec})
    opened = await agent(script, patience).open(asked)
    opened.limits = asked.limits
    try:
        yield opened
    finally:
        await asyncio.wait_for(opened.close(), 60)


async def turn(opened: WorkerSession, text: str = "hi") -> list[Event]:
    return [event async for event in run_turn(opened, text)]


def ending(events: list[Event]) -> TurnEnded:
    assert isinstance(events[-1], TurnEnded)
    assert sum(isinstance(event, TurnEnded) for event in events) == 1
    return events[-1]


def gone(path: Path) -> bool:
    try:
        os.kill(int(path.read_text()), 0)
    except ProcessLookupError:
        return True
    return False
