"""Tells an engine that is broken from one that is only slow, by what it stores and answers."""

BROKEN_LOOKS = 3
"""So often in a row it answered that nothing had been stored, neither what we gave it nor anything else."""
SILENT_LOOKS = 6
SILENT_SECONDS = 120.0
"""So often, and for so long, it answered nothing at all. A machine with too much to do takes seconds, not minutes."""


class EngineHealth:
    """What is known of an engine since it last stored something that was given to it."""

    def __init__(self, now: float) -> None:
        self.stored(now)

    def stored(self, now: float) -> None:
        self.failing = False
        self._last = -1
        self._same = self._silent = 0
        self._answered = now

    def not_stored(self, last: int | None, now: float) -> str:
        """It did not acknowledge what it was given; then asked for its last revision, it said this, or nothing (None).
        Returns why it is broken, or an empty string while it may be slow."""
        self.failing = True
        if last is None:
            self._silent += 1
            silent = now - self._answered
            hung = self._silent >= SILENT_LOOKS and silent > SILENT_SECONDS
            return f"it has answered nothing for {silent:.0f} s" if hung else ""
        self._silent, self._answered = 0, now
        self._same = self._same + 1 if last == self._last else 1
        self._last = last
        return "it answers and stores nothing, though there is room" if self._same >= BROKEN_LOOKS else ""
