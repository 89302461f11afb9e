"""Several terminals in one view: one in front, the others beside it. Nothing here changes a program's size."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from binascii import b2a_base64
from collections.abc import Sequence

from treadle.errors import TreadleError
from treadle.io.tasks import end_tasks
from treadle.light import Any
from treadle.terminal.client import Client
from treadle.terminal.listing import in_line, rows
from treadle.terminal.places import Place, find
from treadle.terminal.states import AT_WORK, WAITING
from treadle.terminal.viewers import panel as panels
from treadle.terminal.viewers import screen as screens
from treadle.terminal.viewers.live import LiveScreen, Screens
from treadle.terminal.viewers.panel import fitted, span
from treadle.wire.terminal.frames import ANSWERS

LIST_EVERY = 1.0
COLOURS_AFTER = 0.6
"""Seconds after which rows are looked at again for colours, which may change without the text."""
FRAME = 0.05
LEAST_ROWS = 4
"""A terminal beside the one in front gets at least so many rows, with its title."""
WIDE = 100
"""Minimum width, in columns, for the side-by-side layout; below it, the others stand under the one in front."""
KEYS = "arrows: choose  n: next that asks  a: answer it  i: type  Enter: join it  [: scroll  c: new  2: two  q: leave"
SHORT = "n: asking  a: answer  i: type  Enter: join  [: scroll  c: new  2: two  q: leave"
JOIN, NEW = "join", "new"
"""Why the wall is left, if not for good: to join a terminal, or to start one."""
NOT_TYPED = {
    "changed": "it asks something else now",
    "answered": "another answer was typed already",
    "no question": "it has no open question",
    "no key": "an answer is one key",
}
ATTRIBUTES = (
    (screens.BOLD, 1),
    (screens.FAINT, 2),
    (screens.ITALIC, 3),
    (screens.UNDERLINED, 4),
    (screens.INVERSE, 7),
    (screens.STRUCK, 9),
)
Run = tuple[str, str, str, int]
Area = tuple[int, int, int, int]
"""Column, row, width and height, the title's row included."""


def layout(count: int, cols: int, lines: int, alike: bool = False) -> list[Area]:
    """The place of each terminal that fits; the first is the one in front, and larger unless they are `alike`."""
    if count < 1 or cols < 4 or lines < 2:
        return []
    if count == 1:
        return [(0, 0, cols, lines)]
    if cols >= WIDE:
        wide = cols // 2 if alike else cols * 3 // 5
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


def end_of(message: str, cols: int) -> str:
    """As many of the parts of what a dialog asks as fit, the command last: the question itself is the first to go."""
    parts = message.split(" · ")
    while len(parts) > 1 and panels.width(" · ".join(parts)) > cols:
        parts.remove(next((part for part in parts if part.endswith("?")), parts[0]))
    return " · ".join(parts)


def painted(runs: Sequence[Run], cols: int, true_colour: bool = True) -> str:
    """A row of a screen in so many columns, with its colours."""
    parts, used = [], 0
    for text, ink, paper, flags in runs:
        text = panels.harmless(text)
        text = text if used + panels.width(text) <= cols else fitted(text, cols - used)
        look = [str(code) for flag, code in ATTRIBUTES if flags & flag]
        look += [_colour(kind, value, true_colour) for kind, value in ((38, ink), (48, paper)) if value]
        parts.append(f"\x1b[0;{';'.join(look)}m{text}" if look else f"\x1b[0m{text}")
        used += panels.width(text)
        if used >= cols:
            break
    return "".join([*parts, "\x1b[0m", " " * (cols - used)])


def _colour(kind: int, value: str, true_colour: bool) -> str:
    red, green, blue = bytes.fromhex(value[1:])
    if true_colour:
        return f"{kind};2;{red};{green};{blue}"
    return f"{kind};5;{16 + 36 * (red * 5 // 255) + 6 * (green * 5 // 255) + blue * 5 // 255}"


# What has scrolled away: looked through page by page, searched, and copied.

PAGER_KEYS = "q: back   /: search   n N: further up, down   v: select   arrows, PgUp PgDn, g G: move"
SELECTING = "arrows: select more lines   y: copy them   Esc: none"
WHEEL = 3
"""How many rows one step of the wheel moves."""


class Pager:
    """The lines of a screen, wrapped to a size, and which part of them is shown; at first the end."""

    def __init__(self, screen: screens.Screen, cols: int, rows: int) -> None:
        self.lines = screen.everything()
        while self.lines and not self.lines[-1].strip():
            self.lines.pop()
        self.sought = ""
        self.top = 0
        self.ends: tuple[int, int] | None = None
        """The rows where the selection begins, and where it is moved."""
        self._screen, self._rows_of = screen, screen.rows_of_lines()
        self.rows: list[tuple[int, int, str]] = []
        """Each row on the screen: the number of its line, where in it the row begins, and the text."""
        self.wrap(cols, rows)
        self.move(len(self.rows))

    def wrap(self, cols: int, rows: int) -> None:
        """For a window of this size. What was at the top stays there."""
        line = self.rows[self.top][0] if self.top and self.top < len(self.rows) else 0
        self.cols, self.height, self.ends, self._found = cols, rows, None, -1
        self.rows = [(number, *part) for number, text in enumerate(self.lines) for part in _parts(text, cols)]
        self.top = next((at for at, row in enumerate(self.rows) if row[0] >= line), 0)
        self.move(0)

    def move(self, by: int) -> None:
        if self.ends:
            begin, at = self.ends
            at = max(0, min(at + by, len(self.rows) - 1))
            self.ends = begin, at
            self.top = min(max(self.top, at - self.height + 1), at)
        else:
            self.top = max(0, min(self.top + by, len(self.rows) - self.height))

    def search(self, text: str) -> bool:
        """Go to the last place before the end of this page that has the text."""
        self.sought = text
        return self._seek(range(min(self.top + self.height, len(self.rows)) - 1, -1, -1))

    def next(self, step: int) -> bool:
        """Go on searching: downwards (1) or upwards (-1)."""
        end = len(self.rows) if step > 0 else -1
        return self._seek(range(self._found + step if self._found >= 0 else self.top, end, step))

    def _seek(self, among: range) -> bool:
        for at in among if self.sought else ():
            number, begin, _ = self.rows[at]
            if not begin and self._places(self.lines[number]):  # a line is looked at as a whole, from its first row
                self._found = self.top = at
                self.ends = None
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

    def select(self, row: int, begin: bool) -> None:
        """Begin a selection at this row of the page, or move its end there."""
        at = max(0, min(self.top + row, len(self.rows) - 1))
        self.ends = (at if begin or not self.ends else self.ends[0], at)

    def selected(self) -> str:
        """What is selected; a line in several rows is one line."""
        first, last = sorted(self.ends or (0, -1))
        rows = self.rows[first : last + 1]
        return "".join(f"\n{part}" if at and not begin else part for at, (_, begin, part) in enumerate(rows))

    def page(self, true_colour: bool) -> list[str]:
        """The rows to show, in their colours, with what was sought or is selected marked."""
        first, last = sorted(self.ends or (-1, -1))
        shown = []
        for at, (number, begin, part) in enumerate(self.rows[self.top : self.top + self.height], self.top):
            if first <= at <= last:
                shown.append(f"\x1b[7m{fitted(part, self.cols)}\x1b[0m")
            elif self._places(part):
                shown.append(self._marked(part))
            else:
                shown.append(painted(_cut(self._styled(number), begin, len(part)), self.cols, true_colour))
        return shown + [" " * self.cols] * (self.height - len(shown))

    def _marked(self, part: str) -> str:
        shown, end, pieces = fitted(part, self.cols), 0, []
        for at in self._places(shown):
            after = at + len(self.sought)
            pieces += [shown[end:at], "\x1b[7m", shown[at:after], "\x1b[0m"]
            end = after
        return "".join([*pieces, shown[end:]])

    def _styled(self, line: int) -> list[Run]:
        rows = self._rows_of[line] if line < len(self._rows_of) else []
        runs = [run for row in rows for run in self._screen.runs(row, "screen")]
        same = "".join(run[0] for run in runs).rstrip() == self.lines[line]
        return runs if same else [(self.lines[line], "", "", 0)]


def _cut(runs: Sequence[Run], begin: int, size: int) -> list[Run]:
    """The part of a styled line that one row shows."""
    found: list[Run] = []
    for text, ink, paper, flags in runs:
        if part := text[max(0, begin) : max(0, begin + size)]:
            found.append((part, ink, paper, flags))
        begin -= len(text)
    return found


def _parts(text: str, cols: int) -> list[tuple[int, str]]:
    """A line in pieces that each fit, and where each begins."""
    found, begin, used = [], 0, 0
    for at, letter in enumerate(text):
        wide = panels.width(letter)
        if used + wide > cols and at > begin:
            found.append((begin, text[begin:at]))
            begin, used = at, 0
        used += wide
    return [*found, (begin, text[begin:])]


MOVES = {"up": -1, "k": -1, "down": 1, "j": 1, "enter": 1, "home": -(1 << 40), "g": -(1 << 40)}
MOVES |= {"end": 1 << 40, "G": 1 << 40, panels.WHEEL_UP: -WHEEL, panels.WHEEL_DOWN: WHEEL}
PAGES = {"page up": -1, "b": -1, "page down": 1, " ": 1}


def look_through(panel: panels.Panel, title: str, screen: screens.Screen, *, searching: bool = False) -> None:
    """Show the lines of a screen until the person leaves them."""
    cols, rows = panel.size
    pager = Pager(screen, cols, rows - 1)
    words = "search: what?" if searching else ""
    while True:
        key = "/" if searching else ""
        if not key:
            place = f"{title}  {min(len(pager.rows), pager.top + pager.height)} of {len(pager.rows)}"
            panel.show(
                pager.page(panel.true_colour), f" {place}   {words or (SELECTING if pager.ends else PAGER_KEYS)}"
            )
            key, words = panel.key(), ""
        what, _, row = panels.mouse_at(key)
        key = what or key
        if key in ("q", "\x03", panels.GONE) or key == "escape" and not pager.ends:
            return
        if key == "escape":
            pager.ends = None
        elif key in MOVES or key in PAGES:
            pager.move(MOVES.get(key) or PAGES[key] * pager.height)
        elif key in ("v", panels.PRESSED, panels.DRAGGED):
            pager.select(pager.height - 1 if key == "v" else row, begin=key != panels.DRAGGED)
        elif key in ("y", panels.RELEASED) and pager.ends:
            words = _copied(panel, pager)
        elif key == "/":
            searching = False
            panel.show(pager.page(panel.true_colour), "")
            text = panel.ask("search:", pager.sought)
            words = "" if not text or pager.search(text) else f"{text!r} is not in it"
        elif key in ("n", "N") and not pager.next(-1 if key == "n" else 1):
            words = f"{pager.sought!r} is not further {'up' if key == 'n' else 'down'}" if pager.sought else PAGER_KEYS
        elif key == panels.RESIZED:
            cols, rows = panel.size
            pager.wrap(cols, rows - 1)


def _copied(panel: panels.Panel, pager: Pager) -> str:
    """Put what is selected into the clipboard of the person's terminal (OSC 52). A mere click copies nothing."""
    text = pager.selected()
    if pager.ends and pager.ends[0] == pager.ends[1] and not text.strip():
        pager.ends = None
        return ""
    panel.write(f"\x1b]52;c;{b2a_base64(text.encode(), newline=False).decode()}\x07")
    pager.ends = None
    count = text.count("\n") + 1
    return f"{count} line{'s were' if count > 1 else ' was'} given to your terminal's clipboard"


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

    def __init__(self, directory: str, panel: panels.Panel, detach_key: int, chosen: str = "", words: str = "") -> None:
        self.directory = directory
        self.panel = panel
        self.chosen = chosen
        self.typing = ""
        """The id of the terminal that is typed into; it stays in front, whichever asks meanwhile."""
        self.answering: tuple[str, str] | None = None
        """The terminal and the dialog that the next key answers: that one and no other."""
        self.found: list[dict[str, Any]] = []
        self.tiles: dict[str, Tile] = {}
        self.words = words
        self.beside = ""
        """The terminal that shares the view with the one in front, when only two are shown."""
        self._drawn: list[str] = []
        self._leave = panels.key_forms(detach_key)
        self._screens = Screens(self._find)
        self._dirty = asyncio.Event()
        self._over = asyncio.Event()
        self._left_for = ("", "")

    async def _find(self, name: str) -> Place:
        return find(self.directory, name)

    async def run(self) -> tuple[str, str]:
        """Show it until the person leaves. Returns why: to join a terminal, with its id; to start one, with the command
        line; or nothing."""
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
        return self._left_for

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

    def front(self) -> str:
        """The id of the one in front."""
        return str(order(self.found, self.typing or self.chosen)[0]["id"]) if self.found else ""

    def shown(self) -> list[dict[str, Any]]:
        """In the order of their places: the one in front first; two that share the view stay where they are."""
        pair = {self.beside, self.front()}
        if len(pair) == 2 and pair <= {row["id"] for row in self.found}:
            return sorted((row for row in self.found if row["id"] in pair), key=lambda row: str(row["id"]))
        return order(self.found, self.typing or self.chosen)

    def areas(self) -> list[Area]:
        cols, lines = self.panel.size
        return layout(len(self.shown()), cols, lines - 1, bool(self.beside))

    def picture(self) -> list[str]:
        """The pieces of the picture, each with its place: only those that changed have to be written."""
        cols, lines = self.panel.size
        shown, areas, front = self.shown(), self.areas(), self.front()
        parts = []
        if not shown:
            parts.append("\x1b[2J\x1b[2;3HNo terminal runs here. The key c starts one, and so does `treadle run`.")
        for row, area in zip(shown, areas, strict=False):
            parts += self._tile(row, area, row["id"] == front)
        if len(areas) > 1 and cols >= WIDE:
            parts += [f"\x1b[{line};{areas[0][2] + 1}H\x1b[2m│\x1b[0m" for line in range(1, lines)]
        more = f"{len(shown) - len(areas)} more   " if len(shown) > len(areas) else ""
        help_ = KEYS if cols > len(KEYS) else SHORT
        if self.typing:
            help_ = f"you type into {self.typing}; Ctrl-\\ ends that"
        if self.answering:
            help_ = "the next key answers {} [{}]; Ctrl-\\ answers nothing".format(*self.answering)
        parts.append(f"\x1b[{lines};1H\x1b[7m{fitted(f' {self.words or more + help_}', cols)}\x1b[0m")
        return parts

    def _tile(self, row: dict[str, Any], area: Area, front: bool) -> list[str]:
        x, y, cols, lines = area
        asks, works = row["state"] in WAITING, row["state"] in AT_WORK
        colour = 41 if asks else 44 if works else 100
        about = [row["id"], row.get("agent") or "", f"{row['state']} {span((row.get('state_ms') or 0) // 1000)}"]
        about += [f"[{row.get('dialog') or '?'}] "] if asks else []
        title = f" {'  '.join(filter(None, about))}"
        title = fitted(title + end_of(row.get("message") or "" if asks else "", cols - panels.width(title)), cols)
        parts = [f"\x1b[{y + 1};{x + 1}H\x1b[0;{'1;' if front else ''}97;{colour}m{title}\x1b[0m"]
        tile = self.tiles.get(row["id"])
        body = tile.part(lines - 1)[1] if tile else [()] * (lines - 1)
        for number, runs in enumerate(body, y + 2):
            parts.append(f"\x1b[{number};{x + 1}H{painted(runs, cols, self.panel.true_colour)}")
        return parts

    def cursor(self) -> str:
        """Puts the cursor where the program that is typed into has it."""
        tile = self.tiles.get(self.typing)
        found = [area for row, area in zip(self.shown(), self.areas(), strict=False) if row["id"] == self.typing]
        if tile is None or tile.cursor is None or not found:
            return ""
        x, y, cols, lines = found[0]
        first, _ = tile.part(lines - 1)
        column, line = tile.cursor
        inside = column < cols and 0 <= line - first < lines - 1
        return f"\x1b[{y + 2 + line - first};{x + 1 + column}H\x1b[?25h" if inside else ""

    # What the person does...

    def _signalled(self) -> None:
        numbers = set(os.read(self.panel.signals, 64))
        if {signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT} & numbers:
            self._over.set()
        self._redraw()
        self._dirty.set()

    def _typed(self) -> None:
        try:
            data = os.read(0, 65536)
        except OSError:
            data = b""
        if not data:
            self._over.set()
        # What the mouse does is meant for the wall, also while keys go to a program.
        text = data.decode(errors="surrogateescape")
        self.panel.keys += panels.keys_in("".join(found[0] for found in panels.MOUSE.finditer(text)).encode())
        data = panels.MOUSE.sub("", text).encode(errors="surrogateescape")
        if data and self.answering:
            self._answer(data, *self.answering)
        elif data and self.typing:
            self._pass_on(data)
        else:
            self.panel.keys += panels.keys_in(data)
        while self.panel.keys:
            self._command(self.panel.keys.pop(0))
        if self.panel.gone:
            self._over.set()
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
        front = self.front()
        what, column, line = panels.mouse_at(key)
        if what:
            self._pointed(what, column, line)
        elif key in ("q", "d", "\x03", "\x1c"):
            self._over.set()
        elif key == "escape":
            self.chosen = self.beside = ""
        elif front and key in ("down", "right", "tab", "j", "up", "left", "back tab", "k"):
            self._step(front, 1 if key in ("down", "right", "tab", "j") else -1)
        elif key == "n":
            asking = [row["id"] for row in order(self.found) if row["state"] in WAITING]
            after = asking[(asking.index(front) + 1) % len(asking)] if front in asking else (asking or [""])[0]
            if after:
                self._bring(after)
            self.words = "" if after else "no terminal waits for a person"
        elif front and key == "a":
            row = next(row for row in self.found if row["id"] == front)
            dialog = row.get("dialog") if row["state"] in WAITING else None
            self.answering = (front, dialog) if dialog else None
            self.words = "" if dialog else f"{front} asks nothing that one key answers"
            self.chosen = front
        elif front and key == "i":
            self.typing = self.chosen = front
        elif front and key in ("[", "/"):
            self._look_back(front, key == "/")
        elif front and key == "2":
            others = [row["id"] for row in order(self.found) if row["id"] != front]
            self.chosen, self.beside = front, "" if self.beside or not others else others[0]
            self._redraw()
        elif key == "c":
            if command := self.panel.ask("run which command?", os.environ.get("SHELL", "sh")):
                self._leave_for(NEW, command)
            self._redraw()
        elif front and key == "enter":
            self._leave_for(JOIN, front)

    def _leave_for(self, what: str, name: str) -> None:
        self._left_for = what, name
        self._over.set()

    def _step(self, front: str, by: int) -> None:
        """Put another one in front; of two that share the view, the other."""
        names = sorted(row["id"] for row in self.found)
        self._bring(self.beside if self.beside in names else names[(names.index(front) + by) % len(names)])

    def _bring(self, name: str) -> None:
        """Put it in front; if it is beside that one, they change."""
        self.beside = self.front() if self.beside == name else self.beside
        self.chosen = name

    def _pointed(self, what: str, column: int, line: int) -> None:
        """A click puts the terminal there in front, the wheel looks at what has scrolled away in it."""
        for row, (x, y, cols, lines) in zip(self.shown(), self.areas(), strict=False):
            if x <= column < x + cols and y <= line < y + lines and what in (panels.PRESSED, panels.WHEEL_UP):
                self._bring(row["id"])
                self.typing = row["id"] if self.typing else ""
                self.answering = None
                if what == panels.WHEEL_UP:
                    self._look_back(row["id"], False)
                return

    def _look_back(self, name: str, searching: bool) -> None:
        try:
            with screens.story(Place(self.directory, name)).screen(screens.SCROLLBACK) as screen:
                look_through(self.panel, name, screen, searching=searching)
        except TreadleError as error:
            self.words = f"{name}: {error.message}"
        self._redraw()

    def _redraw(self) -> None:
        self.panel.write("\x1b[2J")
        self._drawn = []
