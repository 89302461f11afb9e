"""The characters on a terminal's screen, without their colours: enough to read what a program asks or says.

The supervisor needs to read a screen, not to show one. A full emulator (`treadle.terminal.viewers.screen`) is an
optional dependency larger than the whole supervisor, so this keeps only the characters and their positions, on both of
a terminal's screens. Its tests compare it with that emulator, sequence by sequence.
"""

import codecs
import re
import unicodedata
from collections.abc import Callable

COLS_MAX, ROWS_MAX = 1000, 500
"""Larger than any screen that a person reads; the protocol allows 65535 x 65535."""

TOKEN = re.compile(
    r"(?P<text>[^\x00-\x1f\x7f]+)"
    r"|\x1b\[(?P<private>[<=>?]?)(?P<numbers>[0-9;:]*)(?P<between>[ -/]*)(?P<final>[@-~])"
    r"|\x1b(?:\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_][^\x1b]*\x1b\\)"
    r"|\x1b(?P<charset>[()*+])(?P<set>.)"
    r"|\x1b(?P<escape>[0-~])|\x1b[ -/]+[0-~]"
    r"|(?P<control>[\x00-\x1f\x7f])",
    re.DOTALL,
)
LINES = str.maketrans("`afgjklmnopqrstuvwxyz{|}~", "◆▒°±┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·")
"""The characters of the line-drawing set, by the letters that select them."""


class Buffer:
    """One of the two screens: its rows, and the cursor's state while the other is shown."""

    def __init__(self, cols: int, rows: int) -> None:
        self.rows = [[" "] * cols for _ in range(rows)]
        self.saved = (0, 0)


class Grid:
    """Feed it whole escape sequences; read its `lines`."""

    def __init__(self, cols: int, rows: int) -> None:
        self.cols, self.height = _bounded(cols, rows)
        self.main = Buffer(self.cols, self.height)
        self.other: Buffer | None = None  # the alternate screen, while it is shown
        self.x = self.y = 0
        self._reset()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def _reset(self) -> None:
        self.top, self.bottom = 0, self.height - 1
        self._wrap_pending = False
        self._autowrap = True
        self._origin = False
        self._insert = False
        self._drawing = False  # the line-drawing character set
        self._last = " "

    @property
    def buffer(self) -> Buffer:
        return self.other or self.main

    def lines(self) -> list[str]:
        """The rows from top to bottom, without trailing spaces."""
        return ["".join(row).rstrip() for row in self.buffer.rows]

    def resize(self, cols: int, rows: int) -> None:
        """If there are fewer rows, rows are dropped at the top, to keep the cursor's row; lines are not rewrapped."""
        cols, rows = _bounded(cols, rows)
        for buffer in (self.main, self.other):
            if buffer is None:
                continue
            if buffer is self.buffer:
                gone = max(0, min(len(buffer.rows) - rows, self.y - rows + 1))
                self.y -= gone
                del buffer.rows[:gone]
            del buffer.rows[rows:]
            buffer.rows = [(row + [" "] * (cols - len(row)))[:cols] for row in buffer.rows]
            buffer.rows += [[" "] * cols for _ in range(rows - len(buffer.rows))]
        self.cols, self.height = cols, rows
        self.top, self.bottom = 0, rows - 1
        self.x, self.y = min(self.x, cols - 1), min(self.y, rows - 1)
        self._wrap_pending = False

    def feed(self, data: bytes) -> None:
        text = self._decoder.decode(data)
        for token in TOKEN.finditer(text):
            kind = token.lastgroup
            if kind == "text":
                self._write(token["text"])
            elif kind == "final":
                self._sequence(token["private"], token["numbers"], token["between"], token["final"])
            elif kind == "control":
                self._control(token["control"])
            elif kind == "escape":
                self._escape(token["escape"])
            elif kind == "set" and token["charset"] == "(":
                self._drawing = token["set"] == "0"

    # Text...

    def _write(self, text: str) -> None:
        if self._drawing:
            text = text.translate(LINES)
        if not text.isascii():
            return self._write_slowly(text)
        while text:
            self._wrap_if_due()
            room = self.cols - self.x
            part, text = text[:room], text[room:]
            row = self.buffer.rows[self.y]
            self._cut_wide(row, self.x)
            if self._insert:
                row[self.x : self.x] = part
                self._cut_wide(row, self.cols)
                del row[self.cols :]
            else:
                self._cut_wide(row, self.x + len(part))
                row[self.x : self.x + len(part)] = part
            self._last = part[-1]
            self._advance(len(part))
            if text and not self._autowrap:
                row[self.cols - 1] = text[-1]
                return

    def _write_slowly(self, text: str) -> None:
        """Characters one by one, because some are two cells wide and some have no cell of their own."""
        for letter in text:
            width = cell_width(letter)
            if not width:
                continue
            self._wrap_if_due()
            if width == 2 and self.x == self.cols - 1 and self.cols > 1:
                if not self._autowrap:
                    continue
                self._wipe(self.y, self.x, self.cols)
                self._wrap_pending = True
                self._wrap_if_due()
            row = self.buffer.rows[self.y]
            self._cut_wide(row, self.x)
            if self._insert:
                row[self.x : self.x] = [" "] * width
                self._cut_wide(row, self.cols)
                del row[self.cols :]
            self._cut_wide(row, self.x + width)
            row[self.x] = letter
            if width == 2 and self.x + 1 < self.cols:
                row[self.x + 1] = ""
            self._last = letter
            self._advance(width)

    def _cut_wide(self, row: list[str], x: int) -> None:
        """Writing at `x` must not leave half of a wide character before it."""
        if 0 < x < len(row) and row[x] == "":
            row[x] = row[x - 1] = " "

    def _wrap_if_due(self) -> None:
        if self._wrap_pending and self._autowrap:
            self.x = 0
            self._line_feed()
        self._wrap_pending = False

    def _advance(self, count: int) -> None:
        self.x += count
        if self.x >= self.cols:
            self.x, self._wrap_pending = self.cols - 1, True

    # Controls...

    def _control(self, letter: str) -> None:
        if letter in "\n\v\f":
            self._line_feed()
            self._wrap_pending = False
        elif letter == "\r":
            self._to(0, self.y)
        elif letter == "\b":
            self._to(self.x - 1, self.y)
        elif letter == "\t" and self.x < self.cols - 1:
            self._to(min(self.cols - 1, self.x // 8 * 8 + 8), self.y)

    def _escape(self, letter: str) -> None:
        if letter == "7":
            self.buffer.saved = (self.x, self.y)
        elif letter == "8":
            self._to(*self.buffer.saved)
        elif letter in "DE":
            self._line_feed()
            self._to(0 if letter == "E" else self.x, self.y)
        elif letter == "M":
            if self.y == self.top:
                self._scroll_down(1)
            else:
                self._to(self.x, self.y - 1)
        elif letter == "c":
            self.main, self.other = Buffer(self.cols, self.height), None
            self._reset()
            self._to(0, 0)

    def _sequence(self, private: str, numbers: str, between: str, final: str) -> None:
        if private == "?" and final in "hl":
            for number in numbers.split(";"):
                self._mode(number, final == "h")
        elif final == "p" and between == "!":
            self._reset()
        elif not private and not between and (act := ACTIONS.get(final)):
            values = [int(number) if number.isdigit() else 0 for number in numbers.split(";")]
            act(self, values)

    def _mode(self, number: str, on: bool) -> None:
        if number in ("1049", "1047", "47"):
            if on and number == "1049":
                self.main.saved = (self.x, self.y)
            if on and self.other is None:
                self.other = Buffer(self.cols, self.height)
            elif not on and self.other is not None:
                self.other = None
            if not on and number == "1049":
                self._to(*self.main.saved)
        elif number == "7":
            self._autowrap = on
        elif number == "6":
            self._origin = on
            self._to(0, self.top if on else 0)

    # The cursor...

    def _to(self, x: int, y: int) -> None:
        self.x = max(0, min(x, self.cols - 1))
        self.y = max(0, min(y, self.height - 1))
        self._wrap_pending = False

    def _up(self, values: list[int]) -> None:
        least = self.top if self.y >= self.top else 0
        self._to(self.x, max(least, self.y - (values[0] or 1)))

    def _down(self, values: list[int]) -> None:
        most = self.bottom if self.y <= self.bottom else self.height - 1
        self._to(self.x, min(most, self.y + (values[0] or 1)))

    def _right(self, values: list[int]) -> None:
        self._to(self.x + (values[0] or 1), self.y)

    def _left(self, values: list[int]) -> None:
        self._to(self.x - (values[0] or 1), self.y)

    def _next_line(self, values: list[int]) -> None:
        self._down(values)
        self._to(0, self.y)

    def _previous_line(self, values: list[int]) -> None:
        self._up(values)
        self._to(0, self.y)

    def _column(self, values: list[int]) -> None:
        self._to((values[0] or 1) - 1, self.y)

    def _row(self, values: list[int]) -> None:
        self._to(self.x, (values[0] or 1) - 1 + (self.top if self._origin else 0))

    def _position(self, values: list[int]) -> None:
        row, column = [*values, 0][:2]
        y = (row or 1) - 1
        self._to((column or 1) - 1, min(self.top + y, self.bottom) if self._origin else y)

    def _save(self, values: list[int]) -> None:
        self.buffer.saved = (self.x, self.y)

    def _restore(self, values: list[int]) -> None:
        self._to(*self.buffer.saved)

    # Scrolling and erasing...

    def _line_feed(self) -> None:
        if self.y == self.bottom:
            self._scroll_up(1)
        elif self.y < self.height - 1:
            self.y += 1

    def _blank(self, count: int) -> list[list[str]]:
        return [[" "] * self.cols for _ in range(count)]

    def _scroll_up(self, count: int, top: int | None = None) -> None:
        top = self.top if top is None else top
        count = min(count, self.bottom - top + 1)
        rows = self.buffer.rows
        del rows[top : top + count]
        rows[self.bottom - count + 1 : self.bottom - count + 1] = self._blank(count)

    def _scroll_down(self, count: int, top: int | None = None) -> None:
        top = self.top if top is None else top
        count = min(count, self.bottom - top + 1)
        rows = self.buffer.rows
        del rows[self.bottom - count + 1 : self.bottom + 1]
        rows[top:top] = self._blank(count)

    def _region(self, values: list[int]) -> None:
        top, bottom = [*values, 0][:2]
        first, last = (top or 1) - 1, min(bottom or self.height, self.height) - 1
        if first < last:
            self.top, self.bottom = first, last
            self._to(0, self.top if self._origin else 0)

    def _insert_lines(self, values: list[int]) -> None:
        if self.top <= self.y <= self.bottom:
            self._scroll_down(values[0] or 1, self.y)
            self._to(0, self.y)

    def _delete_lines(self, values: list[int]) -> None:
        if self.top <= self.y <= self.bottom:
            self._scroll_up(values[0] or 1, self.y)
            self._to(0, self.y)

    def _insert_cells(self, values: list[int]) -> None:
        row = self.buffer.rows[self.y]
        self._cut_wide(row, self.x)
        row[self.x : self.x] = [" "] * min(values[0] or 1, self.cols - self.x)
        self._cut_wide(row, self.cols)
        del row[self.cols :]
        self._wrap_pending = False

    def _delete_cells(self, values: list[int]) -> None:
        row = self.buffer.rows[self.y]
        count = min(values[0] or 1, self.cols - self.x)
        self._cut_wide(row, self.x)
        self._cut_wide(row, self.x + count)
        del row[self.x : self.x + count]
        row += [" "] * count
        self._wrap_pending = False

    def _erase_cells(self, values: list[int]) -> None:
        self._wipe(self.y, self.x, min(self.cols, self.x + (values[0] or 1)))
        self._wrap_pending = False

    def _erase_line(self, values: list[int]) -> None:
        if values[0] <= 2:
            first, last = ((self.x, self.cols), (0, self.x + 1), (0, self.cols))[values[0]]
            self._wipe(self.y, first, last)
            self._wrap_pending = False

    def _erase_screen(self, values: list[int]) -> None:
        if values[0] > 2:
            return  # 3 clears what has scrolled away, which is not kept here
        self._erase_line(values)
        above, below = values[0] in (1, 2), values[0] in (0, 2)
        for y in range(self.height):
            if (above and y < self.y) or (below and y > self.y):
                self._wipe(y, 0, self.cols)

    def _wipe(self, y: int, first: int, last: int) -> None:
        row = self.buffer.rows[y]
        self._cut_wide(row, first)
        self._cut_wide(row, last)
        row[first:last] = [" "] * (last - first)

    def _repeat(self, values: list[int]) -> None:
        self._write(self._last * min(values[0] or 1, self.cols * self.height))

    def _plain_mode(self, values: list[int], on: bool) -> None:
        if 4 in values:
            self._insert = on


def _bounded(cols: int, rows: int) -> tuple[int, int]:
    return min(max(1, cols), COLS_MAX), min(max(1, rows), ROWS_MAX)


def cell_width(letter: str) -> int:
    """How many cells a character takes."""
    if unicodedata.east_asian_width(letter) in "WF":
        return 2
    return 0 if unicodedata.category(letter) in ("Mn", "Me", "Cf") else 1


ACTIONS: dict[str, Callable[[Grid, list[int]], None]] = {
    "A": Grid._up,
    "B": Grid._down,
    "C": Grid._right,
    "D": Grid._left,
    "E": Grid._next_line,
    "F": Grid._previous_line,
    "G": Grid._column,
    "`": Grid._column,
    "a": Grid._right,
    "d": Grid._row,
    "e": Grid._down,
    "H": Grid._position,
    "f": Grid._position,
    "J": Grid._erase_screen,
    "K": Grid._erase_line,
    "L": Grid._insert_lines,
    "M": Grid._delete_lines,
    "P": Grid._delete_cells,
    "X": Grid._erase_cells,
    "@": Grid._insert_cells,
    "S": lambda grid, values: grid._scroll_up(values[0] or 1),
    "T": lambda grid, values: grid._scroll_down(values[0] or 1),
    "r": Grid._region,
    "s": Grid._save,
    "u": Grid._restore,
    "b": Grid._repeat,
    "h": lambda grid, values: grid._plain_mode(values, True),
    "l": lambda grid, values: grid._plain_mode(values, False),
}
