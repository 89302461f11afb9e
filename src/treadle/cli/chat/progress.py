"""What a turn is waiting for right now, and for how long."""

import time
from collections.abc import Callable

from treadle import events

OUTPUT_TAIL = 8 << 10
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class Progress:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._what = ""
        self._since = clock()
        self._tools: dict[str, str] = {}
        self._output: dict[str, str] = {}

    def begin(self, what: str = "the model") -> None:
        """A prompt was sent; nothing has come back yet."""
        self._wait_for(what)

    def end(self) -> None:
        self._what = ""
        self._tools.clear()
        self._output.clear()

    def feed(self, event: events.AnyEvent) -> None:
        match event:
            case events.TurnStarted() | events.Usage() | events.Answered():
                self._wait_for(self._running() or "the model")
            case events.ThinkingDelta():
                self._wait_for("the model, thinking")
            case events.TextDelta():
                self._wait_for("the model, writing")
            case events.ToolStarted():
                self._tools[event.call] = event.name
                self._wait_for(self._running())
            case events.ToolOutput():
                self._output[event.call] = (self._output.get(event.call, "") + event.text)[-OUTPUT_TAIL:]
            case events.ToolEnded():
                self._tools.pop(event.call, None)
                self._output.pop(event.call, None)
                self._wait_for(self._running() or "the model")
            case events.Asked():
                self._wait_for("you")
            case events.Retrying():
                self._wait_for(f"another try, after {event.delay_ms / 1000:.0f} s")
            case events.TurnEnded() if event.parent is None:
                self.end()
            case _:
                pass

    def output(self, call: str) -> str:
        return self._output.get(call, "")

    @property
    def active(self) -> bool:
        return bool(self._what)

    def says(self) -> str:
        """Such as `⠹ waiting for the model 0:07 (Esc interrupts)`; empty when nothing is awaited."""
        if not self._what:
            return ""
        seconds = self._clock() - self._since
        ends = "" if self._what == "you" else " (Esc interrupts)"
        return f"{SPINNER[int(seconds * 8) % len(SPINNER)]} waiting for {self._what} {clock_words(seconds)}{ends}"

    def _running(self) -> str:
        return ", ".join(self._tools.values())

    def _wait_for(self, what: str) -> None:
        if what != self._what:
            self._what, self._since = what, self._clock()


def clock_words(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02}"
