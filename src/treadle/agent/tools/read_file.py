"""Read a part of a text file. Reading a window of a huge file costs only the window: nothing is read whole."""

import asyncio
import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, BinaryIO

import msgspec
from msgspec import Meta

from treadle.agent.tools import editing, images
from treadle.agent.tools.base import Resolve, Tool, ToolContext
from treadle.agent.tools.files import MAX_EDIT, Stamp, open_regular, saw, show
from treadle.errors import ToolError
from treadle.events import ToolKind
from treadle.io.files import opened
from treadle.session import Access

MAX_LINES = 2000
MAX_LINE = 2000
COUNT_AHEAD = 256 << 20
"""How far to count lines after the window; beyond it, the total is reported as "more than"."""
_CHUNK = 1 << 20

Line = Annotated[int, Meta(ge=0)]


class ReadArgs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    file_path: Annotated[str, Meta(description="The file to read, absolute or relative to the working directory.")]
    offset: Annotated[Line | None, Meta(description="First line to read; 1 is the first line of the file.")] = None
    limit: Annotated[Line | None, Meta(description=f"How many lines to read, at most {MAX_LINES}.")] = None
    start_line: Annotated[Line | None, Meta(description="The same as offset.")] = None
    end_line: Annotated[Line | None, Meta(description="Last line to read, instead of limit.")] = None


class ReadFile:
    name = "read_file"
    description = (
        f"Read a text file, or a part of it. Each line comes with its number and a tab in front. At most {MAX_LINES} "
        "lines or one screenful of bytes at a time; the last line then says how to go on. Images and, "
        "where the service takes them, PDFs are shown; other binary files are refused."
    )
    kind: ToolKind = "read"
    Args = ReadArgs

    def access(self, args: ReadArgs, resolve: Resolve) -> Access:
        return Access(tool=self.name, kind=self.kind, paths=(show(resolve(args.file_path)),), args=args)

    async def run(self, args: ReadArgs, context: ToolContext) -> str:
        first, count = window(args)
        path = context.resolve(args.file_path)
        shown = (*editing.SHOWN, *((editing.PDF,) if context.documents else ()))
        result, stamp = await asyncio.to_thread(_read, path, first, count, context.output_cap - 512, shown)
        saw(context, path, stamp)
        if isinstance(result, str):
            return result
        showing = images.show_document if editing.binary(result[: editing.SNIFF]) == editing.PDF else images.show
        return showing(result, show(path), context)


TOOL: Tool[ReadArgs] = ReadFile()


def window(args: ReadArgs) -> tuple[int, int]:
    """The first line and the number of lines that the arguments mean."""
    if args.offset is not None and args.start_line is not None and args.offset != args.start_line:
        raise ToolError("offset and start_line mean the same and differ", hint="give one of them")
    first = max(1, args.offset if args.offset is not None else args.start_line or 1)
    if args.end_line is None:
        return first, min(args.limit or MAX_LINES, MAX_LINES)
    if args.end_line < first:
        raise ToolError(f"end_line {args.end_line} lies before the first line asked for, {first}")
    count = args.end_line - first + 1
    return first, min(count, args.limit or MAX_LINES, MAX_LINES)


def _read(
    path: Path, first: int, count: int, room: int, shown: Sequence[str] = editing.SHOWN
) -> tuple[str | bytes, Stamp]:
    """Some lines of a text, or all bytes of a file of a kind that is shown."""
    with opened(open_regular(path)) as raw:
        stamp = Stamp.of(os.fstat(raw.fileno()))
        start = raw.read(editing.SNIFF)
        if (kind := editing.binary(start)) in shown:
            largest = images.LARGEST_PDF if kind == editing.PDF else images.LARGEST
            return start + raw.read(largest + 1 - len(start)), stamp
        file, encoding = _as_bytes_of_text(path, raw, start)
        return _window(path, file, encoding, first, count, room), stamp


def _as_bytes_of_text(path: Path, raw: BinaryIO, start: bytes) -> tuple[BinaryIO, str]:
    """The file from its first character on, in a superset of ASCII; what is not text is refused."""
    what = editing.binary(start)
    if what:
        size = os.fstat(raw.fileno()).st_size
        advice = "use bash with a program that knows it"
        raise ToolError(f"{show(path)} is {what} of {size:,} bytes and has no text to read", hint=advice)
    encoding = editing.bom(start)
    if encoding in ("utf-16-le", "utf-16-be"):
        data = start + raw.read(MAX_EDIT)
        if len(data) > MAX_EDIT:
            raise ToolError(f"{show(path)} is UTF-16 and too big to convert here", hint="use bash: iconv -f utf-16")
        return io.BytesIO(data[2:].decode(encoding, "replace").encode("utf-8")), "UTF-16"
    raw.seek(3 if encoding else 0)
    return raw, ""


def _window(path: Path, file: BinaryIO, encoding: str, first: int, count: int, room: int) -> str:
    before = _skip(file, first - 1)
    rows, crlf = _rows(file, first, count, room)
    if not rows:
        if before == 0:
            return f"[{show(path)} is empty]"
        raise ToolError(f"{show(path)} has only {before:,} lines; line {first:,} is past its end")
    last = first + len(rows) - 1
    more, exact = _count_rest(file)
    body, used = editing.readable(b"".join(rows))
    notes = []
    if more or first > 1:
        notes.append(f"lines {first:,} to {last:,} of {'' if exact else 'more than '}{last + more:,}")
    if encoding or used != "utf-8":
        notes.append(f"read as {encoding or used}")
    if crlf:
        notes.append("lines end in CRLF")
    if more:
        notes.append(f"to go on: offset={last + 1}")
    return body + (f"[{'; '.join(notes)}]" if notes else "")


def _skip(file: BinaryIO, lines: int) -> int:
    """Skip this many lines. Returns how many there were."""
    passed, last = 0, b"\n"
    while passed < lines and (chunk := file.read(_CHUNK)):
        here = chunk.count(b"\n")
        if passed + here >= lines:
            place = -1
            for _ in range(lines - passed):
                place = chunk.index(b"\n", place + 1)
            file.seek(place + 1 - len(chunk), os.SEEK_CUR)
            return lines
        passed += here
        last = chunk[-1:]
    return passed + (last != b"\n")


def _rows(file: BinaryIO, first: int, count: int, room: int) -> tuple[list[bytes], bool]:
    """The numbered lines of the window, as many as fit, but at least one; and whether they end in CRLF."""
    rows: list[bytes] = []
    crlf = False
    while len(rows) < count:
        place = file.tell()
        line = file.readline(2 * MAX_LINE)
        if not line:
            break
        row = b"%6d\t%s\n" % (first + len(rows), _cut(line, file))
        room -= len(row)
        if room < 0 and rows:
            file.seek(place)
            break
        crlf = crlf or line.endswith(b"\r\n")
        rows.append(row)
    return rows, crlf


def _cut(line: bytes, file: BinaryIO) -> bytes:
    """The line without its end; of a very long one the beginning, with the rest of it skipped."""
    rest = 0
    if not line.endswith(b"\n"):
        while more := file.readline(_CHUNK):
            rest += len(more.removesuffix(b"\n"))
            if more.endswith(b"\n"):
                break
    line = line.removesuffix(b"\n").removesuffix(b"\r")
    if len(line) <= MAX_LINE and not rest:
        return line
    shown = line[: MAX_LINE - len(editing.cut_character(line[:MAX_LINE]))]
    return shown + b" [... %d more bytes in this line]" % (len(line) - len(shown) + rest)


def _count_rest(file: BinaryIO) -> tuple[int, bool]:
    """How many lines follow, and whether that is exact."""
    lines, ahead, last = 0, 0, b"\n"
    while chunk := file.read(_CHUNK):
        lines += chunk.count(b"\n")
        last = chunk[-1:]
        ahead += len(chunk)
        if ahead >= COUNT_AHEAD:
            return lines, False
    return lines + (last != b"\n"), True
