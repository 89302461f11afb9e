"""A program that speaks JSON lines on its standard streams, as someone sees it who trusts nothing it says."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from treadle.errors import PeerClosed, RemoteProtocolError
from treadle.io.process.child import Child, start
from treadle.io.tasks import within

if TYPE_CHECKING:
    from treadle.conform.shapes import ShapeWatch
    from treadle.testing.server import ModelServer

LONGEST = 16 * 1024 * 1024
"""Bytes of one line, or of a whole run; more is not read."""
SHOWN = 300
"""Characters of a line that are shown."""


class Silent(RemoteProtocolError):
    """The program has said nothing at all."""


class LinePeer:
    """The running program. Every line it writes must be one JSON object in UTF-8; anything else is an error."""

    model: ModelServer
    """The scripted model that it was pointed at."""
    model_name: str
    again: Callable[[], contextlib.AbstractAsyncContextManager[LinePeer]]
    """Starts the same program once more, in the same place."""

    def __init__(self, child: Child, cwd: str, patience: float, watch: ShapeWatch) -> None:
        self.cwd = cwd
        self.watch = watch
        self._child = child
        self.patience = patience
        self._rest = b""
        self.lines: list[dict[str, Any]] = []
        """All that it has said."""

    @classmethod
    @contextlib.asynccontextmanager
    async def start(
        cls, command: Sequence[str], env: Mapping[str, str], cwd: str, patience: float, watch: ShapeWatch
    ) -> AsyncIterator[LinePeer]:
        async with await start(command, env={**os.environ, **env}, cwd=cwd, stdin="pipe") as child:
            yield cls(child, cwd, patience, watch)

    async def say(self, *messages: Mapping[str, Any] | bytes) -> None:
        """Write these lines at once; bytes are written as they are."""
        await self.write(b"".join(_line(message) for message in messages))

    async def write(self, data: bytes) -> None:
        try:
            async with within(self.patience):
                await self._child.stdio.write(data)
        except PeerClosed as error:
            raise self._wrong(f"it no longer reads its input{await self._how_it_ended()}") from error
        except TimeoutError as error:
            raise self._wrong(f"it did not read its input for {self.patience:g} s") from error

    def close_input(self) -> None:
        self._child.stdio.close_write()

    def signal(self, signum: int) -> None:
        self._child.signal(signum)

    async def hear(self, waiting_for: str = "a line") -> dict[str, Any]:
        """The next line."""
        try:
            async with within(self.patience):
                line = await self._next()
        except TimeoutError as error:
            raise self._wrong(f"no line came within {self.patience:g} s (waiting for {waiting_for})") from error
        if line is None:
            raise self._wrong(f"its output ended (waiting for {waiting_for}){await self._how_it_ended()}")
        return line

    async def until(self, wanted: Callable[[dict[str, Any]], bool], waiting_for: str) -> dict[str, Any]:
        """The first line that is wanted. The ones before it are in `lines`."""
        while not wanted(line := await self.hear(waiting_for)):
            pass
        return line

    async def quiet(self, seconds: float) -> dict[str, Any] | None:
        """A line that comes within this time, or None."""
        try:
            async with within(seconds):
                return await self._next()
        except TimeoutError:
            return None

    async def end(self) -> int:
        """Read all that is left and wait until it has exited; its exit code."""
        try:
            async with within(self.patience):
                while await self._next() is not None:
                    pass
                return await self._child.wait()
        except TimeoutError as error:
            raise RemoteProtocolError(f"it still runs after {self.patience:g} s") from error

    async def whole(self) -> tuple[int, str, str]:
        """All that it writes, whatever it is: exit code, stdout and the end of stderr."""
        output = b""
        try:
            async with within(self.patience):
                while got := await self._child.stdio.read():
                    output += got
                    if len(output) > LONGEST:
                        raise RemoteProtocolError(f"it wrote more than {LONGEST} bytes: {shown(output[:SHOWN])}")
                code = await self._child.wait()
        except TimeoutError as error:
            raise RemoteProtocolError(f"it still runs after {self.patience:g} s") from error
        return code, output.decode(errors="replace"), await self._child.last_words()

    async def _next(self) -> dict[str, Any] | None:
        while b"\n" not in self._rest:
            got = await self._child.stdio.read()
            if not got and self._rest:
                raise RemoteProtocolError(f"its last line has no newline: {shown(self._rest)}")
            if not got:
                return None
            self._rest += got
            if len(self._rest) > LONGEST:
                raise RemoteProtocolError(f"it wrote a line of more than {LONGEST} bytes")
        line, _, self._rest = self._rest.partition(b"\n")
        self.lines.append(_object(line))
        return self.lines[-1]

    def _wrong(self, why: str) -> RemoteProtocolError:
        return RemoteProtocolError(why) if self.lines else Silent(why)

    async def _how_it_ended(self) -> str:
        with contextlib.suppress(TimeoutError):
            async with within(1.0):
                code = await self._child.wait()
                last = (await self._child.last_words()).strip().splitlines()
                return f"; exit code {code}" + (f", its last words: {last[-1][:SHOWN]}" if last else "")
        return ""


def shown(value: Any) -> str:
    """A line or a part of one, short enough for a report."""
    if isinstance(value, bytes):
        text = value.decode(errors="replace")
    else:
        text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def _line(message: Mapping[str, Any] | bytes) -> bytes:
    return message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n"


def _object(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line.decode())
    except ValueError as error:
        raise RemoteProtocolError(f"it wrote a line that is not JSON: {shown(line)}") from error
    if not isinstance(found, dict):
        raise RemoteProtocolError(f"it wrote a line that is not a JSON object: {shown(line)}")
    return found
