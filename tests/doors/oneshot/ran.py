"""One prompt through a scripted session, and what was printed."""

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

from tests.stand_ins.sessions import ScriptedSession, Step
from treadle.doors.oneshot.run import OneShot
from treadle.events import (
    TextDelta,
)
from treadle.session import CommandResult, SessionSpec
from treadle.wire.oneshot.connection import OutputFormat


class Sink:
    def __init__(self) -> None:
        self.data = b""
        self.writes = 0

    async def write(self, data: bytes) -> None:
        self.data += data
        self.writes += 1

    @property
    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.data.decode().splitlines()]


class Commanded(ScriptedSession):
    """A scripted session that has one command, which the test gives."""

    def __init__(self, *turns: Sequence[Step], command: Callable[..., Any] | None = None, **more: Any) -> None:
        super().__init__(SessionSpec.of(cwd="/", session_id="s1", **more), list(turns))
        self.given: list[tuple[str, str]] = []
        self._does = command

    async def _command(self, name: str, args: str) -> CommandResult | None:
        self.given.append((name, args))
        return await self._does(self, args) if self._does else None


class Ran:
    def __init__(self, session: ScriptedSession, output_format: OutputFormat, **more: Any) -> None:
        self.out, self.err = Sink(), Sink()
        self.session = session
        self.runner = OneShot(session, output_format, out=self.out, err=self.err, **more)
        self.code = -1

    async def go(self, prompt: str = "go") -> "Ran":
        self.code = await asyncio.wait_for(self.runner.run(prompt), 60)
        return self

    @property
    def result(self) -> dict[str, Any]:
        return self.out.records[-1]


async def interrupted(run: Ran, when: Callable[[Any], bool]) -> None:
    """Run it, and interrupt it at the first event for which this holds."""
    task = asyncio.create_task(run.go())
    async for event in run.session.events():
        if when(event):
            await run.runner.interrupt("enough")
            break
    await task


def speaks(event: Any) -> bool:
    return isinstance(event, TextDelta)


HELLO = (TextDelta(text="Hel"), TextDelta(text="lo"))
