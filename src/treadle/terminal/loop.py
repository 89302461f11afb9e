"""Descriptors and times, and what to do when one of them is due. Nothing else: no tasks, no threads, no waiting."""

from __future__ import annotations

import selectors
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class Loop:
    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._watched: dict[int, tuple[int, Callable[[int], None]]] = {}
        self._timers: dict[str, tuple[float, Callable[[], None]]] = {}

    def watch(self, fd: int, events: int, act: Callable[[int], None]) -> None:
        """Call `act(events)` whenever one of `events` is due at `fd`, instead of what was asked before; 0 for never."""
        before = self._watched.get(fd)
        if before == (events, act):
            return
        if not events:
            self.forget(fd)
            return
        if before:
            self._selector.modify(fd, events, act)
        else:
            self._selector.register(fd, events, act)
        self._watched[fd] = (events, act)

    def forget(self, fd: int) -> None:
        """To be called before `fd` is closed: its number may be another's a moment later."""
        if self._watched.pop(fd, None):
            self._selector.unregister(fd)

    def at(self, name: str, when: float, act: Callable[[], None]) -> None:
        """Call `act()` at a time of `time.monotonic()`. Each name stands for one time."""
        self._timers[name] = (when, act)

    def cancel(self, *names: str) -> None:
        for name in names:
            self._timers.pop(name, None)

    def turn(self) -> None:
        """Wait for the next thing and do all that is due."""
        timeout = None
        if self._timers:
            timeout = max(0.0, min(when for when, _ in self._timers.values()) - time.monotonic())
        for key, events in self._selector.select(timeout):
            # Something done earlier in this turn may have closed it.
            if (entry := self._watched.get(key.fd)) and entry[1] is key.data:
                key.data(events)
        if self._timers:
            now = time.monotonic()
            for name in [name for name, (when, _) in self._timers.items() if when <= now]:
                when, act = self._timers.get(name, (now + 1, None))
                if act and when <= now:  # unless one that was due before it has moved it
                    del self._timers[name]
                    act()
