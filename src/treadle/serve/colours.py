"""An order's changes with the words of their languages in colour.

A lexer is many regular expressions, and what it reads was written by an agent, which may have made it so that one of
them takes for ever. So it runs in a program of its own (`python -m treadle.serve.colours`), which is ended after a
while; then the changes are shown without colours, and the answer says so.
"""

import os
import sys
from functools import lru_cache

import msgspec

from treadle.errors import TreadleError
from treadle.fleet.results import ChangedFile, ChangedLine, hunks, parse_patch
from treadle.io.process.programs import run_program

SECONDS = 10.0
LINES = 20_000
"""More lines of a patch than this are shown without colours."""
WIDEST = 2000
"""Longer lines are data, not text."""

Parts = list[tuple[str, str]]


class Side(msgspec.Struct, frozen=True):
    """What one hunk shows of one side of a file."""

    name: str
    text: str


class ShownChanges(msgspec.Struct, frozen=True, kw_only=True):
    files: list[ChangedFile]
    plain: str = ""
    """Why some of it, or all, has no colours."""


@lru_cache(maxsize=16)
def shown(patch: str) -> ShownChanges:
    """Blocks."""
    files = parse_patch(patch)
    if sum(len(file.lines) for file in files) > LINES:
        return ShownChanges(files=files, plain=f"more than {LINES:,} lines are shown without colours")
    if any(len(line.text) > WIDEST for file in files for line in file.lines):
        return ShownChanges(files=files, plain=f"lines of more than {WIDEST:,} characters: shown without colours")
    sides = [
        (lines, Side(file.path, "\n".join(line.text for line in lines))) for file in files for lines in _sides(file)
    ]
    try:
        argv = [sys.executable, "-P", "-m", "treadle.serve.colours"]
        done = run_program(argv, stdin=msgspec.json.encode([side for _, side in sides]), timeout=SECONDS)
        coloured = msgspec.json.decode(done.stdout, type=list[list[Parts]]) if done.code == 0 else None
    except (TreadleError, msgspec.MsgspecError):
        coloured = None
    if coloured is None:
        return ShownChanges(files=files, plain="the colours could not be found in time")
    for (lines, _), found in zip(sides, coloured, strict=True):
        for line, parts in zip(lines, found, strict=False):
            if "".join(text for _, text in parts) == line.text:
                line.parts = parts
    return ShownChanges(files=files)


def _sides(file: ChangedFile) -> list[list[ChangedLine]]:
    """The lines of each hunk as they were before and as they are now; what did not change is read as it is now."""
    found = []
    for lines in hunks(file):
        found += [[line for line in lines if line.kind != "add"], [line for line in lines if line.kind != "del"]]
    return found


# The program...


def main() -> None:
    sides = msgspec.json.decode(sys.stdin.buffer.read(), type=list[Side])
    sys.stdout.buffer.write(msgspec.json.encode([_coloured(side) for side in sides]))


def _coloured(side: Side) -> list[Parts]:
    """Its lines in pieces; nothing for a file of no known language."""
    from pygments.lexers import get_lexer_for_filename
    from pygments.util import ClassNotFound

    try:
        lexer = get_lexer_for_filename(os.path.basename(side.name), stripnl=False, ensurenl=False)
    except ClassNotFound:
        return []
    lines: list[Parts] = [[]]
    for token, text in lexer.get_tokens(side.text):
        kind = _kind(token)
        for number, piece in enumerate(text.split("\n")):
            if number:
                lines.append([])
            if piece and lines[-1] and lines[-1][-1][0] == kind:
                lines[-1][-1] = (kind, lines[-1][-1][1] + piece)
            elif piece:
                lines[-1].append((kind, piece))
    return lines


def _kind(token: tuple[str, ...]) -> str:
    from pygments.token import Comment, Keyword, Name, Number, String

    kinds = {
        "c": (Comment,),
        "k": (Keyword,),
        "s": (String,),
        "n": (Number,),
        "f": (Name.Function, Name.Class, Name.Decorator, Name.Builtin, Name.Tag),
    }
    return next((kind for kind, of in kinds.items() if any(token in each for each in of)), "")


if __name__ == "__main__":
    main()
