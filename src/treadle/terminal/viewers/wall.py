"""Several terminals in one view: one in front, the others beside it. Nothing here changes a program's size."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Sequence

from treadle.errors import TreadleError
from treadle.io.tasks import end_tasks
from treadle.light import Any
from treadle.terminal.client import Client
from treadle.terminal.listing import in_line, rows
from treadle.terminal.places import Place, find
from treadle.terminal.states import AT_WORK, WAITING
from treadle.terminal.viewers.live import LiveScreen, Screens
from treadle.terminal.viewers.panel import Panel, fitted, harmless, key_forms, keys_in, span, width
from treadle.terminal.viewers.screen import BOLD, FAINT, INVERSE, ITALIC, STRUCK, UNDERLINED
from treadle.wire.terminal.frames import ANSWERS

LIST_EVERY = 1.0
COLOURS_AFTER = 0.6
"""Seconds after which rows are looked at again for colours, which may change without the text."""
FRAME = 0.05
LEAST_ROWS = 4
"""A terminal beside the one in front gets at least so many rows, with its title."""
WIDE = 100
"""Minimum width, in columns, for the side-by-side layout; below it, the others stand under the one in front."""
KEYS = "arrows: choose   n: next that asks   a: answer it   i: type into it   Enter: join it   Esc: who asks   q: leave"
NOT_TYPED = {
    "changed": "it asks something else now",
    "answered": "another answer was typed already",
    "no question": "it asks nothing now",
    "no key": "an answer is one key",
}
ATTRIBUTES = ((BOLD, 1), (FAINT, 2), (ITALIC, 3), (UNDERLINED, 4), (INVERSE, 7), (STRUCK, 9))
Run = tuple[str, str, str, int]
Area = tuple[int, int, int, int]
"""Column, row, width and height, the title's row included."""


def layout(count: int, cols: int, lines: int) -> list[Area]:
    """The place of each terminal that fits; the first is the one in front."""
    if count < 1 or cols < 4 or lines < 2:
        return []
    if count == 1:
        return [(0, 0, cols, lines)]
    if cols >= WIDE:
        wide = cols * 3 // 5
        fits = max(1, min(count - 1, lines // LEAST_ROWS))
        return [(0, 0, wide, lines), *_split(wide + 1, 0, cols - wide - 1, lines, fits)]
    high = max(2, lines // 2)
    fits = max(1, min(count - 1, (lines - high) // LEAST_ROWS))
    return [(0, 0, cols, high), *_split(0, high, cols, lines - high, fits)]


def _split(x: int, y: int, cols: int, lines: int, count: int) -> list[Area]:
    """One below the other, the last with what is left."""
    each = lines // count
    return [(x, y + n * each, cols, each if n < count - 1 else lines - each * n) for n in range(count)]


def order(found: Sequence[dict[str, Any]], chosen: str = "") -> list[dict[str, Any]]:
    """The one in front first: the chosen one, or else the one that has waited for a person the longest."""
    return sorted(found, key=lambda row: (row["id"] != chosen, in_line(row)))


def painted(runs: Sequence[Run], cols: int, true_colour: bool = True) -> str:
    """A row of a screen in so many columns, with its colours."""
    parts, used = [], 0
    for text, ink, paper, flags in runs:
        text = harmless(text)
        text = text if used + width(text) <= cols else fitted(text, cols - used)
        look = [str(code) for flag, code in ATTRIBUTES if flags & flag]
        look += [_colour(kind, value, true_colour) for kind, value in ((38, ink), (48, paper)) if value]
        parts.append(f"\x1b[0;{';'.join(look)}m{text}" if look else f"\x1b[0m{text}")
        used += width(text)
        if used >= cols:
            break
    return "".join([*parts, "\x1b[0m", " " * (cols - used)])


def _colour(kind: int, value: str, true_colour: bool) -> str:
    red, green, blue = bytes.fromhex(value[1:])
    if true_colour:
        return f"{kind};2;{red};{green};{blue}"
    return f"{kind};5;{16 + 36 * (red * 5 // 255) + 6 * (green * 5 // 255) + blue * 5 // 255}"


class Tile:
    """One terminal on the wall: its screen as last seen."""

    def __init__(self, live: LiveScreen) -> None:
        self.live = live
        self.rows: list[Sequence[Run]] = []
        self.cursor: tuple[int, int] | None = None
        self._at = 0
        self._again = 0.0

    def look(self) -> bool:
        """Take over what has changed. Whether anything had."""
        now = time.monotonic()
        if self._at and not self.live.changed.is_set() and (not self._again or now < self._again):
            return False
        self._again = now + COLOURS_AFTER if self.live.changed.is_set() else 0.0
        self.live.changed.clear()
        frame = self.live.frame(self._at)
        if "cols" not in frame:
            return False  # it is being rebuilt
        if frame["full"] or len(self.rows) != frame["lines"]:
            self.rows = [()] * frame["lines"]
        for number, runs in frame["rows"].items():
            self.rows[number] = runs
        self.cursor = tuple(frame["cursor"]) if frame["cursor"] else None
        self._at = frame["at"]
        return True

    def part(self, count: int) -> tuple[int, list[Sequence[Run]]]:
        """The rows to show where there is room for `count`, and the number of the first: those with the cursor, or
        else the last that are not empty."""
        last = max((number for number, runs in enumerate(self.rows) if runs), default=0)
        last = max(last, self.cursor[1]) if self.cursor else last
        first = max(0, last + 1 - count)
        if self.cursor and self.cursor[1] < first:
            first = self.cursor[1]
        shown = self.rows[first : first + count]
        return first, [*shown, *[()] * (count - len(shown))]


class Wall:
    """Follows the terminals of a directory, draws them, and passes on what is typed."""

    def __init__(self, directory: str, panel: Panel, detach_key: int, chosen: str = "") -> None:
        self.directory = directory
        self.panel = panel
        self.chosen = chosen
        self.typing = ""
        """The id of the terminal that is typed into; it stays in front, whichever asks meanwhile."""
        self.answering: tuple[str, str] | None = None
        """The terminal and the dialog that the next key answers: that one and no other."""
        self.found: list[dict[str, Any]] = []
        self.tiles: dict[str, Tile] = {}
        self.words = ""
        self._drawn: list[str] = []
        self._leave = key_forms(detach_key)
        self._screens = Screens(self._find)
        self._dirty = asyncio.Event()
        self._over = asyncio.Event()
        self._join = ""
        self._true_colour = os.environ.get("COLORTERM", "") in ("truecolor", "24bit")

    async def _find(self, name: str) -> Place:
        return find(self.directory, name)

    async def run(self) -> str:
        """Show it until the person leaves. Returns the terminal that they want to join, or nothing."""
        loop = asyncio.get_running_loop()
        for fd, act in ((0, self._typed), (self.panel.signals, self._signalled)):
            loop.add_reader(fd, act)
        working = [asyncio.create_task(self._list()), asyncio.create_task(self._draw())]
        ending = asyncio.create_task(self._over.wait())
        try:
            done, _ = await asyncio.wait([*working, ending], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            await end_tasks(*working, ending)
            for fd in (0, self.panel.signals):
                loop.remove_reader(fd)
            self._screens.close()
        return self._join

    async def _list(self) -> None:
        while True:
            found = await asyncio.to_thread(rows, self.directory)
            self.found = [row for row in found if row["alive"]]
            for row in self.found:
                if row["id"] not in self.tiles:
                    try:
                        self.tiles[row["id"]] = Tile(await self._screens.watch(row["id"]))
                    except TreadleError as error:
                        self.words = f"{row['id']}: {error.message}"
            living = {row["id"] for row in self.found}
            for name in [name for name, tile in self.tiles.items() if name not in living or tile.live.problem]:
                self._screens.leave(self.tiles.pop(name).live)
            if self.typing and self.typing not in living:
                self.words, self.typing = f"{self.typing} has ended", ""
            self._dirty.set()
            await asyncio.sleep(LIST_EVERY)

    async def _draw(self) -> None:
        while True:
            changed = [tile.look() for tile in self.tiles.values()]
            if any(changed) or self._dirty.is_set():
                self._dirty.clear()
                before, self._drawn = self._drawn, self.picture()
                same = before if len(before) == len(self._drawn) else [""] * len(self._drawn)
                new = [piece for piece, old in zip(self._drawn, same, strict=True) if piece != old]
                self.panel.write(f"\x1b[?2026h\x1b[?25l{''.join(new)}{self.cursor()}\x1b[?2026l")
            await asyncio.sleep(FRAME)

    # Drawing...

    def shown(self) -> list[dict[str, Any]]:
        return order(self.found, self.typing or self.chosen)

    def picture(self) -> list[str]:
        """The pieces of the picture, each with its place: only those that changed have to be written."""
        cols, lines = self.panel.size
        shown = self.shown()
        areas = layout(len(shown), cols, lines - 1)
        parts = []
        if not shown:
            parts.append("\x1b[2J\x1b[2;3HNo terminal runs here. `treadle run -- COMMAND` starts one.")
        for number, (row, area) in enumerate(zip(shown, areas, strict=False)):
            parts += self._tile(row, area, number == 0)
        if len(areas) > 1 and cols >= WIDE:
            parts += [f"\x1b[{line};{areas[0][2] + 1}H\x1b[2m│\x1b[0m" for line in range(1, lines)]
        more = f"{len(shown) - len(areas)} more   " if len(shown) > len(areas) else ""
        help_ = f"you type into {self.typing}; Ctrl-\\ ends that" if self.typing else KEYS
        if self.answering:
            help_ = "the next key answers {} [{}]; Ctrl-\\ answers nothing".format(*self.answering)
        parts.append(f"\x1b[{lines};1H\x1b[7m{fitted(f' {self.words or more + help_}', cols)}\x1b[0m")
        return parts

    def _tile(self, row: dict[str, Any], area: Area, front: bool) -> list[str]:
        x, y, cols, lines = area
        asks, works = row["state"] in WAITING, row["state"] in AT_WORK
        colour = 41 if asks else 44 if works else 100
        about = [row["id"], row.get("agent") or "", f"{row['state']} {span((row.get('state_ms') or 0) // 1000)}"]
        about += [f"[{row.get('dialog') or '?'}] {row.get('message') or ''}"] if asks else []
        title = fitted(f" {'  '.join(filter(None, about))}", cols)
        parts = [f"\x1b[{y + 1};{x + 1}H\x1b[0;{'1;' if front else ''}97;{colour}m{title}\x1b[0m"]
        tile = self.tiles.get(row["id"])
        body = tile.part(lines - 1)[1] if tile else [()] * (lines - 1)
        for number, runs in enumerate(body, y + 2):
            parts.append(f"\x1b[{number};{x + 1}H{painted(runs, cols, self._true_colour)}")
        return parts

    def cursor(self) -> str:
        """Puts the cursor where the program that is typed into has it."""
        cols, lines = self.panel.size
        tile, areas = self.tiles.get(self.typing), layout(len(self.found), cols, lines - 1)
        if tile is None or tile.cursor is None or not areas:
            return ""
        x, y, cols, lines = areas[0]
        first, _ = tile.part(lines - 1)
        column, line = tile.cursor
        inside = column < cols and 0 <= line - first < lines - 1
        return f"\x1b[{y + 2 + line - first};{x + 1 + column}H\x1b[?25h" if inside else ""

    # What the person does...

    def _signalled(self) -> None:
        numbers = set(os.read(self.panel.signals, 64))
        if {signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT} & numbers:
            self._over.set()
        self.panel.write("\x1b[2J")
        self._drawn = []
        self._dirty.set()

    def _typed(self) -> None:
        try:
            data = os.read(0, 65536)
        except OSError:
            data = b""
        if not data:
            self._over.set()
        elif self.answering:
            self._answer(data, *self.answering)
        elif self.typing:
            self._pass_on(data)
        else:
            for key in keys_in(data):
                self._command(key)
        self._dirty.set()

    def _pass_on(self, data: bytes) -> None:
        if data in self._leave:
            self.typing = ""
            return
        try:
            with Client(Place(self.directory, self.typing).sock) as client:
                client.input(data)
        except TreadleError as error:
            self.words, self.typing = f"{self.typing}: {error.message}", ""

    def _answer(self, data: bytes, name: str, dialog: str) -> None:
        self.answering = None
        if data in self._leave:
            return
        try:
            with Client(Place(self.directory, name).sock) as client:
                reply = client.type_in(data, ANSWERS, dialog)
        except TreadleError as error:
            self.words = f"{name}: {error.message}"
        else:
            why = "" if reply["typed"] else NOT_TYPED.get(reply["why"], "it is just changing; try again")
            self.words = f"{name}: not answered: {why}" if why else f"{name} was answered"

    def _command(self, key: str) -> None:
        self.words = ""
        names = sorted(row["id"] for row in self.found)
        front = shown[0]["id"] if (shown := self.shown()) else ""
        if key in ("q", "\x03", "\x1c"):
            self._over.set()
        elif key == "escape":
            self.chosen = ""
        elif front and key in ("down", "right", "tab", "j", "up", "left", "back tab", "k"):
            step = 1 if key in ("down", "right", "tab", "j") else -1
            self.chosen = names[(names.index(front) + step) % len(names)]
        elif key == "n":
            asking = [row["id"] for row in order(self.found) if row["state"] in WAITING]
            after = asking[(asking.index(front) + 1) % len(asking)] if front in asking else (asking or [""])[0]
            self.chosen, self.words = after or self.chosen, "" if after else "no terminal waits for a person"
        elif front and key == "a":
            dialog = shown[0].get("dialog") if shown[0]["state"] in WAITING else None
            self.answering = (front, dialog) if dialog else None
            self.words = "" if dialog else f"{front} asks nothing that one key answers"
            self.chosen = front
        elif front and key == "i":
            self.typing = self.chosen = front
        elif front and key == "enter":
            self._join = self.chosen = front
            self._over.set()
