"""What the program is doing: the best that can be said from all that is known."""

from __future__ import annotations

from treadle.terminal.classify import classifier
from treadle.terminal.settings import Settings
from treadle.wire.terminal import DEAD, STATE_NAMES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Watch:
    def __init__(self, settings: Settings, now: int, state_file: str) -> None:
        self._rhythm = classifier(settings.classifier, now, settings.idle_threshold_ms, settings.debounce_ms)
        self._died: int | None = None
        self.full_screen = False

    def output(self, data: bytes, now: int, answered: bool) -> bytes:
        self._rhythm.output(len(data), now)
        return b""

    def typed(self, data: bytes, now: int) -> None:
        pass

    def resized(self, now: int) -> None:
        pass

    def died(self, now: int) -> None:
        self._died = now

    def state(self, now: int) -> tuple[int, int]:
        if self._died is not None:
            return DEAD, self._died
        state = self._rhythm.state(now)
        return state, self._rhythm.since

    def detail(self, now: int) -> dict[str, Any]:
        state, since = self.state(now)
        return {"name": STATE_NAMES[state], "since_ms": now - since}

    def modes(self) -> list[int]:
        return []

    def next_change(self, now: int) -> int | None:
        return None if self._died is not None else self._rhythm.next_change(now)
