"""What `attach` and `wall` draw themselves, on the terminal's second screen, and the keys that are typed there."""

from __future__ import annotations

import os
import re
import select
import signal
from collections.abc import Sequence

from treadle.terminal.grid import cell_width

KEY = re.compile(r"\x1b\[<?[0-9;:?]*[A-Za-z~]|\x1bO.|[\s\S]")
NAMES = {
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1b[C": "right",
    "\x1b[D": "left",
    "\x1bOA": "up",
    "\x1bOB": "down",
    "\x1bOC": "right",
    "\x1bOD": "left",
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


def keys_in(data: bytes) -> list[str]:
    """The keys in what was typed, by their names or characters. Sequences that are no known key are left out."""
    found = KEY.findall(data.decode(errors="replace"))
    return [NAMES.get(key, key) for key in found if key in NAMES or len(key) == 1]


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
        self._keys: list[str] = []

    def __enter__(self) -> Panel:
        self.write("\x1b[?1049h\x1b[?25l\x1b[2J")
        return self

    def __exit__(self, *_: object) -> None:
        self.write("\x1b[0m\x1b[?25h\x1b[?1049l")

    @property
    def size(self) -> tuple[int, int]:
        cols, rows = os.get_terminal_size(0)
        return max(2, cols), max(2, rows)

    def write(self, text: str) -> None:
        view = memoryview(text.encode(errors="replace"))
        while view:
            view = view[os.write(1, view) :]

    def draw(self, lines: Sequence[str], footer: str, *, chosen: int = -1) -> None:
        """Fill the screen with lines of plain text, one of them marked, and a last line."""
        cols, rows = self.size
        first = max(0, chosen - (rows - 2)) if chosen >= 0 else 0
        shown = [fitted(line, cols) for line in lines[first : first + rows - 1]]
        shown += [" " * cols] * (rows - 1 - len(shown))
        if chosen >= 0:
            shown[chosen - first] = f"\x1b[7m{shown[chosen - first]}\x1b[0m"
        self.show(shown, footer)

    def show(self, rows: Sequence[str], footer: str) -> None:
        """The same with lines that already have their width and colours. All at once, so that it does not flicker."""
        cols, count = self.size
        body = "".join(f"\x1b[{number};1H{row}" for number, row in enumerate(rows, 1))
        self.write(f"\x1b[?2026h{body}\x1b[{count};1H\x1b[7m{fitted(footer, cols)}\x1b[0m\x1b[?2026l")

    def key(self) -> str:
        """The next key: its character, or its name."""
        while not self._keys:
            for fd, _ in self._poll():
                if fd == self.signals:
                    numbers = os.read(fd, 64)
                    self.gone = bool({signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT} & set(numbers))
                    return GONE if self.gone else RESIZED
                data = _read()
                self._keys += keys_in(data) if data else [GONE]
        if self._keys[0] == GONE:
            self.gone = True
        return self._keys.pop(0)

    def _poll(self) -> list[tuple[int, int]]:
        poller = select.poll()
        for fd in (0, self.signals):
            poller.register(fd, select.POLLIN)
        return poller.poll()

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

    def choose(self, lines: Sequence[str], footer: str, chosen: int = 0) -> int | None:
        """The number of the line that the person chooses; None if they leave."""
        while True:
            self.draw(lines, footer, chosen=chosen)
            key = self.key()
            if key == "enter":
                return chosen
            if key in ("escape", "q", "\x03", GONE):
                return None
            if key in ("down", "j", "tab"):
                chosen = min(len(lines) - 1, chosen + 1)
            elif key in ("up", "k", "back tab"):
                chosen = max(0, chosen - 1)
            elif key.isdigit() and 0 < int(key) <= len(lines):
                return int(key) - 1

    def tell(self, lines: Sequence[str]) -> None:
        """Show something until a key is pressed."""
        while True:
            self.draw(lines, "any key: back")
            if self.key() != RESIZED:
                return
