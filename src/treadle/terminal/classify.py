"""Guesses what a program is doing from how much it writes and when, never from the content.

Each classifier gets `output(size, now)` for every read and answers `state(now)`; times are milliseconds of a monotonic
clock. All begin Idle. Whether the program has ended is not their concern.
"""

from __future__ import annotations

from treadle.light import TYPE_CHECKING
from treadle.wire.terminal.frames import ACTIVE, IDLE, STREAMING, THINKING, TOOL_USE

if TYPE_CHECKING:
    from typing import Protocol

    class Classifier(Protocol):
        since: int
        """When the current state began."""

        def output(self, size: int, now: int) -> None: ...
        def state(self, now: int) -> int: ...
        def next_change(self, now: int) -> int | None:
            """When the state may change without further output."""


class Nothing:
    """`none`: always Idle."""

    def __init__(self, now: int) -> None:
        self.since = now

    def output(self, size: int, now: int) -> None:
        pass

    def state(self, now: int) -> int:
        return IDLE

    def next_change(self, now: int) -> int | None:
        return None


class Simple:
    """`simple`: Active until there has been no output for the threshold."""

    def __init__(self, now: int, threshold: int = 3000) -> None:
        self.since = now
        self.threshold = threshold
        self._current = IDLE
        self._last = -1

    def output(self, size: int, now: int) -> None:
        self.state(now)  # record the Idle state of a silence that has just ended
        self._last = now
        self._enter(ACTIVE, now)

    def state(self, now: int) -> int:
        if self._current == ACTIVE and now - self._last >= self.threshold:
            self._enter(IDLE, self._last + self.threshold)
        return self._current

    def next_change(self, now: int) -> int | None:
        return self._last + self.threshold if self._current == ACTIVE else None

    def _enter(self, state: int, now: int) -> None:
        if state != self._current:
            self._current, self.since = state, now


WINDOW = 20
FULL_READ = 4096


class Claude:
    """`claude`: the rhythm of Claude Code's screen: a spinner is small and regular, text uneven, tools come in bulk."""

    def __init__(self, now: int, threshold: int = 3000, debounce: int = 200) -> None:
        self.since = now
        self.threshold = threshold
        self.debounce = debounce
        self._current = IDLE
        self._pending: tuple[int, int] | None = None  # a candidate state and when it was first seen
        self._events: list[tuple[int, int]] = []  # (time, size)

    def output(self, size: int, now: int) -> None:
        self._events.append((now, size))
        del self._events[:-WINDOW]
        self._settle(now)

    def state(self, now: int) -> int:
        self._settle(now)
        return self._current

    def next_change(self, now: int) -> int | None:
        if self._pending:
            return self._pending[1] + self.debounce
        return self._events[-1][0] + self.threshold if self._current != IDLE else None

    def _settle(self, now: int) -> None:
        candidate = self._candidate(now)
        if candidate == self._current:
            self._pending = None
        elif candidate == IDLE:
            self._enter(IDLE, self._events[-1][0] + self.threshold)
        elif self._pending is None or self._pending[0] != candidate:
            self._pending = (candidate, now)
        elif now - self._pending[1] >= self.debounce:
            self._enter(candidate, now)

    def _enter(self, state: int, now: int) -> None:
        self._current, self.since, self._pending = state, now, None

    def _candidate(self, now: int) -> int:
        events = self._events
        if not events or now - events[-1][0] >= self.threshold:
            return IDLE
        latest = events[-5:]
        if any(size >= FULL_READ for _, size in latest):
            return TOOL_USE
        if len(events) < 3:
            return THINKING
        for (before, _), (after, size) in zip(latest, latest[1:], strict=False):
            if after - before > 200 and size > 1024:
                return TOOL_USE
        return _rhythm(events[-10:])


def _rhythm(events: list[tuple[int, int]]) -> int:
    if len(events) < 5:
        return THINKING
    mean = sum(size for _, size in events) / len(events)
    deviation = (sum((size - mean) ** 2 for _, size in events) / len(events)) ** 0.5
    gap = (events[-1][0] - events[0][0]) / (len(events) - 1)
    if 40 <= mean <= 120 and deviation < 30 and 30 <= gap <= 200:
        return THINKING
    if (mean > 100 or deviation > 50) and gap < 200:
        return STREAMING
    return THINKING


def classifier(name: str, now: int, threshold: int = 3000, debounce: int = 200) -> Classifier:
    if name == "claude":
        return Claude(now, threshold, debounce)
    return Simple(now, threshold) if name == "simple" else Nothing(now)
