"""An agent that says what a test writes down, played by a real process over the real wire."""

import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import treadle
from tests.stand_ins import REPLAY
from treadle.drivers.acp.driver import AcpAgent, AcpSession
from treadle.drivers.card import Launch, cards
from treadle.session import SessionSpec

Line = dict[str, Any]


def said(method: str, id: Any = None, **params: Any) -> Line:
    """The agent calls, or tells."""
    return {"dir": "out", "line": {"method": method, "params": params, **({} if id is None else {"id": id})}}


def update(**fields: Any) -> Line:
    return said("session/update", sessionId="s1", update=fields)


def text(text: str) -> Line:
    return update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": text})


def answered(id: Any, result: Any = None) -> Line:
    """It waits for our answer to its call; with a result, for this one."""
    return {"dir": "in", "line": {"id": id, "result": result or {}}, "exact": result is not None}


def heard(method: str, id: Any = None) -> Line:
    """It waits for this call of ours."""
    return {"dir": "in", "line": {"method": method, **({} if id is None else {"id": id})}}


def returns(id: Any, result: Any) -> Line:
    return {"dir": "out", "line": {"id": id, "result": result}}


def fails(id: Any, code: int, message: str, data: Any = None) -> Line:
    return {"dir": "out", "line": {"id": id, "error": {"code": code, "message": message, "data": data}}}


def greeting(name: str = "odd", **abilities: Any) -> list[Line]:
    told = {"protocolVersion": 1, "agentCapabilities": abilities, "agentInfo": {"name": name, "version": "9.9"}}
    return [heard("initialize", "i"), returns("i", told)]


def opening(name: str = "odd", session: dict[str, Any] | None = None, **abilities: Any) -> list[Line]:
    new = [heard("session/new", "n"), returns("n", {"sessionId": "s1", **(session or {})})]
    return [*greeting(name, **abilities), *new]


def turn(*lines: Line, stop: str = "end_turn", **result: Any) -> list[Line]:
    return [heard("session/prompt", "p"), *lines, returns("p", {"stopReason": stop, **result})]


def agent(folder: Path, lines: list[Line], card: str = "acp") -> AcpAgent:
    recording = folder / "played.jsonl"
    recording.write_text("".join(json.dumps(line) + "\n" for line in lines))
    source = str(Path(treadle.__file__).parents[1])
    argv = (sys.executable, "-S", REPLAY, str(recording))
    return AcpAgent(cards()[card], Launch(argv=argv), environ={**os.environ, "PYTHONPATH": source})


@asynccontextmanager
async def session(folder: Path, lines: list[Line], card: str = "acp", **spec: Any) -> AsyncIterator[AcpSession]:
    work = folder / "work"
    work.mkdir(exist_ok=True)
    asked = SessionSpec.of(**{"cwd": str(work), **spec})
    opened = await agent(folder, lines, card).open(asked)
    assert isinstance(opened, AcpSession)
    opened.limits = asked.limits
    try:
        yield opened
    finally:
        await opened.close()
