"""The state as the basic protocol has it: one byte, which a classifier's own states limit."""

from treadle.terminal.accepting import Accepted
from treadle.terminal.classify import classifier
from treadle.terminal.settings import TerminalSettings
from treadle.terminal.states import AT_REST, SUBMITTED
from treadle.wire.terminal.frames import ACTIVE, IDLE, STATE_NAMES, STREAMING, THINKING, TOOL_USE

WIRE = {"thinking": THINKING, "streaming": STREAMING, "tool_use": TOOL_USE, "working": ACTIVE, SUBMITTED: THINKING}


class WireState:
    """The state's byte in STATUS, and since when. Only a classifier's own states are ever on the wire."""

    def __init__(self, settings: TerminalSettings, now: int) -> None:
        self.kind = settings.classifier
        self.rhythm = classifier(settings.classifier, now, settings.idle_threshold_ms, settings.debounce_ms)
        self.state = IDLE
        self.since = now

    def settle(self, accepted: Accepted, now: int) -> None:
        """Record when the state changes."""
        wire, since = self.rhythm.state(now), self.rhythm.since
        if accepted.verdict and accepted.state in AT_REST:
            wire, since = IDLE, accepted.since
        elif accepted.verdict and accepted.state in WIRE:
            wire, since = WIRE[accepted.state], accepted.since
        if self.kind == "none":
            wire = IDLE
        elif self.kind == "simple" and wire != IDLE:
            wire = ACTIVE
        if wire != self.state:
            self.state, self.since = wire, since

    def hint(self, now: int) -> str:
        return STATE_NAMES[self.rhythm.state(now)]
