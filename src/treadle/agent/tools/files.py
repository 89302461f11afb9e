"""How tools read and change files of the workspace, which may be hostile or changed by others meanwhile.

Reading never blocks on a FIFO and never touches a device. Reading and writing go through the directory that was
resolved when permission was asked: it is opened step by step without following links, so a symlink swapped in since
then is an error, not a way out. A file that changed since it was loaded is not overwritten.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from treadle.agent.tools import editing
from treadle.agent.tools.base import ToolContext
from treadle.errors import StorageError, ToolError
from treadle.events import FileChanged
from treadle.io import descriptors as io_pinned
from treadle.io.files import opened, write_atomic

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

    def __init__(self, cwd: Path) -> None:
        self._cwd = cwd
        self._known: dict[str, Path] = {}

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
        what += f"; the deepest directory that does is {show(parent)}"
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
    stat.S_IFLNK: "a symlink that leads nowhere",
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
    raise ToolError(f"{show(path)} is {_KINDS.get(stat.S_IFMT(found.st_mode), 'not a file')}, not an ordinary file")


def explain(error: OSError, path: Path) -> ToolError:
    """What the system said, in words that help a model to continue."""
    if error.errno == errno.ENOENT:
        return missing(path)
    if error.errno == errno.ELOOP:
        return ToolError(f"{show(path)} is a symlink that leads in a circle, or was put there just now")
    if error.errno == errno.ENOTDIR:
        return ToolError(f"{show(path)}: something on the way is not a directory")
    if error.errno in (errno.EACCES, errno.EPERM):
        return ToolError(f"{show(path)} may not be read or written: {error.strerror}")
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
            f"{show(path)} has {found.st_size:,} bytes; at most {MAX_EDIT:,} can be edited or replaced here",
            hint="use bash (sed, python) for it",
        )
    with opened(open_regular(path)) as file:
        stamp = Stamp.of(os.fstat(file.fileno()))
        return Loaded(path, file.read(MAX_EDIT + 1), stamp)


def text_of(loaded: Loaded) -> str:
    """What it holds, to be compared; empty where that is not text."""
    if editing.binary(loaded.data[: editing.SNIFF]):
        return ""
    return next(editing.decodings(loaded.data), editing.Text("", "")).text


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
        return "Rules keep it from being read; call again if it is to be replaced all the same"
    if what := editing.binary(loaded.data[: editing.SNIFF]):
        return f"It is {what} of {len(loaded.data):,} bytes; call again if it is to be replaced all the same"
    if place and len(loaded.data) > VIEW:
        return f"It holds this there now; call again with what should be there:\n{place}"
    part = loaded.data[:VIEW]
    shown_part, _ = editing.readable(part[: len(part) - len(editing.cut_character(part))])
    cut = "\n[it goes on; read the rest with read_file]" if len(loaded.data) > VIEW else ""
    return f"It holds this now; call again with what should be there:\n{shown_part}{cut}"


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
                f"{show(path)} was changed by another process at this very moment; nothing was written",
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
        diff=editing.unified(_printable(old), _printable(new), shown(path, context.cwd)),
        call=context.call,
    )


def remove(context: ToolContext, loaded: Loaded, old: str) -> FileChanged:
    """Remove the loaded file, if it is still that one."""
    path = loaded.path
    with context.writing((show(path),)), pinned(path.parent) as parent:
        if _stamp(path.name, parent) != loaded.stamp:
            raise ToolError(f"{show(path)} was changed by another process at this very moment; it was not removed")
        context.backup(path)
        try:
            os.unlink(path.name, dir_fd=parent)
        except OSError as error:
            raise explain(error, path) from error
        saw(context, path, None)
    lost = editing.unified(_printable(old), "", shown(path, context.cwd))
    return FileChanged(path=show(path), change="deleted", diff=lost, call=context.call)


def _stamp(name: str, parent: int) -> Stamp | None:
    try:
        return Stamp.of(os.stat(name, dir_fd=parent, follow_symlinks=False))
    except FileNotFoundError:
        return None


async def changing(context: ToolContext, work: Callable[[], tuple[str, FileChanged | None]]) -> str:
    """Run `work`, which changes one file at most, as `writing` does."""

    def one(tell: Callable[[FileChanged], None]) -> str:
        result, change = work()
        if change is not None:
            tell(change)
        return result

    return await writing(context, one)


async def writing(context: ToolContext, work: Callable[[Callable[[FileChanged], None]], str]) -> str:
    """Run `work` in a thread and report what it tells of; an interrupt waits for it, so that no write is missed."""
    changes: list[FileChanged] = []
    running = asyncio.ensure_future(asyncio.to_thread(work, changes.append))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        with suppress(ToolError):
            await running
        raise
    finally:
        for change in changes:
            context.emit(change)


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
