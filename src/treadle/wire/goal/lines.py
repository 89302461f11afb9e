"""Where in a TOML text its tables and keys stand: parsers return values without their lines.

Only for texts that a parser has accepted, so nothing is checked here: strings, comments and brackets are stepped over,
and what begins a line outside of them is a table's header or a key.
"""

import re
from collections.abc import Iterator

_SKIPPED = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}'  # a string of several lines may end in one or two quotes of its own
    r"|'''.*?'{3,5}"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'"
    r"|#[^\n]*"
    r"|[\[{]|[\]}]|\n",
    re.S,
)
_HEADER = re.compile(r"[ \t]*(\[\[?)[ \t]*([^\]\n#]+?)[ \t]*\]")
_KEY = re.compile(r"[ \t]*([\w.\"' \t-]+?)[ \t]*=")


def lines_of(text: str) -> dict[str, int]:
    """The line of each table and key, by its path: `goal`, `order[2]`, `order[2].claims`, `budget.usd`."""
    found: dict[str, int] = {}
    counts: dict[str, int] = {}
    table = ""
    for line, start in _starts(text):
        if header := _HEADER.match(text, start):
            name = _plain(header[2])
            if header[1] == "[[":
                table = f"{name}[{counts.get(name, 0)}]"
                counts[name] = counts.get(name, 0) + 1
            else:
                table = name
            found.setdefault(table, line)
        elif key := _KEY.match(text, start):
            name = _plain(key[1])
            found.setdefault(f"{table}.{name}" if table else name, line)
    return found


def _plain(name: str) -> str:
    return ".".join(part.strip().strip("\"'") for part in name.split("."))


def _starts(text: str) -> Iterator[tuple[int, int]]:
    """The number and position of each line that begins outside of strings, arrays and inline tables."""
    line, depth, header = 1, 0, _HEADER.match(text)
    yield 1, 0
    place = header.end() if header else 0
    while token := _SKIPPED.search(text, place):
        place = token.end()
        what = token[0]
        if what in "[{":
            depth += 1
        elif what in "]}":
            depth -= 1
        line += what.count("\n")
        if what == "\n" and depth <= 0:
            depth = 0
            yield line, place
            if header := _HEADER.match(text, place):  # its brackets do not nest
                place = header.end()
