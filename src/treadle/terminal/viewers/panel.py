"""What `attach` and `wall` draw themselves, the keys that they take, and the status bar."""

from __future__ import annotations

import os
import re
import select
import signal
import time
from collections.abc import Sequence

from treadle.errors import StorageError
from treadle.io.files import read_if_there
from treadle.light import Any
from treadle.terminal.grid import cell_width

# The keys that `attach` takes for itself: one that detaches, and a prefix after which the next key is a command.

DETACH, HELP, NEXT, SWITCH, LAST, RENAME, KILL, SCROLL, SEARCH, BAR = "d", "?", "n", "s", "l", "r", "k", "[", "/", "b"
COMMANDS = {
    NEXT: "go to the terminal that has waited for a person the longest",
    SWITCH: "choose another terminal from the list",
    LAST: "go back to the terminal before this one",
    SCROLL: "look at what has scrolled away, and search it",
    SEARCH: "the same, and begin with a search",
    BAR: "show or hide the line with its state",
    RENAME: "give it another id",
    KILL: "end its program and all that belongs to it",
    DETACH: "detach; the program goes on",
    HELP: "this list",
}
"""What each key after the prefix does."""
SAME = {"h": HELP, "w": SWITCH, "x": KILL, "p": LAST}
CHANGES = frozenset((RENAME, KILL))


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


class Prefix:
    """Finds commands in what is typed. Like the detach key, the prefix counts only at the beginning of a read and with
    at most one key after it: in a paste it is content."""

    def __init__(self, key: int) -> None:
        self._forms = key_forms(key)
        self.pressed = False

    def feed(self, data: bytes) -> tuple[bytes, str]:
        """What is for the program, and the command if there is one."""
        if not self.pressed:
            form = next((form for form in self._forms if data.startswith(form)), b"")
            if not form or _key(data[len(form) :]) is None and data != form:
                return data, ""
            self.pressed = True
            data = data[len(form) :]
            if not data:
                return b"", ""
        if data in self._forms:  # twice: the program gets it once
            self.pressed = False
            return data, ""
        key = _key(data)
        if key is None:  # a mouse's or a terminal's report, not a key
            return data, ""
        if not key:
            return b"", ""
        self.pressed = False
        return b"", SAME.get(key, key if key in COMMANDS else HELP)


def _key(data: bytes) -> str | None:
    """The character of one key; empty for a key that is released; None if it is anything else."""
    if data[:1] != b"\x1b":
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return None
        return text if len(text) == 1 else None
    if data == b"\x1b":
        return data.decode()
    if data[:2] != b"\x1b[" or data[-1:] != b"u" or data.count(b"\x1b") > 1:
        return None
    codes, _, rest = data[2:-1].decode("latin-1").partition(";")
    if rest.partition(";")[0].partition(":")[2] == "3":
        return ""
    code, _, shifted = codes.partition(":")
    number = shifted.partition(":")[0] or code
    return chr(int(number)) if number.isdigit() and int(number) < 0x110000 else None


# Which branch is checked out in a directory, read from git's own files: fast enough for a line that shows it.


def branch_of(directory: str) -> str:
    """The branch; the beginning of the commit's id without one; empty outside a repository."""
    try:
        while directory:
            head = _head(os.path.join(directory, ".git"))
            if head:
                return head.removeprefix("ref: ").removeprefix("refs/heads/") if "ref: " in head else head[:9]
            above = os.path.dirname(directory)
            directory = above if above != directory else ""
    except (StorageError, UnicodeDecodeError):
        pass
    return ""


def _head(git: str) -> str:
    if os.path.isfile(git):  # a worktree, or a submodule
        pointer = (read_if_there(git) or b"").decode().strip()
        if not pointer.startswith("gitdir: "):
            return ""
        git = os.path.join(os.path.dirname(git), pointer.removeprefix("gitdir: "))
    return (read_if_there(os.path.join(git, "HEAD")) or b"").decode().strip()


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


# What `attach` and `wall` draw themselves, on the terminal's second screen, and the keys that are typed there.

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


# Looks through lines of text on a terminal: page by page, and by searching.

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
