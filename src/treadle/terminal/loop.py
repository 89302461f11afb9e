"""An event loop: `poll` on descriptors, with timers. No tasks, no threads."""

import math
import select
import time
from collections.abc import Callable

READ, WRITE = select.POLLIN, select.POLLOUT
LONGEST = 86400.0
"""The longest single wait in seconds. The kernel counts milliseconds in 31 bits, which is less than a month."""


def now_ms() -> int:
    """The monotonic clock of everything that is reported in milliseconds."""
    return time.monotonic_ns() // 1_000_000


class Loop:
    def __init__(self) -> None:
        self._poller = select.poll()
        self._acts: dict[int, tuple[int, Callable[[int], None]]] = {}
        self._timers: dict[str, tuple[float, Callable[[], None]]] = {}
        self.late_ms = 0
        """How much later than due the timer that runs now, or ran last, was called: the machine was busy, or we were
        stopped."""
        self._soonest = math.inf  # no timer is due before this; recomputed when it has passed

    def watch(self, fd: int, events: int, act: Callable[[int], None]) -> None:
        """Call `act(events)` whenever one of `events` occurs at `fd`, in place of any earlier `act`; 0 for never."""
        if not events:
            self.forget(fd)
        else:
            before = self._acts.get(fd)
            if before is None or before[0] != events:
                self._poller.register(fd, events)
            if before is None or before[0] != events or before[1] is not act:
                self._acts[fd] = (events, act)

    def forget(self, fd: int) -> None:
        """Call this before closing `fd`: its number may be reused a moment later."""
        if self._acts.pop(fd, None):
            self._poller.unregister(fd)

    def at(self, name: str, when: float, act: Callable[[], None]) -> None:
        """Call `act()` at a time of `time.monotonic()`. Each name stands for one timer."""
        self._timers[name] = (when, act)
        if when < self._soonest:
            self._soonest = when

    def has(self, name: str) -> bool:
        return name in self._timers

    def cancel(self, *names: str) -> None:
        for name in names:
            self._timers.pop(name, None)

    def turn(self) -> None:
        """Wait for the next event and handle everything that is due."""
        ready = self._poller.poll(self._pause())
        asked = [self._acts.get(fd) for fd, _ in ready] if len(ready) > 1 else ()
        for at, (fd, events) in enumerate(ready):
            found = self._acts.get(fd)
            if found and (not asked or found is asked[at]):  # else an earlier action of this turn has changed it
                found[1](events & found[0] or found[0])
        if self._soonest < math.inf and (now := time.monotonic()) >= self._soonest:
            self._due(now)

    def _due(self, now: float) -> None:
        for _, name in sorted((when, name) for name, (when, _) in self._timers.items() if when <= now):
            when, act = self._timers.get(name, (now + 1, None))
            if act and when <= now:  # unless an earlier timer has moved it
                del self._timers[name]
                self.late_ms = int((now - when) * 1000)
                act()
        self._soonest = min((when for when, _ in self._timers.values()), default=math.inf)

    def _pause(self) -> float | None:
        """Milliseconds until the next timer, rounded up: waking too early would be a turn for nothing."""
        if self._soonest == math.inf:
            return None
        left = self._soonest - time.monotonic()
        return math.ceil(min(max(0.0, left), LONGEST) * 1000)
