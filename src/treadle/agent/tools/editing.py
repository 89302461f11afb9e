"""Text that tools edit: decoded and encoded byte for byte, the place an edit means, and the diff."""

import codecs
import heapq
from collections.abc import Iterator
from io import StringIO

import msgspec

from treadle.errors import ToolError

# What changed in a file, as a unified diff. Only the part that differs is compared, so a big file costs little.

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


# Decodes a file's bytes as text, and encodes it again without changing a byte that was not edited.

SNIFF = 8192
PDF = "a PDF document"
_IMAGES = {
    b"\x89PNG\r\n\x1a\n": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"GIF87a": "a GIF image",
    b"GIF89a": "a GIF image",
    b"BM": "a BMP image",
    b"II*\0": "a TIFF image",
    b"MM\0*": "a TIFF image",
    b"\0\0\1\0": "an icon",
}
_BINARIES = {
    b"%PDF-": PDF,
    b"PK\x03\x04": "a zip archive (or a document made of one)",
    b"\x1f\x8b": "gzip data",
    b"BZh": "bzip2 data",
    b"\xfd7zXZ\0": "xz data",
    b"(\xb5/\xfd": "zstd data",
    b"\x7fELF": "an ELF program or library",
    b"SQLite format 3\0": "an SQLite database",
    b"\0asm": "a WebAssembly module",
    b"OggS": "Ogg media",
    b"ID3": "MP3 audio",
    b"fLaC": "FLAC audio",
}
SHOWN = ("a PNG image", "a JPEG image", "a GIF image", "a WebP image")
"""Image formats that a model can be shown."""
_BOMS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


def binary(start: bytes) -> str | None:
    """The kind of binary file that begins with these bytes; None when it seems to be text."""
    for magic, what in {**_IMAGES, **_BINARIES}.items():
        if start.startswith(magic) and (len(magic) > 3 or b"\0" in start or not _is_utf8(start, whole=False)):
            return what
    if start[:4] == b"RIFF" and start[8:12] == b"WEBP":
        return "a WebP image"
    if start[4:12] in (b"ftypavif", b"ftypheic", b"ftypmp42", b"ftypisom"):
        return "an image or video"
    if b"\0" in start and bom(start) not in ("utf-16-le", "utf-16-be"):
        return "a binary file"
    return None


def bom(start: bytes) -> str | None:
    """The encoding that a byte order mark announces."""
    return next((encoding for mark, encoding in _BOMS.items() if start.startswith(mark)), None)


def _is_utf8(data: bytes, *, whole: bool) -> bool:
    """A text that is not whole may end within a character."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(data, whole)
    except UnicodeDecodeError:
        return False
    return True


class Text(msgspec.Struct, frozen=True):
    """A whole file as text. `encode` returns the bytes, for any text with the same undecodable bytes in it."""

    text: str
    encoding: str
    mark: bytes = b""

    def encode(self, text: str) -> bytes:
        return self.mark + text.encode(self.encoding, "surrogateescape" if self.encoding == "utf-8" else "strict")


def decodings(data: bytes) -> Iterator[Text]:
    """The ways to read a whole file as text, likeliest first; each of them encodes back to the same bytes."""
    announced = bom(data)
    if announced in ("utf-16-le", "utf-16-be"):
        try:
            yield Text(data[2:].decode(announced), announced, data[:2])
        except UnicodeDecodeError:
            pass
        return
    mark = codecs.BOM_UTF8 if announced else b""
    body = data[len(mark) :]
    yield Text(body.decode("utf-8", "surrogateescape"), "utf-8", mark)
    if not _is_utf8(body, whole=True):
        try:
            yield Text(body.decode("cp1252"), "cp1252", mark)
        except UnicodeDecodeError:
            yield Text(body.decode("latin-1"), "latin-1", mark)


def readable(data: bytes) -> tuple[str, str]:
    """Some lines of a file for a model to read, and the name of their encoding."""
    for encoding in ("utf-8", "cp1252"):
        try:
            return data.decode(encoding), encoding
        except UnicodeDecodeError:
            continue
    return data.decode("latin-1"), "latin-1"


def cut_character(data: bytes) -> bytes:
    """The bytes at the end that begin a character without finishing it."""
    for length in range(1, min(3, len(data)) + 1):
        byte = data[-length]
        if byte >= 0xC0:
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data[-length:] if length < needed else b""
        if byte < 0x80:
            break
    return b""


# Finds the place an edit means, and changes only that. Pure: text in, text out.
#
# First the exact text, which must be there once. If it is not there at all, whole lines are compared with normalised
# white space; that match must be unique too. Then the file keeps its own indentation, its own line ends and its own
# version of every line that the edit does not change.

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
