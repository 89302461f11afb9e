"""The status bar of `attach`: the last line, kept out of the program's reach by a scroll region."""

import re
import time

from treadle.light import Any
from treadle.terminal.branch import branch_of

COLOURS = {"idle": 32, "thinking": 33, "streaming": 34, "tool_use": 35, "active": 36, "dead": 31, "waiting": 31}
UNKNOWN = 37
EVERY = 1.0
_REGION_RESET = re.compile(rb"\x1b\[;?r")


def span(seconds: int) -> str:
    return f"{seconds}s" if seconds < 60 else f"{seconds // 60}m{seconds % 60}s"


class Bar:
    def __init__(self, name: str, prefix: str = "") -> None:
        self.name = name
        self.workdir = ""
        self._keys = f"{prefix} ?: keys " if prefix else ""
        self._state: dict[str, Any] = {}
        self._since = time.monotonic()
        self._painted = 0.0
        self._dirty = True

    def state(self, detail: dict[str, Any]) -> None:
        self._state = detail
        self._since = time.monotonic() - detail["since_ms"] / 1000
        self._dirty = True

    def pause(self) -> float:
        """How long until the bar has to be painted again."""
        return max(0.0, self._painted + EVERY - time.monotonic())

    def begin(self, cols: int, rows: int) -> bytes:
        """Exclude the last line from scrolling, and keep the cursor out of it."""
        self._dirty = True
        return b"\n\x1b[A" + b"\x1b7\x1b[1;%dr\x1b8" % max(1, rows - 1)

    def end(self, cols: int, rows: int) -> bytes:
        return b"\x1b7\x1b[r\x1b[%d;1H\x1b[2K\x1b8" % rows

    def fenced(self, data: bytes, cols: int, rows: int) -> bytes:
        """The program's output; if it resets the scroll region to the whole screen, our line stays excluded."""
        self._dirty = self._dirty or b"\x1b" in data
        return _REGION_RESET.sub(b"\x1b[1;%dr" % max(1, rows - 1), data)

    def paint(self, cols: int, rows: int) -> bytes:
        now = time.monotonic()
        if not self._dirty and now - self._painted < EVERY:
            return b""
        self._dirty, self._painted = False, now
        return b"\x1b7\x1b[%d;1H\x1b[0m%b\x1b[0m\x1b8" % (rows, self.line(cols, now).encode())

    def line(self, cols: int, now: float) -> str:
        about = (self._state.get("agent"), branch_of(self.workdir) if self.workdir else "")
        left = "  ".join([f" [treadle] {self.name}", *filter(None, about), ""])
        waiting = self._state.get("waiting_for")
        name = f"waiting: {waiting}" if waiting else self._state.get("name", "...")
        right = f" {name} {span(int(now - self._since))} " if self._state else " ... "
        colour = COLOURS.get("waiting" if waiting else name, UNKNOWN)
        left = left[: max(0, cols - len(right))]
        filler = " " * max(0, cols - len(left) - len(right))
        if len(filler) > len(self._keys):
            filler = filler[len(self._keys) :] + self._keys
        return f"\x1b[7;32m{left}\x1b[0;7m{filler}\x1b[7;{colour}m{right[:cols]}"
