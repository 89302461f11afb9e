"""The tools that read and change one file (read_file, write_file, edit_file), and checks of an edit."""

import asyncio
import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, BinaryIO

import msgspec
from msgspec import Meta

from treadle.agent.tools import files, images
from treadle.agent.tools.base import Resolve, Tool, ToolContext
from treadle.agent.tools.files import (
    MAX_EDIT,
    Loaded,
    Stamp,
    changing,
    load,
    missing,
    not_known,
    open_regular,
    save,
    saw,
    show,
    shown,
    text_of,
    view,
)
from treadle.errors import ToolError
from treadle.events import FileChanged, ToolKind
from treadle.io.files import opened
from treadle.session import Access

# Read a part of a text file. Reading a window of a huge file costs only the window: nothing is read whole.

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
        "lines or one screenful of bytes at a time; the last line then says how to continue. Images and, "
        "where the service takes them, PDFs are shown; other binary files are refused."
    )
    kind: ToolKind = "read"
    Args = ReadArgs

    def access(self, args: ReadArgs, resolve: Resolve) -> Access:
        return Access(tool=self.name, kind=self.kind, paths=(show(resolve(args.file_path)),), args=args)

    async def run(self, args: ReadArgs, context: ToolContext) -> str:
        first, count = window(args)
        path = context.resolve(args.file_path)
        shown = (*files.SHOWN, *((files.PDF,) if context.documents else ()))
        result, stamp = await asyncio.to_thread(_read, path, first, count, context.output_cap - 512, shown)
        saw(context, path, stamp)
        if isinstance(result, str):
            return result
        showing = images.show_document if files.binary(result[: files.SNIFF]) == files.PDF else images.show
        return showing(result, show(path), context)


READ_FILE: Tool[ReadArgs] = ReadFile()


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
    path: Path, first: int, count: int, room: int, shown: Sequence[str] = files.SHOWN
) -> tuple[str | bytes, Stamp]:
    """Some lines of a text, or all bytes of a file of a kind that is shown."""
    with opened(open_regular(path)) as raw:
        stamp = Stamp.of(os.fstat(raw.fileno()))
        start = raw.read(files.SNIFF)
        if (kind := files.binary(start)) in shown:
            largest = images.LARGEST_PDF if kind == files.PDF else images.LARGEST
            return start + raw.read(largest + 1 - len(start)), stamp
        file, encoding = _as_bytes_of_text(path, raw, start)
        return _window(path, file, encoding, first, count, room), stamp


def _as_bytes_of_text(path: Path, raw: BinaryIO, start: bytes) -> tuple[BinaryIO, str]:
    """The file from its first character on, in a superset of ASCII; what is not text is refused."""
    what = files.binary(start)
    if what:
        size = os.fstat(raw.fileno()).st_size
        advice = "use bash with a program that knows it"
        raise ToolError(f"{show(path)} is {what} of {size:,} bytes and has no text to read", hint=advice)
    encoding = files.bom(start)
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
    body, used = files.readable(b"".join(rows))
    notes = []
    if more or first > 1:
        notes.append(f"lines {first:,} to {last:,} of {'' if exact else 'more than '}{last + more:,}")
    if encoding or used != "utf-8":
        notes.append(f"read as {encoding or used}")
    if crlf:
        notes.append("lines end in CRLF")
    if more:
        notes.append(f"to continue: offset={last + 1}")
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
    shown = line[: MAX_LINE - len(files.cut_character(line[:MAX_LINE]))]
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


# Write a whole file.


class WriteArgs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    file_path: Annotated[str, Meta(description="The file to write, absolute or relative to the working directory.")]
    content: Annotated[str, Meta(description="The whole new content of the file.")]


class WriteFile:
    name = "write_file"
    description = (
        "Make a file, or replace all of what it holds. Missing directories are made. A file that you have not read, or "
        "that has changed since, is shown to you instead of overwritten. To change a part of a file, use edit_file."
    )
    kind: ToolKind = "write"
    Args = WriteArgs

    def access(self, args: WriteArgs, resolve: Resolve) -> Access:
        return Access(tool=self.name, kind=self.kind, paths=(show(resolve(args.file_path)),), args=args)

    async def run(self, args: WriteArgs, context: ToolContext) -> str:
        path = context.resolve(args.file_path)
        return await changing(context, lambda: _write(path, args.content, context))


WRITE_FILE: Tool[WriteArgs] = WriteFile()


def _write(path: Path, content: str, context: ToolContext) -> tuple[str, FileChanged | None]:
    loaded = load(path)
    data = content.encode("utf-8")
    lines = content.count("\n") + bool(content and content[-1] != "\n")
    size = f"{len(data):,} bytes, {lines:,} line{'' if lines == 1 else 's'}"
    if loaded.stamp and loaded.data == data:
        return f"{shown(path, context.cwd)} already holds exactly this ({size}); nothing was written", None
    if why := not_known(context, loaded):
        raise ToolError(f"{why}; nothing was written. {view(context, loaded)}")
    change = save(context, loaded, data, text_of(loaded), content)
    return f"{'Replaced' if loaded.stamp else 'Made'} {shown(path, context.cwd)} ({size})", change


# Change one place in a file.

OldString = Annotated[str, Meta(description="The text to replace, exactly as it is in the file, unique in it.")]
NewString = Annotated[str, Meta(description="The text to put there.")]
ReplaceAll = Annotated[bool, Meta(description="Replace every occurrence, not only a unique one.")]


class EditArgs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    file_path: Annotated[str, Meta(description="The file to change, absolute or relative to the working directory.")]
    old_string: OldString
    new_string: NewString
    replace_all: ReplaceAll = False


class EditFile:
    name = "edit_file"
    description = (
        "Replace a piece of text in a file by another. old_string must be in the file exactly once, unless "
        "replace_all is set, white space included. With an empty old_string a file that does not exist is made. A file "
        "that you have not read, or that has changed since, is shown to you instead of edited. The result is a diff."
    )
    kind: ToolKind = "write"
    Args = EditArgs

    def access(self, args: EditArgs, resolve: Resolve) -> Access:
        return Access(tool=self.name, kind=self.kind, paths=(show(resolve(args.file_path)),), args=args)

    async def run(self, args: EditArgs, context: ToolContext) -> str:
        path = context.resolve(args.file_path)
        return await changing(context, lambda: edit(path, args, context))


EDIT_FILE: Tool[EditArgs] = EditFile()


def edit(path: Path, asked: EditArgs, context: ToolContext) -> tuple[str, FileChanged]:
    loaded = load(path)
    if loaded.stamp is None and asked.old_string:
        raise missing(path)
    what = files.binary(loaded.data[: files.SNIFF])
    if what:
        raise ToolError(f"{show(path)} is {what}; only text can be edited")
    source, result, notes = _edited(loaded, asked)
    try:
        data = source.encode(result)
    except UnicodeEncodeError as error:
        raise ToolError(
            f"{show(path)} is {source.encoding}, which has no {result[error.start]!r}; nothing was written",
            hint="use characters that the file's encoding has, or replace the whole file with write_file",
        ) from None
    if why := not_known(context, loaded):
        place = files.place(source.text, asked.old_string)
        raise ToolError(f"{why}; nothing was written. {view(context, loaded, place)}")
    if loaded.stamp and data == loaded.data:
        raise ToolError("the edit changes nothing")
    change = save(context, loaded, data, source.text, result)
    lines = [f"{'Edited' if loaded.stamp else 'Made'} {shown(path, context.cwd)}", *(f"[{note}]" for note in notes)]
    return "\n".join([*lines, change.diff]), change


def _edited(loaded: Loaded, asked: EditArgs) -> tuple[files.Text, str, list[str]]:
    """Use the first encoding under which the edit finds its place; if none does, the error of the first."""
    failure: ToolError | None = None
    for source in files.decodings(loaded.data):
        try:
            result, notes = _apply(source.text, asked)
        except ToolError as error:
            failure = failure or error
        else:
            return source, result, notes
    raise failure or ToolError(f"{show(loaded.path)} is not text in a known encoding")


def _apply(content: str, asked: EditArgs) -> tuple[str, list[str]]:
    if not asked.old_string and not content:
        return asked.new_string, []
    done = files.apply(content, asked.old_string, asked.new_string, asked.replace_all)
    return done.text, [f"{done.count} places"] if asked.replace_all else []
