"""Finds the place an edit means, and changes only that. Pure: text in, text out.

First the exact text, which must be there once. If it is not there at all, whole lines are compared with normalised
white space; that match must be unique too. Then the file keeps its own indentation, its own line ends and its
own version of every line that the edit does not change.
"""

import heapq

import msgspec

from treadle.agent.tools.diff import lines_of
from treadle.errors import ToolError

AROUND, MOST_SHOWN = 3, 40
"""How many lines are shown on either side of the place that a failed edit probably meant, and in total."""


class Edited(msgspec.Struct, frozen=True):
    text: str
    count: int
    tolerant: bool = False
    """Whether the place was found only with normalised white space."""


def apply(text: str, old: str, new: str, replace_all: bool = False) -> Edited:
    """`text` with `old` replaced by `new`; a helpful ToolError when the place is missing or not unique."""
    if not old:
        raise ToolError("old_string is empty, and the file is not", hint="use write_file to replace a whole file")
    if old == new:
        raise ToolError("old_string and new_string are the same: there is nothing to change")
    if old not in text and "\r\n" in text:
        old, new = _crlf(old), _crlf(new)
    count = text.count(old)
    if count > 1 and not replace_all:
        lines = line_numbers(text, old)
        raise ToolError(
            f"old_string is there {count} times, at lines {_listed(lines)}",
            hint="add lines around it so that it is unique, or set replace_all",
        )
    if count:
        return Edited(text.replace(old, new), count)
    return _tolerant(text, old.replace("\r\n", "\n"), new.replace("\r\n", "\n"))


def _crlf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def line_numbers(text: str, part: str) -> list[int]:
    found, place, line, counted = [], text.find(part), 1, 0
    while place >= 0:
        line += text.count("\n", counted, place)
        counted = place
        found.append(line)
        place = text.find(part, place + len(part))
    return found


def _listed(lines: list[int]) -> str:
    return ", ".join(map(str, lines[:10])) + (f" and {len(lines) - 10} more" if len(lines) > 10 else "")


# With normalised white space...


def _tolerant(text: str, old: str, new: str) -> Edited:
    wanted = _normalised(old.removesuffix("\n").split("\n"))
    lines = lines_of(text)
    places = _places(_normalised(lines), wanted) if any(wanted) else []
    if not places:
        raise ToolError(f"old_string is not in the file; {near_misses(lines, old)}")
    if len(places) > 1:
        raise ToolError(
            f"old_string is not in the file exactly; but for white space it is there {len(places)} times, "
            f"at lines {_listed([place + 1 for place in places])}",
            hint="copy the lines exactly as they are, with enough around them to be unique",
        )
    start, end = places[0], places[0] + len(wanted)
    changed = _rewritten(lines[start:end], old.removesuffix("\n").split("\n"), new)
    return Edited("".join([*lines[:start], *changed, *lines[end:]]), 1, tolerant=True)


def _normalised(lines: list[str]) -> list[str]:
    return [" ".join(line.split()) for line in lines]


def _places(lines: list[str], wanted: list[str]) -> list[int]:
    size = len(wanted)
    return [
        place
        for place in range(len(lines) - size + 1)
        if lines[place] == wanted[0] and lines[place : place + size] == wanted
    ]


def _rewritten(found: list[str], old: list[str], new: str) -> list[str]:
    """The new lines in the file's own style; `found` are the file's lines (with their ends) that match `old`."""
    if not new:
        return []
    from difflib import SequenceMatcher

    fresh = new.removesuffix("\n").split("\n")
    end = "\r\n" if found[0].endswith("\r\n") else "\n"
    indents = _indents(found, old)
    lines: list[str] = []
    for what, i0, i1, j0, j1 in SequenceMatcher(None, old, fresh).get_opcodes():
        if what == "equal":
            lines += found[i0:i1]
        else:
            lines += [_reindented(line, indents) + end for line in fresh[j0:j1]]
    lines = [line if line.endswith("\n") else line + end for line in lines]
    if not found[-1].endswith("\n"):
        lines[-1] = lines[-1].rstrip("\r\n")
    return lines


def _indents(found: list[str], old: list[str]) -> dict[str, str]:
    """The indentation in `old` -> the file's indentation of the same line."""
    pairs: dict[str, str] = {}
    for theirs, ours in zip(old, found, strict=True):
        if theirs.strip():
            pairs.setdefault(_indent(theirs), _indent(ours))
    return pairs


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def _reindented(line: str, indents: dict[str, str]) -> str:
    indent = _indent(line)
    if not line.strip() or not indents:
        return line
    known = max((theirs for theirs in indents if indent.startswith(theirs)), key=len, default=None)
    if known is not None:
        return indents[known] + _converted(indent[len(known) :], indents) + line[len(indent) :]
    shallow = min(indents, key=len)  # less indented than anything in `old`: reduce the file's indentation by as much
    missing = len(shallow) - len(indent)
    return indents[shallow][: max(0, len(indents[shallow]) - missing)] + line[len(indent) :]


def _converted(deeper: str, indents: dict[str, str]) -> str:
    """Indentation beyond what is known, in tabs or spaces as the file has it."""
    for theirs, ours in indents.items():
        if theirs and ours and set(theirs) != set(ours):
            if set(ours) == {"\t"} and set(deeper) == {" "}:
                unit = max(1, len(theirs) // len(ours))
                return "\t" * (len(deeper) // unit) + " " * (len(deeper) % unit)
            if set(ours) == {" "} and set(deeper) == {"\t"}:
                return " " * (len(ours) // len(theirs)) * len(deeper)
    return deeper


# When it is not there at all...


def near_misses(lines: list[str], old: str) -> str:
    """Which lines of the file look most like the text that was searched."""
    wanted = max(_normalised(old.split("\n")), key=len)[:200]
    pieces = _trigrams(wanted)
    numbers: dict[str, int] = {}
    for number, line in enumerate(_normalised(lines[:20_000]), 1):
        if line:
            numbers.setdefault(line[:200], number)
    # Full comparison is slow, so only lines that share the most trigrams are compared.
    likely = heapq.nlargest(30, numbers, key=lambda line: len(pieces & _trigrams(line)))
    from difflib import get_close_matches

    near = get_close_matches(wanted, likely, n=3, cutoff=0.5) if wanted else []
    if not near:
        return "nothing in the file looks like it; read the file again"
    best = numbers[near[0]]
    others = ", ".join(str(numbers[line]) for line in near[1:])
    also = f"; also like it: line {others}" if others else ""
    return f"the nearest place is{also}\n{_shown(lines, best, old.count(chr(10)) + 1)}"


def _shown(lines: list[str], number: int, height: int) -> str:
    """The lines around this one as they are, each with its number."""
    first, last = max(1, number - AROUND - height // 2), min(len(lines), number + AROUND + height)
    rows = lines[first - 1 : min(last, first + MOST_SHOWN - 1)]
    return "\n".join(f"{first + at:6d}\t{row.rstrip()[:400]}" for at, row in enumerate(rows))


def place(text: str, old: str) -> str:
    """The lines around what an edit would change, each with its number; empty where that is not a single place."""
    found = line_numbers(text, old) if old else []
    return _shown(lines_of(text), found[0], old.count("\n") + 1) if found else ""


def _trigrams(line: str) -> set[str]:
    return {line[place : place + 3] for place in range(len(line) - 2)}
