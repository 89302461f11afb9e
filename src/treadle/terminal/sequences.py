"""Escape sequences in a stream of output: kept whole, removed, answered, and remembered if they set a mode.

Imports `re`, so the supervisor imports this only when the first escape character arrives.
"""

import re
from collections.abc import Callable

from treadle import __version__

ESC = b"\x1b"
LONGEST = 64 * 1024
"""An unfinished sequence is held back up to this length; beyond it, it is binary data and not a sequence."""

SEQUENCE = re.compile(
    rb"\x1b(?:\[[0-?]*[ -/]*[@-~]"  # CSI
    rb"|\][^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC
    rb"|[PX^_][^\x1b]*\x1b\\"  # DCS, SOS, PM, APC
    rb"|[ -/]+[0-~]|[0-OQ-WYZ\\`-~])"
)
UNFINISHED = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]*|[PX^_][^\x1b]*|[ -/]*)\Z")
UNFINISHED_STRING = re.compile(rb"\x1b(?:\][^\x07\x1b]*|[PX^_][^\x1b]*)\x1b\Z")

QUERY = re.compile(
    rb"\x1b(?:\[(?:[>=]?0?c|>0?q|\??[56]n|\?u|\??[0-9]+\$p|1[1345689]t|2[01]t)"
    rb"|\](?:7501;\?|(?:4;[0-9]+|1[0-9]|5[0-9]*;[a-z0-9]*);\?)(?:\x07|\x1b\\)"
    rb"|P[+$]q[^\x1b]*\x1b\\"
    rb"|_G[^\x1b]*\x1b\\)"
)
"""A program's queries to its terminal: attributes, version, cursor, modes, sizes, colours, capabilities, images."""

NOTABLE = re.compile(rb"\x1b(?:[\]P_]|\[(?:[<=>?]|[0-9]*(?:[cnt]|\$p)))")
"""The beginning of anything that matters here. Most output has only colours, and one search rules it out."""
REPORT = re.compile(rb"\x1b\](7501|0|2|9;4);([^\x07\x1b]*)(?:\x07|\x1b\\)")
"""A status report, a window title, or a progress report."""
STATUS_QUERY = re.compile(rb"\x1b\]7501;\?(\x07|\x1b\\)")
MODE = re.compile(rb"\x1b\[\?([0-9;]+)([hl])")
KITTY = re.compile(rb"\x1b\[([<>=])([0-9;]*)u")

DEFAULT_ON = frozenset((7, 25))
ALTERNATE = frozenset((47, 1047, 1049))
TRACKED = frozenset((1, 9, 25, 1000, 1001, 1002, 1003, 1004, 1005, 1006, 1007, 1015, 1016, 2004, 2031)) | ALTERNATE

RESET = (
    b"\x1b[?1049l\x1b[?1l\x1b[?9l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1005l\x1b[?1006l\x1b[?1015l"
    b"\x1b[?1016l\x1b[?2004l\x1b[?2026l\x1b[?2031l\x1b[?25h\x1b[?7h\x1b[r\x1b>\x1b[0m"
)
"""Resets a terminal to what shells expect, whatever modes were on."""


class Whole:
    """Passes on what it is fed, but holds back an unfinished sequence."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        if self._held:
            data = self._held + data
            self._held = b""
        elif ESC not in data:
            return data
        cut = _unfinished(data)
        if cut < len(data) and len(data) - cut <= LONGEST:
            self._held = data[cut:]
            return data[:cut]
        return data


def _unfinished(data: bytes) -> int:
    """Where an unfinished sequence begins; the length of `data` when there is none."""
    last = data.rfind(ESC)
    if last < 0:
        return len(data)
    if last == len(data) - 1:
        # It may be the first half of a string terminator.
        before = data.rfind(ESC, 0, last)
        return before if before >= 0 and UNFINISHED_STRING.match(data, before) else last
    return last if UNFINISHED.match(data, last) else len(data)


class Stripper:
    """Removes escape sequences and control characters; keeps text, tabs and line ends.

    A string that another sequence interrupts ends there, as in terminals, so its beginning goes too. Some terminals
    also act on C1 controls, as single bytes or as UTF-8.
    """

    _broken = re.compile(rb"\x1b[\]PX^_][^\x07\x1b]*(?=\x1b|\Z)")
    _c1 = re.compile(
        rb"\xc2[\x90\x98\x9d-\x9f][^\x07\n]*?(?:\x07|\xc2\x9c)|\xc2\x9b[0-?]*[ -/]*[@-~]|\xc2[\x80-\x9f]"
        rb"|(?<=[\x00-\x7f])[\x80-\x9f]+"
    )
    _controls = re.compile(rb"[\x00-\x08\x0b-\x0c\x0e-\x1f\x7f]|\r+(?=\n)")

    def __init__(self) -> None:
        self._whole = Whole()
        self._held, self._before = b"", b"\n"  # half of a C1 control, and the byte before what comes

    def feed(self, data: bytes) -> bytes:
        data = self._held + SEQUENCE.sub(b"", self._broken.sub(b"", self._whole.feed(data)))
        data, self._held = (data[:-1], b"\xc2") if data.endswith(b"\xc2") else (data, b"")
        text = self._c1.sub(b"", self._before + data)[1:]
        self._before = data[-1:] or self._before
        return self._controls.sub(b"", text)


class QueryFilter:
    """Removes a program's queries to its terminal, so that they are answered once. `only` the status query, or all."""

    def __init__(self) -> None:
        self._whole = Whole()

    def feed(self, data: bytes, everything: bool) -> bytes:
        data = self._whole.feed(data)
        if ESC not in data:
            return data
        return (QUERY if everything else STATUS_QUERY).sub(b"", data)


def answers(
    data: bytes, size: tuple[int, int], everything: bool, cursor: Callable[[], tuple[int, int]] = lambda: (0, 0)
) -> bytes:
    """What a plain terminal answers to the queries in `data`, in their order. `cursor` says where it is, from 0.

    The order matters: a program that asks for status reports takes the answer to a later, common query as a sign that
    they are not supported. With `everything` false, a person's terminal answers all but that one.
    """
    found = []
    for match in (QUERY if everything else STATUS_QUERY).finditer(data):
        if match.group() in CURSOR:
            x, y = cursor()
            found.append(CURSOR[match.group()] % (y + 1, x + 1))
        else:
            found.append(_answer(match.group(), size))
    return b"".join(found)


def _answer(query: bytes, size: tuple[int, int]) -> bytes:
    if query.startswith(b"\x1b]7501;?"):
        return query  # echoed, with its own terminator
    act = ANSWERS.get(query.replace(b"0c", b"c").replace(b"0q", b"q"))
    return act(size) if act else b""


CURSOR = {b"\x1b[6n": b"\x1b[%d;%dR", b"\x1b[?6n": b"\x1b[?%d;%dR"}
"""Where the cursor is. A program that is told a wrong place draws over what it has written before."""
ANSWERS: dict[bytes, Callable[[tuple[int, int]], bytes]] = {
    b"\x1b[c": lambda size: b"\x1b[?62;22c",
    b"\x1b[>c": lambda size: b"\x1b[>1;10;0c",
    b"\x1b[>q": lambda size: b"\x1bP>|treadle(%b)\x1b\\" % __version__.encode(),
    b"\x1b[5n": lambda size: b"\x1b[0n",
    b"\x1b[18t": lambda size: b"\x1b[8;%d;%dt" % (size[1], size[0]),
}
"""Other capabilities get no answer, which is how a program learns that a terminal does not have them."""


class Modes:
    """The modes that the program has set, so that another terminal can be put into them, and this one restored."""

    def __init__(self) -> None:
        self.on: dict[int, bool] = {}
        self.kitty: list[bytes] = []  # the keyboard modes that were put on the stack

    @property
    def alternate(self) -> bool:
        return any(self.on.get(number) for number in ALTERNATE)

    def feed(self, data: bytes) -> None:
        """`data` must consist of whole sequences."""
        if ESC not in data:
            return
        for match in MODE.finditer(data):
            for number in match[1].split(b";"):
                if number.isdigit() and int(number) in TRACKED:
                    self.on[int(number)] = match[2] == b"h"
        for match in KITTY.finditer(data):
            if match[1] == b">":
                self.kitty.append(match[0])
            elif match[1] == b"<":
                del self.kitty[max(0, len(self.kitty) - int(match[2].partition(b";")[0] or b"1")) :]

    def changed(self) -> list[int]:
        """The numbers of the modes that differ from those of a new terminal."""
        return sorted(number for number, on in self.on.items() if on != (number in DEFAULT_ON))

    def set(self) -> bytes:
        """The sequences that put a new terminal into these modes."""
        return b"".join([b"\x1b[?%d%b" % (number, b"h" if self.on[number] else b"l") for number in self.changed()])

    def unset(self) -> bytes:
        """The sequences that restore a terminal's modes, without moving the cursor of its main screen."""
        back = [b"\x1b[?%d%b" % (number, b"l" if self.on[number] else b"h") for number in reversed(self.changed())]
        return b"\x1b7\x1b[r\x1b8" + b"\x1b[<u" * len(self.kitty) + b"".join(back) + b"\x1b[0m"
