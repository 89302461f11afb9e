"""What `attach` and `wall` draw themselves, the keys that they take, and the status bar."""

from __future__ import annotations

import os
import re
import select
import signal
import time
from collections.abc import Sequence

from treadle.light import Any
from treadle.terminal.grid import cell_width

# The keys that `attach` and `wall` take for themselves.


def key_forms(key: int) -> frozenset[bytes]:
    """The key as terminals send it: plain, or in two encodings for programs that want to tell all keys apart."""
    if not key:
        return frozenset()
    forms = {bytes((key,))}
    if key < 0x20:
        code = key + 0x40 if key + 0x40 not in range(0x41, 0x5B) else key + 0x60
        forms |= {f"\x1b[{code};5u".encode(), f"\x1b[{code};5:1u".encode(), f"\x1b[27;5;{code}~".encode()}
    return frozenset(forms)


def key_name(key: int) -> str:
    """The key as people write it: Ctrl-]."""
    return f"Ctrl-{chr(key + 0x40)}" if 0 < key < 0x20 else chr(key)


# The status bar of `attach`: the last line, kept out of the program's reach by a scroll region.

COLOURS = {"idle": 32, "thinking": 33, "streaming": 34, "tool_use": 35, "active": 36, "dead": 31, "waiting": 31}
UNKNOWN = 37
EVERY = 1.0
_REGION_RESET = re.compile(rb"\x1b\[;?r")


def span(seconds: int) -> str:
    return f"{seconds}s" if seconds < 60 else f"{seconds // 60}m{seconds % 60}s"


class Bar:
    def __init__(self, name: str, prefix: str = "") -> None:
        self.name = name
        self._keys = f"{prefix}: more " if prefix else ""
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
        left = "  ".join(filter(None, [f" [treadle] {self.name}", self._state.get("agent"), " "]))
        waiting = self._state.get("waiting_for")
        name = f"waiting: {waiting}" if waiting else self._state.get("name", "...")
        right = f" {name} {span(int(now - self._since))} " if self._state else " ... "
        colour = COLOURS.get("waiting" if waiting else name, UNKNOWN)
        left = left[: max(0, cols - len(right))]
        filler = " " * max(0, cols - len(left) - len(right))
        if len(filler) > len(self._keys):
            filler = filler[len(self._keys) :] + self._keys
        return f"\x1b[7;32m{left}\x1b[0;7m{filler}\x1b[7;{colour}m{right[:cols]}"


# What `attach` and `wall` draw themselves, on the terminal's second screen, and the keys that are typed there.

KEY = re.compile(r"\x1b\[<?[0-9;:?]*[A-Za-z~]|\x1bO.|[\s\S]")
ARROWS = {"A": "up", "B": "down", "C": "right", "D": "left"}
NAMES = {f"\x1b{begin}{letter}": name for begin in "[O" for letter, name in ARROWS.items()}
NAMES |= {
    "\x1b[5~": "page up",
    "\x1b[6~": "page down",
    "\x1b[H": "home",
    "\x1b[F": "end",
    "\x1b[1~": "home",
    "\x1b[4~": "end",
    "\r": "enter",
    "\n": "enter",
    "\t": "tab",
    "\x1b[Z": "back tab",
    "\x1b": "escape",
    "\x7f": "backspace",
    "\b": "backspace",
}
RESIZED, GONE = "resized", "gone"
"""Not keys: the window has another size; the person's terminal is gone or we are told to end."""


def width(text: str) -> int:
    """How many columns a text takes."""
    return sum(map(cell_width, text))


def harmless(text: str) -> str:
    """Without control characters, which would act on the terminal."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else " " * cell_width(letter) for letter in text)


def fitted(text: str, cols: int) -> str:
    """The text in exactly so many columns, without control characters."""
    found, used = [], 0
    for letter in harmless(text):
        wide = cell_width(letter)
        if used + wide > cols:
            break
        found.append(letter)
        used += wide
    return "".join(found) + " " * (cols - used)


MOUSE = re.compile(r"\x1b\[<(\d+);(\d+);(\d+)([Mm])")
PRESSED, DRAGGED, RELEASED, WHEEL_UP, WHEEL_DOWN = "pressed", "dragged", "released", "wheel up", "wheel down"


def keys_in(data: bytes) -> list[str]:
    """The keys in what was typed, by their names or characters. Sequences that are no known key are left out. What the
    mouse does is a key too: `pressed COLUMN ROW`, counted from 1."""
    found = []
    for key in KEY.findall(data.decode(errors="replace")):
        if mouse := MOUSE.fullmatch(key):
            button, up = int(mouse[1]), mouse[4] == "m"
            what = {0: RELEASED if up else PRESSED, 32: DRAGGED, 64: WHEEL_UP, 65: WHEEL_DOWN}.get(button)
            found += [f"{what} {mouse[2]} {mouse[3]}"] if what else []
        elif key in NAMES or len(key) == 1:
            found.append(NAMES.get(key, key))
    return found


def mouse_at(key: str) -> tuple[str, int, int]:
    """What the mouse did, and the column and row, counted from 0; "" for a key."""
    what, *place = key.rsplit(" ", 2)
    if what not in (PRESSED, DRAGGED, RELEASED, WHEEL_UP, WHEEL_DOWN) or len(place) < 2:
        return "", 0, 0
    return what, int(place[0]) - 1, int(place[1]) - 1


def _read() -> bytes:
    try:
        return os.read(0, 4096)
    except OSError:
        return b""


class Panel:
    """The terminal is raw already. `signals` is the pipe that tells of signals."""

    def __init__(self, signals: int) -> None:
        self.signals = signals
        self.gone = False
        """Whether the person's terminal is gone, or we were told to end."""
        self.true_colour = os.environ.get("COLORTERM", "") in ("truecolor", "24bit")
        self.keys: list[str] = []
        """What was typed and is not handled yet."""

    def __enter__(self) -> Panel:
        self.write("\x1b[?1049h\x1b[?25l\x1b[?1002;1006h\x1b[2J")
        return self

    def __exit__(self, *_: object) -> None:
        self.write("\x1b[0m\x1b[?1002;1006l\x1b[?25h\x1b[?1049l")

    @property
    def size(self) -> tuple[int, int]:
        cols, rows = os.get_terminal_size(0)
        return max(2, cols), max(2, rows)

    def write(self, text: str) -> None:
        view = memoryview(text.encode(errors="replace"))
        while view:
            view = view[os.write(1, view) :]

    def show(self, rows: Sequence[str], footer: str) -> None:
        """Fill the screen with lines that have their width and colours, and a last line. All at once, so that it does
        not flicker."""
        cols, count = self.size
        body = "".join(f"\x1b[{number};1H{row}" for number, row in enumerate(rows, 1))
        self.write(f"\x1b[?2026h{body}\x1b[{count};1H\x1b[7m{fitted(footer, cols)}\x1b[0m\x1b[?2026l")

    def key(self) -> str:
        """The next key: its character, or its name."""
        while not self.keys and not self.gone:
            if self.signals in select.select([0, self.signals], [], [])[0]:
                numbers = os.read(self.signals, 64)
                self.gone = bool({signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT} & set(numbers))
                return GONE if self.gone else RESIZED
            data = _read()
            self.keys += keys_in(data) if data else [GONE]
        self.gone = self.gone or self.keys[0] == GONE
        return GONE if self.gone else self.keys.pop(0)

    def ask(self, question: str, text: str = "") -> str | None:
        """A line that the person types at the bottom; None if they leave it."""
        while True:
            cols, rows = self.size
            self.write(f"\x1b[{rows};1H\x1b[0m{fitted(f'{question} {text}█', cols)}")
            key = self.key()
            if key == "enter":
                return text
            if key in ("escape", "\x03", GONE):
                return None
            if key == "backspace":
                text = text[:-1]
            elif key == "\x15":
                text = ""
            elif len(key) == 1 and key.isprintable():
                text += key
