"""What a person would see: a session's output run through an emulator in the process that asks."""

from __future__ import annotations

import os
from collections.abc import Iterator

from treadle.errors import MissingExtra, NotFound, PeerStalled, TimedOut
from treadle.io.files import opened
from treadle.light import Any
from treadle.terminal.client import Client
from treadle.terminal.history import exit_record
from treadle.terminal.places import Place
from treadle.wire.terminal import frames as wire

# The supervisor keeps no screen, so that it stays small. All output is in a file beside its socket; this reads it and
# applies each change of size where it happened. The emulator is Ghostty's (`pip install 'treadle[screen]'`); only
# `Screen` uses it directly.

BLOCK = 1 << 20
ANSWER = 2.0
"""How many seconds a supervisor has to show that it supports our additions."""
FAR_ANSWER = 15.0
"""The same for one on another machine."""
PLAIN_SIZE = (220, 50)
"""The initial size in the plain protocol's own supervisor, which does not report changes."""
REPLAYED = 0.3
"""A replay without a marked end counts as over after this many seconds of silence."""
SCROLLBACK = 20_000
"""How many lines that have scrolled away can be looked at."""
SCROLLBACK_BYTES = 256 * 1024 * 1024
"""The most memory that these may take: 8 bytes for each cell, and a line has as many cells as the screen is wide."""
CELLS_MAX = 1 << 24
"""The most cells that are emulated. The wire allows 65535 x 65535, which would take for ever: the lower rows of such
a screen are left out."""


class Screen:
    """A terminal without a display. Feed it output; ask what is on it."""

    def __init__(self, cols: int, rows: int, scrollback: int = 0) -> None:
        try:
            from pyghostty import Terminal, ffi, lib
        except ImportError:
            raise MissingExtra("a view of the screen", "screen") from None
        self._terminal = Terminal(*_bounded(cols, rows), scrollback=scrollback)
        if scrollback:  # else a limit in bytes, which the library has no method for, leaves a few hundred lines
            most = ffi.new("size_t *", SCROLLBACK_BYTES)
            lib.ghostty_terminal_set(self._terminal._t[0], lib.GHOSTTY_TERMINAL_OPT_SCROLLBACK_MAX_BYTES, most)

    def __enter__(self) -> Screen:
        return self

    def __exit__(self, *_: object) -> None:
        self._terminal.close()

    def feed(self, data: bytes) -> None:
        self._terminal.feed(data)

    def resize(self, cols: int, rows: int) -> None:
        self._terminal.resize(*_bounded(cols, rows))

    @property
    def size(self) -> tuple[int, int]:
        cols, rows = self._terminal.size
        return cols, rows

    @property
    def cursor(self) -> tuple[int, int]:
        x, y = self._terminal.cursor
        return x, y

    @property
    def cursor_visible(self) -> bool:
        return bool(self._terminal.get("cursor_visible", "bool"))

    @property
    def alternate(self) -> bool:
        return bool(self._terminal.get("active_screen", "int"))

    @property
    def title(self) -> str:
        from pyghostty import ffi

        found = self._terminal.get("title", "GhosttyString")
        return ffi.buffer(found.ptr, found.len)[:].decode("utf-8", "replace") if found.len else ""

    def lines(self) -> list[str]:
        """The rows from top to bottom, without trailing spaces."""
        found = [line.rstrip() for line in self._terminal.text().split("\n")]
        return found + [""] * (self.size[1] - len(found))

    def everything(self) -> list[str]:
        """All lines, including those that have scrolled away; wrapped lines are joined."""
        return [line.rstrip() for line in str(self._terminal.contents()).split("\n")]

    def rows_of_lines(self) -> list[list[int]]:
        """For each line of `everything`, the numbers of its rows, counted from the first that has scrolled away."""
        from pyghostty import ffi, lib

        row, continues = ffi.new("GhosttyRow *"), ffi.new("bool *")
        found: list[list[int]] = []
        for number in range(self._terminal.get("total_rows", "size_t")):
            lib.ghostty_grid_ref_row(self._terminal.ref(0, number, "screen"), row)
            lib.ghostty_row_get(row[0], lib.GHOSTTY_ROW_DATA_WRAP_CONTINUATION, continues)
            if found and continues[0]:
                found[-1].append(number)
            elif found or self.runs(number, "screen"):  # empty lines at the beginning are not in `everything`
                found.append([number])
        return found

    def runs(self, row: int, of: str = "active") -> list[tuple[str, str, str, int]]:
        """The row in pieces of one style each: text, colour, background (`#rrggbb`, or empty), and text attributes.
        `of` is `active` for what is shown, `screen` for all, with what has scrolled away.

        The row is looked up once, and a style only where it changes: a lookup is much of the cost.
        """
        from pyghostty import ffi, lib

        ref, style = self._terminal.ref(0, row, of), ffi.new("GhosttyStyle *")
        style.size = ffi.sizeof("GhosttyStyle")
        count, points = ffi.new("size_t *"), ffi.new("uint32_t[32]")
        raw = ffi.buffer(style)
        found: list[tuple[str, str, str, int]] = []
        look, last, text = ("", "", 0), b"", ""
        for col in range(self.size[0]):
            ref.x = col
            if lib.ghostty_grid_ref_style(ref, style) == lib.GHOSTTY_SUCCESS and (now := raw[:]) != last:
                if text:
                    found.append((text, *look))
                look, last, text = _look(style, lib), now, ""
            got = lib.ghostty_grid_ref_graphemes(ref, points, 32, count) == lib.GHOSTTY_SUCCESS
            text += "".join(map(chr, points[0 : count[0]])) if got and count[0] else "" if _follows_wide(text) else " "
        if text.rstrip() or look != ("", "", 0):
            found.append((text if look[1] or look[2] & INVERSE else text.rstrip(), *look))
        return found


BOLD, FAINT, ITALIC, UNDERLINED, INVERSE, STRUCK = 1, 2, 4, 8, 16, 32


def _look(style: Any, lib: Any) -> tuple[str, str, int]:
    def shown(value: Any) -> str:
        if value.tag == lib.GHOSTTY_STYLE_COLOR_PALETTE:
            red, green, blue = palette(value.value.palette)
            return f"#{red:02x}{green:02x}{blue:02x}"
        if value.tag == lib.GHOSTTY_STYLE_COLOR_RGB:
            return f"#{value.value.rgb.r:02x}{value.value.rgb.g:02x}{value.value.rgb.b:02x}"
        return ""

    flags = BOLD * bool(style.bold) | FAINT * bool(style.faint) | ITALIC * bool(style.italic)
    flags |= UNDERLINED * bool(style.underline) | INVERSE * bool(style.inverse) | STRUCK * bool(style.strikethrough)
    return shown(style.fg_color), shown(style.bg_color), flags


def _follows_wide(text: str) -> bool:
    """Whether the cell before holds a wide character that also covers this one."""
    import unicodedata

    return bool(text) and unicodedata.east_asian_width(text[-1]) in "WF"


def _bounded(cols: int, rows: int) -> tuple[int, int]:
    cols = max(1, cols)
    return cols, max(1, min(rows, CELLS_MAX // cols))


BASIC = ("000000", "cd3131", "0dbc79", "e5e510", "2472c8", "bc3fbc", "11a8cd", "e5e5e5")
BRIGHT = ("666666", "f14c4c", "23d18b", "f5f543", "3b8eea", "d670d6", "29b8db", "ffffff")


def palette(number: int) -> tuple[int, int, int]:
    """The usual colour of a palette number up to 255."""
    if number < 16:
        red, green, blue = bytes.fromhex((*BASIC, *BRIGHT)[number])
        return red, green, blue
    if number >= 232:
        grey = 8 + 10 * (number - 232)
        return grey, grey, grey
    levels = (0, 95, 135, 175, 215, 255)
    number -= 16
    return levels[number // 36], levels[number // 6 % 6], levels[number % 6]


class Story:
    """How a session's screen came about: its output so far, and its sizes, each with the offset where it began."""

    def __init__(
        self, sizes: list[tuple[int, int, int]], start: int, parts: Iterator[bytes], end: int | None = None
    ) -> None:
        self.sizes = sizes
        self.start = start
        self.parts = parts
        self.end = end
        """The offset at which later output begins; None if the supervisor does not tell."""

    def screen(self, scrollback: int = 0) -> Screen:
        sizes = list(self.sizes)
        _, cols, rows = sizes.pop(0)
        while sizes and sizes[0][0] <= self.start:
            _, cols, rows = sizes.pop(0)
        screen, at = Screen(cols, rows, scrollback), self.start
        for data in self.parts:
            while sizes and sizes[0][0] <= at + len(data):
                offset, cols, rows = sizes.pop(0)
                screen.feed(data[: offset - at])
                data, at = data[offset - at :], offset
                screen.resize(cols, rows)
            screen.feed(data)
            at += len(data)
        for _, cols, rows in sizes:
            screen.resize(cols, rows)
        return screen


def story(place: Place) -> Story:
    """The story of a running session, or of one that has ended."""
    far = not place.known()  # a socket that leads to another machine has no files beside it
    try:
        with Client(place.sock) as client:
            client.timeout = FAR_ANSWER if far else ANSWER
            try:
                detail = client.detail()
            except PeerStalled:
                return Story([(0, *PLAIN_SIZE)], 0, iter([replayed(client)]))
            sizes = [(offset, cols, rows) for offset, cols, rows in detail["size"]["changes"]]
            output = detail["output"]
            if far or output["lost"] or (output["end"] and not output["file_size"]):
                return _from_scrollback(client, sizes, output["start"], output["end"])
            return _from_files(place, sizes, output["end"], output["file_size"])
    except NotFound:
        record = exit_record(place.exit)
        sizes = [(offset, cols, rows) for offset, cols, rows in record.get("sizes") or [(0, 80, 24)]]
        size = os.path.getsize(place.out) if os.path.exists(place.out) else 0
        return _from_files(place, sizes, record.get("output_bytes") or size, size)


def _from_files(place: Place, sizes: list[tuple[int, int, int]], end: int, size: int) -> Story:
    before = f"{place.out}.1"
    older = os.path.getsize(before) if os.path.exists(before) else 0

    def parts() -> Iterator[bytes]:
        if older:
            yield from _read(before, older)
        if size:
            yield from _read(place.out, size)

    return Story(sizes, max(0, end - older - size), parts(), end)


def _read(path: str, size: int) -> Iterator[bytes]:
    with opened(path) as file:
        while size and (data := file.read(min(BLOCK, size))):
            size -= len(data)
            yield data


def _from_scrollback(client: Client, sizes: list[tuple[int, int, int]], start: int, end: int) -> Story:
    """The file is incomplete or on another machine: use what the supervisor still has."""
    client.hello(wire.READ_ONLY | wire.FROM, start)
    client.subscribe()
    found, at = [], start
    while at < end:
        for message in client.messages(client.timeout):
            if isinstance(message, wire.ProgramOutput):
                found.append(message.data[: end - at])
                at += len(message.data)
                break
            if isinstance(message, wire.Exit):
                raise PeerStalled("the supervisor ended its output too early")
    return Story(sizes, start, iter(found), end)


def replayed(client: Client) -> bytes:
    """The scrollback of a supervisor with only the plain protocol, which does not mark its end."""
    client.subscribe()
    found: list[bytes] = []
    try:
        while True:
            message = next(client.messages(REPLAYED if found else ANSWER))
            if isinstance(message, wire.Exit):
                break
            if isinstance(message, wire.ProgramOutput):
                found.append(message.data)
    except TimedOut:
        pass
    return b"".join(found)


def snapshot(place: Place) -> dict[str, Any]:
    """The screen as plain data, for `peek --json`."""
    with story(place).screen() as screen:
        cols, rows = screen.size
        x, y = screen.cursor
        return {
            "id": place.id,
            "cols": cols,
            "rows": rows,
            "cursor": {"x": x, "y": y, "visible": screen.cursor_visible},
            "alternate": screen.alternate,
            "title": screen.title or None,
            "lines": screen.lines(),
        }
