"""Looks through lines of text on a terminal: page by page, and by searching."""

from __future__ import annotations

from collections.abc import Sequence

from treadle.light import TYPE_CHECKING
from treadle.terminal.panel import GONE, RESIZED, fitted, width

if TYPE_CHECKING:
    from treadle.terminal.panel import Panel

KEYS = "arrows, PgUp PgDn, g G: move   /: search   n N: further up, down   q: back"


class Pager:
    """The lines, wrapped to a size, and which part of them is shown; at first the end."""

    def __init__(self, lines: Sequence[str], cols: int, rows: int) -> None:
        self.lines = list(lines)
        while self.lines and not self.lines[-1].strip():
            self.lines.pop()
        self.sought = ""
        self.top = 0
        self.wrap(cols, rows)
        self.move(len(self.rows))

    def wrap(self, cols: int, rows: int) -> None:
        """For a window of this size. What was at the top stays there."""
        line = self.rows[self.top][0] if self.top and self.top < len(self.rows) else 0
        self.cols, self.height = cols, rows
        self.rows = [(number, part) for number, text in enumerate(self.lines) for part in _parts(text, cols)]
        self.top = next((at for at, (number, _) in enumerate(self.rows) if number >= line), 0)
        self.move(0)

    rows: list[tuple[int, str]] = []
    """Each row on the screen, with the number of its line."""

    def move(self, by: int) -> None:
        self.top = max(0, min(self.top + by, len(self.rows) - self.height))

    def search(self, text: str) -> bool:
        """Go to the last place before the end of this page that has the text."""
        self.sought = text
        return self._seek(range(min(self.top + self.height, len(self.rows)) - 1, -1, -1))

    def next(self, step: int) -> bool:
        """Go on searching: downwards (1) or upwards (-1)."""
        end = len(self.rows) if step > 0 else -1
        return self._seek(range(self._found + step if self._found >= 0 else self.top, end, step))

    _found = -1

    def _seek(self, among: range) -> bool:
        if not self.sought:
            return False
        for at in among:
            number, _ = self.rows[at]
            if at and self.rows[at - 1][0] == number:
                continue  # the line is looked at as a whole, from its first row
            if self._places(self.lines[number]):
                self._found = at
                self.top = at
                self.move(-(self.height // 2))
                return True
        return False

    def _places(self, text: str) -> list[int]:
        """Where the text sought occurs. Capital letters only count if it has some."""
        sought = self.sought
        if sought == sought.lower():
            text = "".join(letter.lower() if len(letter.lower()) == 1 else letter for letter in text)
        found, at = [], text.find(sought) if sought else -1
        while at >= 0:
            found.append(at)
            at = text.find(sought, at + len(sought))
        return found

    def page(self) -> list[str]:
        """The rows to show, with what was sought marked."""
        shown = [self._marked(part) for _, part in self.rows[self.top : self.top + self.height]]
        return shown + [" " * self.cols] * (self.height - len(shown))

    def _marked(self, part: str) -> str:
        shown, end = fitted(part, self.cols), 0
        pieces = []
        for at in self._places(shown):
            after = at + len(self.sought)
            pieces += [shown[end:at], "\x1b[7m", shown[at:after], "\x1b[0m"]
            end = after
        return "".join([*pieces, shown[end:]])


def _parts(text: str, cols: int) -> list[str]:
    """A line in pieces that each fit."""
    if text.isascii():
        return [text[at : at + cols] for at in range(0, len(text), cols)] or [""]
    parts, part, used = [], "", 0
    for letter in text:
        wide = width(letter)
        if used + wide > cols and part:
            parts.append(part)
            part, used = "", 0
        part += letter
        used += wide
    return [*parts, part]


def look_through(panel: Panel, title: str, lines: Sequence[str], *, searching: bool = False) -> None:
    """Show the lines until the person leaves them."""
    cols, rows = panel.size
    pager = Pager(lines, cols, rows - 1)
    words = "search: what?" if searching else ""
    moves = {"up": -1, "k": -1, "down": 1, "j": 1, "enter": 1, "home": -(1 << 40), "g": -(1 << 40)}
    moves |= {"end": 1 << 40, "G": 1 << 40}
    while True:
        key = "/" if searching else ""
        if not key:
            place = f"{title}  {min(len(pager.rows), pager.top + pager.height)} of {len(pager.rows)}"
            panel.show(pager.page(), f" {place}   {words or KEYS}")
            key, words = panel.key(), ""
        pages = {"page up": -1, "b": -1, "page down": 1, " ": 1}
        if key in ("q", "escape", "\x03", GONE):
            return
        if key in moves or key in pages:
            pager.move(moves.get(key) or pages[key] * pager.height)
        elif key == "/":
            searching = False
            panel.show(pager.page(), "")
            text = panel.ask("search:", pager.sought)
            words = "" if not text or pager.search(text) else f"{text!r} is not in it"
        elif key in "nN" and not pager.next(-1 if key == "n" else 1):
            words = f"{pager.sought!r} is not further {'up' if key == 'n' else 'down'}" if pager.sought else KEYS
        elif key == RESIZED:
            cols, rows = panel.size
            pager.wrap(cols, rows - 1)
