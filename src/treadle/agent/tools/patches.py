"""Patches as GPT models are trained to write them, with context in place of line numbers. Pure: text in, text out.

    *** Begin Patch
    *** Update File: src/a.py
    @@ def greet():
         name = ask()
    -    print("hi")
    +    print(f"hello {name}")
    *** Add File: new.txt
    +its only line
    *** Delete File: old.txt
    *** End Patch

A place is where the lines of a hunk are, below the lines after `@@` and below the hunk before it. It must be the only
one, or the first below a line that is there once: a patch never changes a place that it might not mean. White space may
differ; then the file keeps its own lines.
"""

from collections.abc import Callable
from typing import Literal

import msgspec

from treadle.agent.tools import editing
from treadle.errors import ToolError

BEGIN, END = "*** Begin Patch", "*** End Patch"
ADD, DELETE, UPDATE, MOVE = "*** Add File:", "*** Delete File:", "*** Update File:", "*** Move to:"
AT_END = "*** End of File"
KINDS: dict[str, Literal["add", "delete", "update"]] = {ADD: "add", DELETE: "delete", UPDATE: "update"}


class Hunk(msgspec.Struct):
    """`lines` are (mark, text) with the marks space, `-` and `+`; `anchors` stand above them in the file."""

    anchors: list[str] = []
    lines: list[tuple[str, str]] = []
    at_end: bool = False


class FilePatch(msgspec.Struct):
    kind: Literal["add", "delete", "update"]
    path: str
    move_to: str | None = None
    hunks: list[Hunk] = []

    @property
    def content(self) -> str:
        """Of an added file."""
        return "".join(f"{text}\n" for hunk in self.hunks for _, text in hunk.lines)


def parse(patch: str) -> list[FilePatch]:
    lines = patch.strip().split("\n")
    if lines[0].strip() != BEGIN:
        raise ToolError(f"a patch begins with the line {BEGIN!r}")
    if lines[-1].strip() != END:
        raise ToolError(f"a patch ends with the line {END!r}; this one is cut off")
    found: list[FilePatch] = []
    for number, line in enumerate(lines[1:-1], 2):
        if (header := next((one for one in KINDS if line.startswith(one)), None)) is not None:
            found.append(FilePatch(KINDS[header], line.removeprefix(header).strip()))
        elif not found:
            raise ToolError(f"line {number} of the patch belongs to no file", hint=f"begin with {UPDATE!r} or {ADD!r}")
        else:
            _take(found[-1], line, number)
    if not found:
        raise ToolError("the patch changes nothing")
    for one in found:
        if not one.path or one.kind == "update" and not one.hunks and one.move_to is None:
            raise ToolError(f"the patch has nothing to do in {one.path!r}")
    return found


def _take(file: FilePatch, line: str, number: int) -> None:
    if file.kind == "delete":
        raise ToolError(f"line {number} of the patch: a file that is deleted has no lines")
    if line.startswith(MOVE) and file.kind == "update" and not file.hunks:
        file.move_to = line.removeprefix(MOVE).strip()
        return
    if line.startswith("@@") and file.kind == "update":
        if not file.hunks or file.hunks[-1].lines:
            file.hunks.append(Hunk())
        if anchor := line.removeprefix("@@").strip():
            file.hunks[-1].anchors.append(anchor)
        return
    if not file.hunks:
        file.hunks.append(Hunk())
    hunk = file.hunks[-1]
    if line.strip() == AT_END and file.kind == "update":
        hunk.at_end = True
        return
    mark, text = (line[:1] or " "), line[1:]
    if mark not in "+- " or file.kind == "add" and mark != "+":
        allowed = "'+'" if file.kind == "add" else "' ', '-' or '+'"
        raise ToolError(
            f"line {number} of the patch begins with {mark!r}", hint=f"lines of a file begin with {allowed}"
        )
    hunk.lines.append((mark, text))


def apply(text: str, hunks: list[Hunk], *, hidden: bool = False) -> str:
    """The text after all hunks. `hidden`: what the file holds may not be shown in an error."""
    crlf = "\r\n" in text
    lines = text.replace("\r\n", "\n").split("\n") if crlf else text.split("\n")
    ends = lines[-1] == ""
    if ends:
        lines.pop()
    below, result = 0, []
    for number, hunk in enumerate(hunks, 1):
        start, clear = _below_anchors(lines, hunk, below, number)
        old = [line for mark, line in hunk.lines if mark != "+"]
        place = _place(lines, old, hunk, start, number, clear, hidden) if old else _end_or(start, hunk, lines)
        result += lines[below:place]
        below = place
        for mark, line in hunk.lines:
            if mark == "+":
                result.append(line)
            else:
                result += [lines[below]] if mark == " " else []
                below += 1
    result += lines[below:]
    joined = "\n".join(result) + ("\n" if result and (ends or not text) else "")
    return joined.replace("\n", "\r\n") if crlf else joined


def _end_or(start: int, hunk: Hunk, lines: list[str]) -> int:
    """Where lines without any context go: below what `@@` names, else at the end."""
    return start if hunk.anchors and not hunk.at_end else len(lines)


def _below_anchors(lines: list[str], hunk: Hunk, start: int, number: int) -> tuple[int, bool]:
    """Where to look from, and whether the last anchor names one line only."""
    clear = False
    for anchor in hunk.anchors:
        below = range(start, len(lines))
        found = [at for at in below if lines[at].strip() == anchor]
        # It may be shortened, as `@@ class A` for `class A(Base):`.
        found = found or [at for at in below if lines[at].strip().startswith(anchor)]
        if not found:
            raise ToolError(f"hunk {number}: no line {anchor!r} is below the hunk before it; nothing was written")
        start, clear = found[0] + 1, len(found) == 1
    return start, clear


def _place(lines: list[str], old: list[str], hunk: Hunk, start: int, number: int, clear: bool, hidden: bool) -> int:
    same: tuple[Callable[[str], str], ...] = (str, str.rstrip, str.strip)
    for even in same:
        wanted = [even(line) for line in old]
        have = [even(line) for line in lines]
        places = [at for at in range(start, len(lines) - len(old) + 1) if have[at : at + len(old)] == wanted]
        if hunk.at_end:
            places = [at for at in places if at + len(old) == len(lines)]
        if len(places) == 1 or places and clear:
            return places[0]
        if places:
            named = ", ".join(str(at + 1) for at in places[:10])
            raise ToolError(
                f"hunk {number} fits at {len(places)} places, at lines {named}; nothing was written",
                hint="add lines around it, or the line of its function or class after @@",
            )
    where = "" if hidden else f"; {editing.near_misses([f'{line}{chr(10)}' for line in lines], chr(10).join(old))}"
    raise ToolError(f"hunk {number}: its lines are not in the file, or not below the hunk before it{where}")
