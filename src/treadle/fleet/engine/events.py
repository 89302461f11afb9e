"""Events of runs in the engine: written by the single runner of an attempt, read by anybody from any position.

A message on `fleet.ev.ORDER.ATTEMPT.NODE` holds some events in order, `{"n": FIRST, "events": [...]}`; each event's
number is its position in the attempt, from 1. The writer sends a message once the one before is stored, on condition
that this is still the last: so there are no gaps or repeats, and once the scheduler has closed an attempt with
`{"end": ...}`, its old runner can write no more.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec

from treadle.fleet.engine import tasks
from treadle.fleet.engine.bus import EVENTS, Bus, Stale, Unreachable
from treadle.fleet.engine.pull import Pull
from treadle.io.files import storage_error
from treadle.io.opening import appending, opened

CHUNK = 256 * 1024
"""The most bytes of events in one message, unless a single event is larger."""
LINE_MAX = 4 * 1024 * 1024


class AttemptLog:
    """The events of an attempt: first in a file, then in the engine. The file buffers them while the engine is away."""

    def __init__(self, path: str, bus: Bus, subject: str) -> None:
        self.path = path
        self.bus = bus
        self.subject = subject
        self.written = 0
        self.sent = 0
        self.closed_by_another = False
        """Whether the scheduler has ended the attempt: nothing more of it counts."""
        self._sent_bytes = 0
        self._last: int | None = None
        self._more = asyncio.Event()
        try:
            self._file = appending(path)
        except OSError as error:
            raise storage_error(error, path, "write") from error
        self._sending = asyncio.create_task(self._send())

    def append(self, event: bytes) -> None:
        """Keep one event, in JSON, and send it soon."""
        if len(event) > LINE_MAX:
            event = msgspec.json.encode({"type": "warned", "code": "too_long", "message": "an event was too long"})
        try:
            self._file.write(event + b"\n")
        except OSError as error:
            raise storage_error(error, self.path, "append to") from error
        self.written += 1
        self._more.set()

    async def finish(self, timeout: float, enough: Callable[[], bool] = lambda: False) -> bool:
        """Wait until everything is sent, or it is enough. False when that was not possible in time."""
        self._more.set()
        try:
            async with asyncio.timeout(timeout):
                while self.sent < self.written and not self.closed_by_another:
                    if enough():
                        return False
                    await asyncio.sleep(0.01)
        except TimeoutError:
            return False
        finally:
            await tasks.end([self._sending])
            self._file.close()
        return not self.closed_by_another

    async def _send(self) -> None:
        while not self.closed_by_another:
            await self._more.wait()
            self._more.clear()
            while self.sent < self.written and not self.closed_by_another:
                try:
                    await self._send_some()
                except Unreachable:
                    self._last = None
                    await asyncio.sleep(0.2)

    async def _send_some(self) -> None:
        if self._last is None:
            await self._find_place()
            if self.closed_by_another:
                return
        lines = self._read()
        body = b'{"n":%d,"events":[%s]}' % (self.sent + 1, b",".join(lines))
        try:
            expect = {"Nats-Expected-Last-Subject-Sequence": str(self._last)}
            self._last = await self.bus.publish(self.subject, body, expect)
        except Stale:
            self._last = None  # either ours, stored before its answer was lost, or the scheduler's end of the attempt
            return
        self._advance(lines)

    async def _find_place(self) -> None:
        """Find where the stream stands: after an outage, what was sent last may be stored or not."""
        message = await self.bus.look(f"$JS.API.DIRECT.GET.{EVENTS}.{self.subject}")
        headers = message.headers or {}
        if headers.get("Status"):
            self._last = 0
            return
        self._last = int(headers["Nats-Sequence"])
        found = msgspec.json.decode(message.data)
        if "end" in found:
            self.closed_by_another = True
            return
        stored = found["n"] + len(found["events"]) - 1
        while self.sent < stored:
            self._advance(self._read(stored - self.sent))

    def _read(self, most: int = 1_000_000) -> list[bytes]:
        lines: list[bytes] = []
        size = 0
        with opened(self.path) as file:
            file.seek(self._sent_bytes)
            for line in file:
                if not line.endswith(b"\n") or lines and (size + len(line) > CHUNK or len(lines) >= most):
                    break
                lines.append(line[:-1])
                size += len(line)
        return lines

    def _advance(self, lines: list[bytes]) -> None:
        self.sent += len(lines)
        self._sent_bytes += sum(len(line) + 1 for line in lines)


class Seen(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event as a reader gets it. `at` is the position to continue from: the next reader's `start`."""

    at: int
    attempt: int
    n: int
    event: Any = None
    end: str = ""
    gap: int = 0
    """How many events are missing before this one."""


async def read(bus: Bus, order: str, *, start: int = 1, follow: bool = False) -> AsyncIterator[Seen]:
    """The events of an order from a position on: all there are now, or with `follow` also later ones."""
    pull = Pull(bus, EVENTS, filters=(f"fleet.ev.{order}.>",), start=start)
    expected: dict[int, int] = {}
    try:
        if not follow and not await _any(bus, order, start):
            return
        while True:
            messages = await pull.next(5.0)
            for message in messages:
                attempt = int(message.subject.split(".")[3])
                at = message.metadata.sequence.stream + 1
                for seen in _unpack(attempt, at, msgspec.json.decode(message.data), expected, start == 1):
                    yield seen
            if messages and not follow and messages[-1].metadata.num_pending == 0:
                return
    finally:
        await pull.close()


def _unpack(attempt: int, at: int, body: dict[str, Any], expected: dict[int, int], from_start: bool) -> list[Seen]:
    if "end" in body:
        return [Seen(at=at, attempt=attempt, n=expected.get(attempt, 1), end=f"{body['end']}: {body.get('why', '')}")]
    first = body["n"]
    due = expected.get(attempt, 1 if from_start else first)
    gap = max(0, first - due)
    found = []
    for number, event in enumerate(body["events"], first):
        found.append(Seen(at=at, attempt=attempt, n=number, event=event, gap=gap))
        gap = 0
    expected[attempt] = first + len(body["events"])
    return found


async def _any(bus: Bus, order: str, start: int) -> bool:
    info = await bus.api(f"STREAM.INFO.{EVENTS}", {"subjects_filter": f"fleet.ev.{order}.>"})
    if not info["state"].get("subjects"):
        return False
    for subject in info["state"]["subjects"]:
        message = await bus.look(f"$JS.API.DIRECT.GET.{EVENTS}.{subject}")
        headers = message.headers or {}
        if not headers.get("Status") and int(headers["Nats-Sequence"]) >= start:
            return True
    return False
