"""An agent that says what its prompt says, so that a test decides what the session hears. `cat` plays it."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from treadle.drivers.card import Card, levels
from treadle.drivers.session import DrivenSession
from treadle.errors import InvalidJson, LineTooLong, TreadleError
from treadle.events import AnyEvent, ErrorInfo, Message, Usage
from treadle.io.peer import Patience, Peer
from treadle.session import Access, SessionSpec
from treadle.sessions.abilities import ABILITIES
from treadle.sessions.session import Turn
from treadle.sessions.totals import run_turn
from treadle.wire.common.framing import LineSplitter

CARD = Card(
    name="told",
    title="Told",
    driver="",
    how="",
    capabilities=levels(native=" ".join(ABILITIES)),
    recorded=("1.2", "1.4"),
)
END = '{"end": "done"}\n'


class Lines:
    """Plain text goes in, and an object of JSON comes out in each line."""

    def __init__(self, cap: int = 10_000) -> None:
        self._lines = LineSplitter(cap)

    def receive(self, data: bytes) -> list[Any]:
        return [self._record(line) for line in self._lines.feed(data) if isinstance(line, LineTooLong) or line.strip()]

    def _record(self, line: bytes | LineTooLong) -> Any:
        if isinstance(line, LineTooLong):
            return line
        try:
            return json.loads(line)
        except ValueError as error:
            return InvalidJson(f"a line is not JSON: {error}")

    def end(self) -> list[Any]:
        return []

    def send(self, prompt: str) -> bytes:
        return prompt.encode()


class Told(DrivenSession):
    stops: str | TreadleError = '{"end": "stopped"}\n'
    """What it says when it is told to stop; empty: nothing."""
    stopped = 0
    left = 0

    async def _begin(self, turn: Turn) -> None:
        await self.peer.say(turn.prompt.text)

    async def _stop(self, turn: Turn) -> None:
        self.stopped += 1
        if isinstance(self.stops, TreadleError):
            raise self.stops
        await self.peer.say(self.stops)

    async def _leave(self) -> None:
        self.left += 1
        await super()._leave()

    def _hear(self, message: Any) -> None:
        match message:
            case {"end": text} if self._work is not None:
                self._work.turn.text = text
                self.over(self._work.turn.ending("completed"))
            case {"fail": code, "words": words} if self._work is not None:
                self.over(self._work.turn.ending("failed", ErrorInfo(code=code, message=words)))
            case {"say": text}:
                self.emit(Message(text=text))
            case {"error": words}:
                self.error(ErrorInfo(code="provider_error", message=words))
            case {"use": tokens}:
                self.spend(Usage(input_tokens=tokens))
            case {"step": _}:
                self.step()
            case {"run": call}:
                self.tool_started(call, "bash", Access(tool="bash", kind="execute", command="x"), "p")
            case {"odd": words}:
                raise ValueError(words)


@asynccontextmanager
async def told(
    cwd: Path,
    *argv: str,
    kind: type[Told] = Told,
    version: str = "",
    cap: int = 10_000,
    patience: Patience = Patience(grace=1.0),  # noqa: B008
    **spec: Any,
) -> AsyncIterator[Told]:
    peer = await Peer.start(argv or ["cat"], Lines(cap), name="it", env=os.environ, cwd=str(cwd), patience=patience)
    asked = SessionSpec.of(**{"cwd": str(cwd), **spec})
    session = kind("s", CARD, asked, peer, version)
    session.limits = asked.limits
    try:
        yield session
    finally:
        await session.close()


async def turn(session: Told, *lines: str) -> list[AnyEvent]:
    async with asyncio.timeout(60):
        return [event async for event in run_turn(session, "".join(lines))]
