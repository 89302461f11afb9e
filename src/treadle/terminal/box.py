"""What is typed in an agent's input box, as its screen shows it."""

from __future__ import annotations

import re

from treadle.light import TYPE_CHECKING
from treadle.terminal.judge import find_box

if TYPE_CHECKING:
    from treadle.terminal.detectors.table import Detector

WORDS = 30
"""How many characters of a text are searched for on the screen."""
WHOLE = 200
"""A text of at most so many bytes is compared as a whole with what the box shows."""
COMMANDS = "/!#@& "
"""What a text may begin with that a box shows as a mode of its own."""
MARKS = "❯>›!*#&"
EDGES = " │┃|\xa0"
NO_TEXT = re.compile(r"[\s─╌━▄▀╭╮╰╯╹┃│]*")


def content(detector: Detector, lines: list[str]) -> str | None:
    """The text in the input box, without its edges and its mark; None when there is no box."""
    found = find_box(detector.box, lines)
    if found is None:
        return None
    if detector.box.cursor:
        return "\n".join(detector.box.first.sub("", line, 1) for line in lines[found[0] : found[1] + 1]).strip()
    inner = [
        line
        for line in lines[found[0] : found[1] + 1]
        if not NO_TEXT.fullmatch(line) and not (detector.box_note and detector.box_note.fullmatch(line))
    ]
    text = "\n".join(line.strip(EDGES) for line in inner)
    return text[1:].strip() if text[:1] and text[0] in MARKS and text[1:2] in ("", " ", "\xa0", "\n") else text.strip()


def is_empty(detector: Detector, lines: list[str], cursor: tuple[int, int]) -> bool | None:
    """Whether nothing is typed in the box: it is blank or holds a placeholder or, in agents that suggest a prompt
    there, the cursor stands before the text. None when there is no box."""
    text = content(detector, lines)
    if not text:
        return None if text is None else True
    if detector.placeholder and detector.placeholder.fullmatch(text):
        return True
    x, y = cursor
    return bool(detector.suggests and y < len(lines) and not lines[y][:x].strip(EDGES + MARKS) and lines[y][x:].strip())


def holds(text: str | None, data: bytes) -> bool:
    """Whether a box with this content holds our text, and nothing else. Of a long one only the beginning is compared,
    since a box may show a part; and a long paste is shown as a note."""
    words = first_words(data)
    if not text or not words:
        return False
    shown, ours = _bare(text.lstrip(COMMANDS)), _bare(data.decode(errors="replace").lstrip(COMMANDS))
    if len(data) <= WHOLE:
        return shown == ours
    return shown.startswith(_bare(words)) or text.lower().lstrip("[ ").startswith("pasted")


def first_words(data: bytes) -> str:
    """The beginning of a text, as seen on a screen. A leading mark may be shown as a mode of the box instead."""
    return data.decode(errors="replace").strip().split("\n")[0].lstrip(COMMANDS)[:WORDS].strip()


def count(words: str, lines: list[str]) -> int:
    """How many of these lines have the words."""
    bare = _bare(words)
    return sum(bare in _bare(line) for line in lines) if bare else 0


def _bare(text: str) -> str:
    """Without blanks, so that it does not matter where a line was broken."""
    return "".join(text.split())
