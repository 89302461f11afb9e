"""What changed in a file, as a unified diff. Only the part that differs is compared, so a big file costs little."""

from io import StringIO

CONTEXT = 3
MAX_LINES = 8000
"""When the changed parts of both sides have more lines, they are shown as one replacement: comparing is slow."""
MAX_BYTES = 64 << 10


def unified(old: str, new: str, name: str) -> str:
    """Empty when nothing changed. Cut, with a note, when it is longer than `MAX_BYTES`."""
    if old == new:
        return ""
    before, after = lines_of(old), lines_of(new)
    start, end = _same_ends(before, after)
    lines = [f"--- a/{name}\n" if old else "--- /dev/null\n", f"+++ b/{name}\n"]
    first = max(0, start - CONTEXT)
    a = before[first : len(before) - max(0, end - CONTEXT)]
    b = after[first : len(after) - max(0, end - CONTEXT)]
    size = 0
    for group in _groups(a, b):
        for line in _hunk(a, b, group, first):
            size += len(line)
            if size > MAX_BYTES:
                return "".join([*lines, "[the rest of the diff is left out]\n"])
            lines.append(line)
    return "".join(lines)


def lines_of(text: str) -> list[str]:
    """Split at LF only, which stays in; `str.splitlines` would also split at form feeds and U+2028."""
    return StringIO(text, newline="\n").readlines()


def _same_ends(a: list[str], b: list[str]) -> tuple[int, int]:
    shorter = min(len(a), len(b))
    start = next((place for place in range(shorter) if a[place] != b[place]), shorter)
    room = shorter - start
    return start, next((place for place in range(room) if a[-1 - place] != b[-1 - place]), room)


_Opcode = tuple[str, int, int, int, int]


def _groups(a: list[str], b: list[str]) -> list[list[_Opcode]]:
    if len(a) + len(b) > MAX_LINES:
        return [[("replace", 0, len(a), 0, len(b))]]
    from difflib import SequenceMatcher

    return [list(group) for group in SequenceMatcher(None, a, b).get_grouped_opcodes(CONTEXT)]


def _hunk(a: list[str], b: list[str], group: list[_Opcode], offset: int) -> list[str]:
    (_, a0, _, b0, _), (_, _, a1, _, b1) = group[0], group[-1]
    lines = [f"@@ -{_range(a0, a1, offset)} +{_range(b0, b1, offset)} @@\n"]
    for what, i0, i1, j0, j1 in group:
        if what == "equal":
            lines += [_line(" ", line) for line in a[i0:i1]]
        else:
            lines += [_line("-", line) for line in a[i0:i1]] + [_line("+", line) for line in b[j0:j1]]
    return lines


def _range(start: int, end: int, offset: int) -> str:
    length = end - start
    place = start + offset + (1 if length else 0)
    return f"{place}" if length == 1 else f"{place},{length}"


def _line(mark: str, line: str) -> str:
    return mark + line if line.endswith("\n") else f"{mark}{line}\n\\ No newline at end of file\n"
