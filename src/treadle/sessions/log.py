"""A session's events: numbered, replayable, many readers, bounded memory.

There are two kinds of readers. A lossless reader makes the session wait when it is a window behind (see `room`); an
observer is never waited for, and is told how many events it missed.
"""

from __future__ import annotations

import asyncio
import time
import weakref
from collections.abc import AsyncIterator, Callable

import msgspec

from treadle.events import (
    AnyEvent,
    CommandRun,
    ContextCompacted,
    Event,
    FileChanged,
    Message,
    TaskChanged,
    ToolEnded,
    ToolOutput,
    ToolStarted,
    TurnEnded,
    Warned,
)

WINDOW = 4096
KEEP = 8192
MOST = 32 << 20
"""How many characters of long texts are kept. Beyond that, events that every lossless reader has seen are dropped."""

LATEST = 64

_LONG: dict[type, str] = {
    ToolStarted: "args",
    ToolEnded: "result",
    ToolOutput: "text",
    FileChanged: "diff",
    CommandRun: "output",
    Message: "text",
    TurnEnded: "text",
    ContextCompacted: "summary",
    TaskChanged: "data",
}
_stamp = msgspec.structs.force_setattr


class EventLog:
    def __init__(
        self, clock: Callable[[], float] = time.time, window: int = WINDOW, keep: int = KEEP, most: int = MOST
    ) -> None:
        if keep < window:
            raise ValueError("a log must keep at least a window of events, or lossless readers would lose some")
        self._clock = clock
        self._window = window
        self._keep = keep
        self._most = most
        self._size = 0
        self._events: list[AnyEvent] = []
        self._dropped = 0
        self._readers: weakref.WeakSet[LogReader] = weakref.WeakSet()
        self._waiting: list[asyncio.Future[None]] = []
        self._held: list[asyncio.Future[None]] = []
        self._slowest = 0
        self.closed = False

    @property
    def last(self) -> int:
        """The number of the newest event."""
        return self._dropped + len(self._events)

    def append(self, event: Event, turn: str) -> None:
        """Stamp the event and make it readable. An event that already names its turn keeps it."""
        assert not self.closed, "an event after Closed"
        events = self._events
        _stamp(event, "seq", self._dropped + len(events) + 1)
        _stamp(event, "ts", self._clock())
        if turn and not event.turn:
            _stamp(event, "turn", turn)
        events.append(event)  # type: ignore[arg-type]
        if type(event) in _LONG:  # the many small events must cost nothing here
            self._size += _size(event)
        if self._size > self._most:
            self._drop_oldest()
        if len(events) >= self._keep + self._window:
            self._forget(self._window)
        if self._waiting:
            _wake(self._waiting)

    def _drop_oldest(self) -> None:
        """Drop the oldest events until half of the limit is left, but none that a lossless reader still needs.

        The latest events always stay, for observers that are about to read.
        """
        left, count = self._size, 0
        for event in self._events[: max(min(self._read_by_all() - self._dropped, len(self._events) - LATEST), 0)]:
            if left <= self._most // 2:
                break
            left -= _size(event) if type(event) in _LONG else 0
            count += 1
        self._forget(count)

    def _forget(self, count: int) -> None:
        if self._size:
            self._size -= sum(_size(event) for event in self._events[:count] if type(event) in _LONG)
        del self._events[:count]
        self._dropped += count

    def _read_by_all(self) -> int:
        """The number of the last event that every lossless reader has taken."""
        return min((reader.cursor for reader in self._readers if not reader.observer), default=self.last)

    async def room(self) -> None:
        """Wait until no lossless reader is more than a window behind."""
        if self.last - self._slowest < self._window:
            return
        while not self.closed:
            self._slowest = self._read_by_all()
            if self.last - self._slowest < self._window:
                return
            await _wait(self._held)

    def read(self, after: int = 0, *, observer: bool = False) -> LogReader:
        reader = LogReader(self, self.last if after < 0 else min(after, self.last), observer)
        self._readers.add(reader)
        # A reader that starts in the past is now the slowest. One that is garbage-collected must not hold the session.
        self._slowest = min(self._slowest, reader.cursor)
        weakref.finalize(reader, _wake, self._held)
        return reader

    def close(self) -> None:
        self.closed = True
        _wake(self._waiting)
        _wake(self._held)

    def take(self, reader: LogReader) -> list[AnyEvent]:
        """The events that this reader has not seen, without waiting."""
        first = self._dropped + 1
        missed = first - reader.cursor - 1
        if missed > 0:
            reader.cursor = self._dropped
            gap = Warned(message=f"{missed} earlier events are no longer kept", code="gap", ts=self._clock())
            return [gap, *self._advance(reader)]
        return self._advance(reader)

    def _advance(self, reader: LogReader) -> list[AnyEvent]:
        found = self._events[reader.cursor - self._dropped :]
        reader.cursor = self.last
        if self._held:
            _wake(self._held)
        return found

    async def wait(self) -> None:
        await _wait(self._waiting)


class LogReader:
    """Implements session.EventReader."""

    def __init__(self, log: EventLog, cursor: int, observer: bool) -> None:
        self._log = log
        self._pending: list[AnyEvent] = []
        self.cursor = cursor
        self.observer = observer

    def __aiter__(self) -> AsyncIterator[AnyEvent]:
        return self

    async def __anext__(self) -> AnyEvent:
        if not self._pending:
            self._pending = await self.batch()
            self._pending.reverse()
            if not self._pending:
                raise StopAsyncIteration
        return self._pending.pop()

    async def batch(self) -> list[AnyEvent]:
        while not (found := self.ready()) and not self._log.closed:
            await self._log.wait()
        return found

    def ready(self) -> list[AnyEvent]:
        rest, self._pending = self._pending[::-1], []
        return rest or self._log.take(self)

    def close(self) -> None:
        """Stop making the session wait for this reader."""
        self.observer = True
        self._log.take(self)


def _size(event: Event) -> int:
    """The length of all texts in the field that can be long, which may hold a tool's arguments."""
    size, parts = 0, [getattr(event, _LONG[type(event)])]
    for part in parts:
        if isinstance(part, str):
            size += len(part)
        elif isinstance(part, dict):
            parts += part.values()
        elif isinstance(part, list | tuple):
            parts += part
    return size


def _wake(waiting: list[asyncio.Future[None]]) -> None:
    woken, waiting[:] = waiting[:], []
    for future in woken:
        if not future.done():
            future.set_result(None)


async def _wait(waiting: list[asyncio.Future[None]]) -> None:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    waiting.append(future)
    await future
