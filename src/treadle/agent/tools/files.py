"""How tools read and change files of the workspace, which may be hostile or changed by others meanwhile.

Reading never blocks on a FIFO and never touches a device. Reading and writing go through the directory that was
resolved when permission was asked: it is opened step by step without following links, so a symlink swapped in since
then is an error, not a way out. A file that changed since it was loaded is not overwritten.
"""

from __future__ import annotations

import asyncio
import codecs
import errno
import heapq
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import StringIO
from pathlib import Path
from typing import Any

import msgspec

from treadle.agent.tools.base import ToolContext
from treadle.errors import StorageError, ToolError
from treadle.events import FileChanged
from treadle.io import descriptors as io_pinned
from treadle.io.files import opened, write_atomic

# Text that tools edit: decoded and encoded byte for byte, the place an edit means, and the diff.

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
# The exact text must be there once; line ends are those of the file. What is only similar is shown, never taken: a
# model copies it in its next step, and a guess would change a line that was not meant.

AROUND, MOST_SHOWN = 3, 40
"""How many lines are shown on either side of the place that a failed edit probably meant, and in total."""


class Edited(msgspec.Struct, frozen=True):
    text: str
    count: int


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
            f"old_string occurs {count} times, at lines {_listed(lines)}",
            hint="add surrounding lines until it is unique, or set replace_all",
        )
    if count:
        return Edited(text.replace(old, new), count)
    raise ToolError(f"old_string is not in the file; {near_misses(lines_of(text), old)}")


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
        return "no line is similar: read the file again"
    best = numbers[near[0]]
    others = " and ".join(str(numbers[line]) for line in near[1:])
    also = f" (others: line {others})" if others else ""
    return f"the most similar lines are these{also}:\n{_shown(lines, best, old.count(chr(10)) + 1)}"


def _shown(lines: list[str], number: int, height: int) -> str:
    """The lines around this one as they are, each with its number."""
    first, last = max(1, number - AROUND - height // 2), min(len(lines), number + AROUND + height)
    rows = lines[first - 1 : min(last, first + MOST_SHOWN - 1)]
    return "\n".join(f"{first + at:6d}\t{row.rstrip()[:400]}" for at, row in enumerate(rows))


def place(text: str, old: str) -> str:
    """The lines around what an edit would change, each with its number; empty where that is not a single place."""
    found = line_numbers(text, old) if old else []
    return _shown(lines_of(text), found[0], old.count("\n") + 1) if found else ""


def _normalised(lines: list[str]) -> list[str]:
    return [" ".join(line.split()) for line in lines]


def _trigrams(line: str) -> set[str]:
    return {line[place : place + 3] for place in range(len(line) - 2)}


# Paths as a model writes them, and as it can read them back.
#
# A name may hold any byte except `/` and NUL, but what a model reads must be printable text. `show` writes
# unprintable bytes of a name as escapes, and `resolve` reads such an escape back when that is the file that exists.

_ODD = "[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]"
_ODD_OR_ESCAPE = _ODD + r"|\\(?=x)"


def resolve(cwd: Path, text: str) -> Path:
    """Absolute, relative to `cwd`, with `~`, `..` and symlinks resolved, also for a file that does not exist yet."""
    if not text.strip():
        raise ToolError("the path is empty")
    if "\0" in text:
        raise ToolError("the path contains a NUL character")
    if text == "~" or text.startswith("~/"):
        text = os.path.expanduser(text)
    path = os.path.join(cwd, text)
    if "\\x" in text and not os.path.lexists(path):
        meant = re.sub(rb"\\x([0-9a-f]{2})", lambda found: bytes([int(found[1], 16)]), os.fsencode(path))
        if b"\0" not in meant and os.path.lexists(meant):
            path = os.fsdecode(meant)
    try:
        return Path(os.path.realpath(path))
    except OSError as error:  # such as a link in /proc that may not be read
        raise ToolError(f"{text}: cannot be followed: {error.strerror}") from None


class Resolved:
    """`resolve` for one tool call: a path is resolved once, so that what is judged is what is opened."""

    def __init__(self, cwd: Path, shell: Any = None) -> None:
        """`shell`: what the last command has left for this one (`bash.ShellState`)."""
        self._cwd = cwd
        self._known: dict[str, Path] = {}
        self.shell = shell.standing() if shell is not None else None

    def __call__(self, text: str) -> Path:
        if text not in self._known:
            self._known[text] = resolve(self._cwd, text)
        return self._known[text]


def show(path: str | Path) -> str:
    """The path as text for a model or an event: one line, valid UTF-8."""
    text = str(path)
    odd = not text.isprintable() and re.search(_ODD, text)
    return re.sub(_ODD_OR_ESCAPE, _escape, text) if odd else text


def _escape(found: re.Match[str]) -> str:
    return "".join(f"\\x{byte:02x}" for byte in found[0].encode("utf-8", "surrogateescape"))


def shown(path: Path, cwd: Path) -> str:
    """As short as possible: relative to the working directory if it lies inside."""
    return show(path.relative_to(cwd)) if path.is_relative_to(cwd) and path != cwd else show(path)


def missing(path: Path) -> ToolError:
    """Reports a missing file, with the names that were perhaps meant."""
    from difflib import get_close_matches

    parent = path.parent
    while not parent.is_dir() and parent != parent.parent:
        parent = parent.parent
    what = f"{show(path)} does not exist"
    if parent != path.parent:
        what += f"; the nearest existing directory is {show(parent)}"
    wanted = path.relative_to(parent).parts[0]
    try:
        names = os.listdir(parent)[:10_000]
    except OSError:
        names = []
    near = {name.lower(): name for name in names}
    meant = [near[low] for low in get_close_matches(wanted.lower(), near, n=3, cutoff=0.6)]
    return ToolError(
        what, hint="did you mean " + " or ".join(show(parent / name) for name in meant) + "?" if meant else None
    )


MAX_EDIT = 32 << 20
_SEEN = "files_seen"
_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFLNK: "a broken symlink",
}


class Stamp(msgspec.Struct, frozen=True):
    """Identifies a version of a file; another version has another stamp."""

    inode: int
    size: int
    mtime_ns: int

    @classmethod
    def of(cls, found: os.stat_result) -> Stamp:
        return cls(found.st_ino, found.st_size, found.st_mtime_ns)


def open_regular(path: Path) -> int:
    """A descriptor for reading an ordinary file; anything else is a ToolError that says what it is."""
    try:
        return io_pinned.open_file(str(path))
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise explain(error, path) from error
    try:
        found = io_pinned.lstat(str(path))
    except OSError as error:
        raise explain(error, path) from error
    if stat.S_ISDIR(found.st_mode):
        raise ToolError(f"{show(path)} is a directory", hint="use glob to list it, or name a file in it")
    raise ToolError(f"{show(path)} is {_KINDS.get(stat.S_IFMT(found.st_mode), 'not a file')}, not a regular file")


def explain(error: OSError, path: Path) -> ToolError:
    """What the system said, in words that help a model to continue."""
    if error.errno == errno.ENOENT:
        return missing(path)
    if error.errno == errno.ELOOP:
        return ToolError(f"{show(path)} is a symlink loop, or became a link just now")
    if error.errno == errno.ENOTDIR:
        return ToolError(f"{show(path)}: one of its parent directories is a file")
    if error.errno in (errno.EACCES, errno.EPERM):
        return ToolError(f"no permission for {show(path)}: {error.strerror}")
    return ToolError(f"{show(path)}: {error.strerror}")


class Loaded(msgspec.Struct, frozen=True):
    """A whole file as it was at one moment. `stamp` is None when it did not exist."""

    path: Path
    data: bytes
    stamp: Stamp | None


def load(path: Path) -> Loaded:
    """The whole of a file that is to be changed."""
    try:
        found = io_pinned.lstat(str(path))
    except FileNotFoundError:
        return Loaded(path, b"", None)
    except OSError as error:
        raise explain(error, path) from error
    if stat.S_ISREG(found.st_mode) and found.st_size > MAX_EDIT:
        raise ToolError(
            f"{show(path)} has {found.st_size:,} bytes; the limit for editing is {MAX_EDIT:,}",
            hint="use bash (sed, python)",
        )
    with opened(open_regular(path)) as file:
        stamp = Stamp.of(os.fstat(file.fileno()))
        return Loaded(path, file.read(MAX_EDIT + 1), stamp)


def text_of(loaded: Loaded) -> str:
    """What it holds, to be compared; empty where that is not text."""
    if binary(loaded.data[:SNIFF]):
        return ""
    return next(decodings(loaded.data), Text("", "")).text


def saw(context: ToolContext, path: Path, stamp: Stamp | None) -> None:
    """Remember which version of the file the model knows."""
    context.state.setdefault(_SEEN, {})[str(path)] = stamp


def changed_since_seen(context: ToolContext, loaded: Loaded) -> bool:
    seen = context.state.get(_SEEN, {}).get(str(loaded.path))
    return seen is not None and seen != loaded.stamp


def not_known(context: ToolContext, loaded: Loaded) -> str:
    """Why the model does not know the content of this file; empty when it does, or when there is no content."""
    if loaded.stamp is None or not loaded.data:
        return ""
    if str(loaded.path) not in context.state.get(_SEEN, {}):
        return f"you have not read {show(loaded.path)}"
    return f"{show(loaded.path)} has changed since you read it" if changed_since_seen(context, loaded) else ""


VIEW = 8 * 1024


def view(context: ToolContext, loaded: Loaded, place: str = "") -> str:
    """The file's current content, for a model that was about to change it blindly; from now on it knows it.

    Of a long file only the `place` that was to be changed, or the beginning.
    """
    saw(context, loaded.path, loaded.stamp)
    if context.hidden(str(loaded.path)):
        return "A rule forbids reading it; call again to replace it anyway"
    if what := binary(loaded.data[:SNIFF]):
        return f"It is {what} of {len(loaded.data):,} bytes; call again to replace it anyway"
    if place and len(loaded.data) > VIEW:
        return f"These are the lines there now. Call again with the right text:\n{place}"
    part = loaded.data[:VIEW]
    shown_part, _ = readable(part[: len(part) - len(cut_character(part))])
    cut = "\n[cut off; read the rest with read_file]" if len(loaded.data) > VIEW else ""
    return f"This is its content now. Call again with the right text:\n{shown_part}{cut}"


def save(
    context: ToolContext, loaded: Loaded, data: bytes, old: str, new: str, *, mode: int | None = None
) -> FileChanged:
    """Replace the loaded file by `data`, or create it: all or nothing. The event says how the text changed.

    `mode` is for a new file; None: as usual.
    """
    path = loaded.path
    with context.writing((show(path),)), pinned(path.parent) as parent:
        if _stamp(path.name, parent) != loaded.stamp:
            raise ToolError(
                f"another process changed {show(path)} just now; nothing was written",
                hint="read it again and redo the change",
            )
        context.backup(path)
        try:
            write_atomic(path.name, data, 0o666 & ~_umask() if mode is None else mode, keep_mode=True, dir_fd=parent)
        except StorageError as error:
            raise ToolError(f"{show(path)} was not changed: {error.message}", hint=error.hint) from error
        saw(context, path, _stamp(path.name, parent))
    return FileChanged(
        path=show(path),
        change="modified" if loaded.stamp else "added",
        diff=unified(_printable(old), _printable(new), shown(path, context.cwd)),
        call=context.call,
    )


def _stamp(name: str, parent: int) -> Stamp | None:
    try:
        return Stamp.of(os.stat(name, dir_fd=parent, follow_symlinks=False))
    except FileNotFoundError:
        return None


async def changing(context: ToolContext, work: Callable[[], tuple[str, FileChanged | None]]) -> str:
    """Run `work`, which changes one file at most, in a thread. An interrupt waits for it: no write is missed."""
    running = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        result, change = await asyncio.shield(running)
    except asyncio.CancelledError:
        with suppress(ToolError):
            _, change = await running
            if change is not None:
                context.emit(change)
        raise
    if change is not None:
        context.emit(change)
    return result


def _printable(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


@contextmanager
def pinned(directory: Path) -> Iterator[int]:
    """The open directory at this resolved path, created where missing, reached without following any link."""
    try:
        fd = io_pinned.open_directory(str(directory), make=True)
    except OSError as error:
        raise explain(error, directory) from error
    try:
        yield fd
    finally:
        os.close(fd)


def _umask() -> int:
    try:
        with opened("/proc/self/status") as status:
            return next(int(line.split()[1], 8) for line in status if line.startswith(b"Umask:"))
    except (OSError, StopIteration):
        mask = os.umask(0o022)
        os.umask(mask)
        return mask
