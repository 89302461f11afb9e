"""Descriptors and times, and what to do when one of them is due: a selector with timers. No tasks, no threads."""

from __future__ import annotations

import selectors
import time

TYPE_CHECKING = False  # `typing` would cost every supervisor a megabyte
if TYPE_CHECKING:
    from collections.abc import Callable

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
LONGEST = 86400.0
"""Seconds of one wait. The kernel counts them as milliseconds in 31 bits, which is not a month."""


def now_ms() -> int:
    """The clock of everything that is told in milliseconds. It never goes back."""
    return time.monotonic_ns() // 1_000_000


class Loop:
    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._timers: dict[str, tuple[float, Callable[[], None]]] = {}

    def watch(self, fd: int, events: int, act: Callable[[int], None]) -> None:
        """Call `act(events)` whenever one of `events` is due at `fd`, instead of what was asked before; 0 for never."""
        if not events:
            self.forget(fd)
        elif fd not in self._selector.get_map():
            self._selector.register(fd, events, act)
        else:
            key = self._selector.get_key(fd)
            if key.events != events or key.data is not act:
                self._selector.modify(fd, events, act)

    def forget(self, fd: int) -> None:
        """To be called before `fd` is closed: its number may be another's a moment later."""
        if fd in self._selector.get_map():
            self._selector.unregister(fd)

    def at(self, name: str, when: float, act: Callable[[], None]) -> None:
        """Call `act()` at a time of `time.monotonic()`. Each name stands for one time."""
        self._timers[name] = (when, act)

    def cancel(self, *names: str) -> None:
        for name in names:
            self._timers.pop(name, None)

    def turn(self) -> None:
        """Wait for the next thing and do all that is due."""
        for key, events in self._selector.select(self._pause()):
            if self._selector.get_map().get(key.fd) is key:  # else something done earlier in this turn has changed it
                key.data(events & key.events or key.events)
        if self._timers:
            now = time.monotonic()
            for _, name in sorted((when, name) for name, (when, _) in self._timers.items() if when <= now):
                when, act = self._timers.get(name, (now + 1, None))
                if act and when <= now:  # unless one that was due before it has moved it
                    del self._timers[name]
                    act()

    def _pause(self) -> float | None:
        if not self._timers:
            return None
        return min(max(0.0, min(when for when, _ in self._timers.values()) - time.monotonic()), LONGEST)
