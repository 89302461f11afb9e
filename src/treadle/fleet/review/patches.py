"""A patch as git writes it, read line by line: which file, which kind of line, which number on each side."""

import re
from collections.abc import Iterator
from typing import Literal

import msgspec

_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_HEADERS = ("Binary", "GIT binary", "new file", "deleted file", "rename", "old mode", "new mode", "similarity")
"""Lines before the hunks that a reader needs."""
_ESCAPED = re.compile(rb'\\([0-7]{3}|[abtnvfr"\\])')
_LETTERS = dict(zip(b'abtnvfr"\\', b'\a\b\t\n\v\f\r"\\', strict=True))


class ChangedLine(msgspec.Struct, kw_only=True, omit_defaults=True):
    kind: Literal["hunk", "add", "del", "same"]
    """`hunk`: a line of the patch that is none of either file."""
    text: str = ""
    old: int = 0
    """Its number in the file of before; 0 where it is not in it."""
    now: int = 0
    parts: list[tuple[str, str]] = []
    """The text in pieces, each after its kind: k keyword, s string, c comment, n number, f name. Empty: no colours."""


class ChangedFile(msgspec.Struct, kw_only=True):
    path: str
    lines: list[ChangedLine]
    added: int = 0
    removed: int = 0


def parse(patch: str) -> list[ChangedFile]:
    files: list[ChangedFile] = []
    old, now, old_left, now_left = 0, 0, 0, 0
    for line in patch.split("\n"):
        if old_left > 0 or now_left > 0:  # as many as its header says: what they hold cannot look like a header
            sign, text = line[:1], line[1:]
            file = files[-1]
            if sign == "+":
                file.lines.append(ChangedLine(kind="add", text=text, now=now))
                now, now_left, file.added = now + 1, now_left - 1, file.added + 1
            elif sign == "-":
                file.lines.append(ChangedLine(kind="del", text=text, old=old))
                old, old_left, file.removed = old + 1, old_left - 1, file.removed + 1
            elif sign != "\\":
                file.lines.append(ChangedLine(kind="same", text=text, old=old, now=now))
                old, now, old_left, now_left = old + 1, now + 1, old_left - 1, now_left - 1
        elif line.startswith("diff --git "):
            files.append(ChangedFile(path=_second(line[11:]), lines=[]))
        elif not files:
            continue
        elif found := _HUNK.match(line):
            old, now = int(found[1]), int(found[3])
            old_left, now_left = int(found[2] or 1), int(found[4] or 1)
            files[-1].lines.append(ChangedLine(kind="hunk", text=line))
        elif line.startswith("+++ ") and not line.startswith("+++ /dev/null"):
            files[-1].path = _name(line[4:].partition("\t")[0])
        elif line.startswith(_HEADERS):
            files[-1].lines.append(ChangedLine(kind="hunk", text=line))
    return files


def hunks(file: ChangedFile) -> Iterator[list[ChangedLine]]:
    """The lines of each hunk, without its header."""
    here: list[ChangedLine] = []
    for line in file.lines:
        if line.kind == "hunk":
            if here:
                yield here
            here = []
        else:
            here.append(line)
    if here:
        yield here


def _second(names: str) -> str:
    """The second of `a/NAME b/NAME`."""
    quoted = names.rfind(' "b/') if names.endswith('"') else -1
    return _name(names[quoted + 1 :] if quoted >= 0 else "b/" + names.rpartition(" b/")[2])


def _name(text: str) -> str:
    if text.startswith('"') and text.endswith('"') and len(text) > 1:
        data = _ESCAPED.sub(_escaped, text[1:-1].encode("utf-8", "replace"))
        text = data.decode("utf-8", "replace")
    return text.removeprefix("b/")


def _escaped(found: re.Match[bytes]) -> bytes:
    escape = found[1]
    return bytes((int(escape, 8) & 0xFF,)) if len(escape) == 3 else bytes((_LETTERS[escape[0]],))
