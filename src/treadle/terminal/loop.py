"""Descriptors and times, and what to do when one of them is due. Nothing else: no tasks, no threads, no waiting.

Straight on epoll, or poll where there is none: the `selectors` module does no more for us and costs a fifth of the time
in which a terminal starts.
"""

from __future__ import annotations

import select
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

READ, WRITE = select.POLLIN, select.POLLOUT
EITHER = READ | WRITE
LONGEST = 86400.0
"""Seconds of one wait. The kernel counts them as milliseconds in 31 bits, which is not a month."""


def now_ms() -> int:
    """The clock of everything that is told in milliseconds. It never goes back."""
    return time.monotonic_ns() // 1_000_000


class Loop:
    def __init__(self) -> None:
        self._epoll = select.epoll() if hasattr(select, "epoll") else None
        self._poller = self._epoll or select.poll()
        self._watched: dict[int, tuple[int, Callable[[int], None]]] = {}
        self._timers: dict[str, tuple[float, Callable[[], None]]] = {}

    def watch(self, fd: int, events: int, act: Callable[[int], None]) -> None:
        """Call `act(events)` whenever one of `events` is due at `fd`, instead of what was asked before; 0 for never."""
        before = self._watched.get(fd)
        if not events:
            self.forget(fd)
        elif before is None:
            self._poller.register(fd, events)
            self._watched[fd] = (events, act)
        else:
            if before[0] != events:
                self._poller.modify(fd, events)
            self._watched[fd] = (events, act)

    def forget(self, fd: int) -> None:
        """To be called before `fd` is closed: its number may be another's a moment later."""
        if self._watched.pop(fd, None):
            self._poller.unregister(fd)

    def at(self, name: str, when: float, act: Callable[[], None]) -> None:
        """Call `act()` at a time of `time.monotonic()`. Each name stands for one time."""
        self._timers[name] = (when, act)

    def cancel(self, *names: str) -> None:
        for name in names:
            self._timers.pop(name, None)

    def turn(self) -> None:
        """Wait for the next thing and do all that is due."""
        for fd, events in self._wait():
            entry = self._watched.get(fd)
            if entry:  # else something done earlier in this turn has closed it
                # A hang-up or an error is found out by reading or writing, whichever was asked for.
                entry[1](events & EITHER if events & EITHER == events else (events | EITHER) & entry[0])
        if self._timers:
            now = time.monotonic()
            for _, name in sorted((when, name) for name, (when, _) in self._timers.items() if when <= now):
                when, act = self._timers.get(name, (now + 1, None))
                if act and when <= now:  # unless one that was due before it has moved it
                    del self._timers[name]
                    act()

    def _wait(self) -> list[tuple[int, int]]:
        seconds = -1.0
        if self._timers:
            seconds = max(0.0, min(when for when, _ in self._timers.values()) - time.monotonic())
            seconds = min(seconds, LONGEST)
        if self._epoll:
            # Rounded up to what epoll can count, so that a time has come when it says so.
            return self._epoll.poll(seconds if seconds <= 0 else seconds + 0.001, 64)
        return self._poller.poll(None if seconds < 0 else seconds * 1000 + 1)
