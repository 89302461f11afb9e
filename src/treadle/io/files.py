"""Files: read whole or followed, replaced as a whole, appended in whole lines, and locked.

When a function that writes returns, the data survives `kill -9`, and a power cut too if it synced. Every `OSError`
becomes a `StorageError` that names the path and says what to do, except in the first part, for callers that handle
`OSError` themselves. Light: the small commands import this.
"""

from __future__ import annotations

import errno
import fcntl
import io
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator

from treadle.errors import Busy, DiskFull, StorageError

# Opening, creating and renaming without translating errors, for callers that handle `OSError` themselves.


def opened(file: str | int) -> io.BufferedReader:
    """A file to read bytes from, given by its path or by a descriptor, which is closed with it."""
    return open(file, "rb")


def changing(path: str) -> io.BufferedRandom:
    """An existing file, to read and to change in place."""
    return open(path, "r+b")


def create(path: str) -> int:
    """A descriptor of a new, empty file that only its owner may read. Any old content is lost."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)


def create_new(path: str, mode: int = 0o600) -> io.FileIO:
    """A new file; FileExistsError when there is one of this name, or a link."""
    return io.FileIO(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb")


def created(path: str) -> io.FileIO:
    """The same as a file object without buffering."""
    return io.FileIO(create(path), "wb")


def appending(path: str) -> io.FileIO:
    """A file to append to, without buffering; created if missing."""
    return io.FileIO(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "ab")


def write(path: str, data: bytes, *, sync: bool = False) -> None:
    """For a file in a private directory, where no one can see it half-written."""
    with created(path) as file:
        left = memoryview(data)
        while left:
            left = left[file.write(left) :]
        if sync:
            os.fsync(file.fileno())


def part(path: str, at: int, size: int) -> tuple[bytes, int]:
    """At most `size` bytes from `at` on, and the length of the file."""
    with opened(path) as file:
        length = file.seek(0, os.SEEK_END)
        file.seek(min(at, length))
        return file.read(size), length


def rename(old: str, new: str) -> None:
    os.rename(old, new)


def place_new(path: str, data: bytes) -> None:
    """Let a file with this content appear under a name that is free. Raises FileExistsError if it is not.

    No one sees it half-written, and of several that try at once one succeeds.
    """
    beside = f"{path}.{os.getpid()}-{os.urandom(4).hex()}"
    try:
        write(beside, data)
        try:
            os.link(beside, path)  # a rename would replace a file of that name
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links
            with io.FileIO(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
                file.write(data)
    finally:
        os.unlink(beside)


_HINTS = {
    errno.ENOSPC: "the disk is full: free some space",
    errno.EDQUOT: "your disk quota is used up: free some space",
    errno.EFBIG: "the file has reached the size limit of this process or file system",
    errno.EROFS: "the file system is mounted read-only",
    errno.EACCES: "check who owns it and its permissions",
    errno.EPERM: "check who owns it and its permissions",
    errno.ENOENT: "its directory does not exist",
    errno.EMFILE: "too many open files: raise `ulimit -n`",
    errno.EIO: "the disk reports an error: check its health",
}
IRREGULAR = "not a regular file"


def storage_error(error: OSError, path: str, doing: str) -> StorageError:
    """The error to raise for `error`, which happened on an attempt to `doing` ("write", "read"...) `path`."""
    reason = error.strerror or str(error)
    hint = "copy it into a file first" if reason == IRREGULAR else _HINTS.get(error.errno or 0)
    if error.errno == errno.ENOENT and os.path.isdir(os.path.dirname(os.path.abspath(path))):
        hint = None  # the file itself is missing, as the reason says
    kind = DiskFull if error.errno in (errno.ENOSPC, errno.EDQUOT) else StorageError
    return kind(f"cannot {doing} {path}: {reason}", hint=hint)


# Replacing a whole file...


def write_atomic(
    path: str,
    data: bytes,
    mode: int = 0o600,
    *,
    keep_mode: bool = False,
    sync: bool = True,
    dir_fd: int | None = None,
) -> None:
    """Replace the content of `path` by `data`: a reader, or a crash, sees the old content or the new, never a part.

    With `keep_mode` an existing file keeps its permissions and owner. A symbolic link is followed and stays a link; a
    device or a pipe is written to directly. Without `sync` a power cut may bring the old content back. With `dir_fd`,
    `path` is a name in that open directory, even if the directory has been renamed, and a link of that name is
    replaced, not followed.
    """
    if _is_special(path, dir_fd):
        return _write_into(path, data, dir_fd)
    path = path if dir_fd is not None else os.path.realpath(path)
    directory = os.path.dirname(path) or "."
    _remove_abandoned(directory, dir_fd)
    beside = os.path.join(directory, f".treadle-{os.urandom(8).hex()}.tmp")
    try:
        fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=dir_fd)
        try:
            _hold(fd)
            _set_rights(fd, path, mode, keep_mode, dir_fd)
            write_all(fd, data)
            if sync:
                os.fsync(fd)  # before the rename: a power cut could leave the new name without its content
            os.rename(beside, path, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
        except BaseException:
            try_remove(beside, dir_fd)  # the earlier failure is the one to report
            raise
        finally:
            os.close(fd)
        if sync:
            _sync_directory(directory, dir_fd)  # the rename is a change of the directory, and lasts only with it
    except OSError as error:
        raise storage_error(error, path, "write") from error


def is_unfinished(name: str) -> bool:
    """Whether `write_atomic` calls a file so until it is in place."""
    return name.startswith(".treadle-") and name.endswith(".tmp") and len(name) == len(".treadle-.tmp") + 16


def move(old: str, new: str) -> None:
    """Rename a file, across file systems too, replacing any file of the new name."""
    import shutil

    try:
        shutil.move(old, new)
    except OSError as error:
        raise storage_error(error, old, "move") from error


def _remove_abandoned(directory: str, dir_fd: int | None) -> None:
    """Remove temporary files that killed writers left here, once per process and directory: those no one has locked."""
    try:
        found = os.stat(directory, dir_fd=dir_fd)
        if (place := (found.st_dev, found.st_ino)) in _tidied:
            return
        _tidied.add(place)
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=dir_fd)
    except OSError:
        return
    try:
        for name in filter(is_unfinished, os.listdir(fd)):
            try:
                _forget_unheld(name, fd)
            except OSError:
                continue  # someone writes it, another process was first, or we may not remove it
    except OSError:
        pass  # it cannot be listed
    finally:
        os.close(fd)


def _hold(fd: int) -> None:
    """Lock a temporary file while it is written. An unlocked one was left by a writer that was killed."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
    except OSError:
        pass  # the file system has no locks: only the file's age can tell then


_tidied: set[tuple[int, int]] = set()
JUST_NOW = 10.0  # seconds: a younger file may not be locked yet


def _forget_unheld(name: str, dir_fd: int) -> None:
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=dir_fd)
    try:
        found = os.fstat(fd)
        if stat.S_ISREG(found.st_mode) and time.time() - found.st_mtime > JUST_NOW:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(name, dir_fd=dir_fd)
    finally:
        os.close(fd)


def _is_special(path: str, dir_fd: int | None) -> bool:
    try:
        found = os.stat(path, dir_fd=dir_fd, follow_symlinks=dir_fd is None)
        return stat.S_ISCHR(found.st_mode) or stat.S_ISFIFO(found.st_mode)
    except OSError:
        return False


def _write_into(path: str, data: bytes, dir_fd: int | None) -> None:
    try:
        fd = os.open(path, os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC, dir_fd=dir_fd)
        try:
            write_all(fd, data)
        finally:
            os.close(fd)
    except OSError as error:
        raise storage_error(error, path, "write") from error


def try_remove(path: str, dir_fd: int | None = None) -> None:
    """Remove a file if that is possible: another process may have been first."""
    try:
        os.unlink(path, dir_fd=dir_fd)
    except OSError:
        pass


def _set_rights(fd: int, path: str, mode: int, keep: bool, dir_fd: int | None) -> None:
    try:
        old = os.stat(path, dir_fd=dir_fd, follow_symlinks=False) if keep else None
    except FileNotFoundError:
        old = None
    if old and stat.S_ISREG(old.st_mode):
        mode = stat.S_IMODE(old.st_mode)
        new = os.fstat(fd)
        if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
            try:
                os.fchown(fd, old.st_uid, old.st_gid)
            except PermissionError:
                mode &= 0o777  # the file becomes ours, so it must not stay setuid for its former owner
    os.fchmod(fd, mode)


def write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _sync_directory(directory: str, dir_fd: int | None = None) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=dir_fd)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


# Append-only logs of lines...


def append_line(path: str, line: bytes, sync: bool = False, mode: int = 0o600) -> None:
    """Append `line` (without its newline) to the log at `path`, whole or not at all, even with many writers at once."""
    append_lines(path, (line,), sync, mode)


def append_lines(path: str, lines: Iterable[bytes], sync: bool = False, mode: int = 0o600) -> None:
    """Append several lines in one write, so that no other writer's line comes between them.

    If a crash cut off the last line, a newline is added first, so that only that line is lost.
    """
    parts = list(lines)
    data = b"".join([part + b"\n" for part in parts])
    if data.count(b"\n") != len(parts):
        raise ValueError("a line to append must not contain a newline")
    if not data:
        return
    try:
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, mode)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            _append(fd, data)
            if sync:
                os.fsync(fd)
        finally:
            os.close(fd)
    except OSError as error:
        raise storage_error(error, path, "append to") from error


def open_append(path: str, mode: int = 0o600) -> int:
    """A descriptor that appends to the file, for a program to write to. The caller must close it."""
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, mode)
    except OSError as error:
        raise storage_error(error, path, "write") from error


def _append(fd: int, data: bytes) -> None:
    size = os.fstat(fd).st_size
    if size and os.pread(fd, 1, size - 1) != b"\n":
        data = b"\n" + data
    try:
        write_all(fd, data)
    except OSError:
        try:
            os.ftruncate(fd, size)  # the disk filled up half-way: leave no part of a line
        except OSError:
            pass  # a device has no size; the first failure is the one to report
        raise


def read_at_most(path: str, limit: int, *, follow: bool = True) -> bytes:
    """The first `limit` bytes of a regular file. Raises OSError for any other kind too, because a pipe could block."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW))
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, IRREGULAR, path)
        parts, left = [], limit
        while data := os.read(fd, min(left, 1 << 20)):
            parts.append(data)
            left -= len(data)
        return b"".join(parts)
    finally:
        os.close(fd)


class LogLines:
    """The complete lines of a log, one at a time. Afterwards `torn` holds what followed the last newline.

    A log that does not exist yet has no lines.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.torn = b""

    def __iter__(self) -> Iterator[bytes]:
        self.torn = b""
        try:
            with open(self.path, "rb") as file:
                for line in file:  # a binary file is cut on LF only
                    if line.endswith(b"\n"):
                        yield line[:-1]
                    else:
                        self.torn = line
                        return  # stop here: what a writer appends now would look like a separate line
        except FileNotFoundError:
            return
        except OSError as error:
            raise storage_error(error, self.path, "read") from error


def iter_lines(path: str) -> LogLines:
    """The lines of a possibly big log: `for line in (lines := iter_lines(path))`; afterwards look at `lines.torn`."""
    return LogLines(path)


def read_lines(path: str) -> tuple[list[bytes], bytes]:
    """All complete lines of a log, and the content of an unfinished last line (`b""` when there is none)."""
    lines = LogLines(path)
    return list(lines), lines.torn


# Locks...


class locked:
    """`with locked(path):` has one holder at a time among all processes and threads; the kernel frees it on death.

    The lock file is created if missing and never removed: a removed one could be locked twice. `timeout=None` waits for
    ever, 0 tries once. When the time is up it raises `Busy`, naming the holder if the system tells. If the holder has
    changed meanwhile, as on a busy machine with many writers, it keeps waiting for its turn.
    """

    def __init__(self, path: str, timeout: float | None = 10.0) -> None:
        self.path = path
        self.timeout = timeout
        self._fd = -1

    def __enter__(self) -> locked:
        try:
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                self._wait(fd)
            except BaseException:
                os.close(fd)
                raise
        except OSError as error:
            raise storage_error(error, self.path, "lock") from error
        self._fd = fd
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)  # not LOCK_UN, which would also free it for a child that has inherited the open file

    @property
    def fd(self) -> int:
        """The open file that holds the lock. A child that inherits it keeps the lock after we have closed it."""
        return self._fd

    def _wait(self, fd: int) -> None:
        if self.timeout is None:
            return fcntl.flock(fd, fcntl.LOCK_EX)
        deadline = time.monotonic() + self.timeout
        pause = 0.001
        before: str | None = None
        while True:
            try:
                return fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                left = deadline - time.monotonic()
            if before is None or left <= 0:
                holder = _holder(fd)
                if left <= 0 and (before is None or holder == before):
                    raise Busy(f"{self.path} is locked{holder}; gave up after {self.timeout:g} s", hint="try again")
                before = holder
                deadline, left = (deadline + self.timeout, pause) if left <= 0 else (deadline, left)
            time.sleep(min(pause, left))
            pause = min(pause * 2, 0.05)


def is_locked(path: str) -> bool:
    """Whether someone holds `locked(path)` now. Checking does not disturb others who check."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise storage_error(error, path, "read") from error
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


class locked_beside(locked):
    """Like `locked`, with a lock directory as well, for other programs that lock by `mkdir` and break `stale` locks.

    Among our processes the lock file decides; the directory is for the others, and works both ways. The lock file
    records which directory is ours, so one that a killed process of ours left behind is taken over at once; only
    another program's has to become stale.
    """

    _MAKING = b"making".ljust(64)
    _MAKING_SECONDS = 2.0
    """How old it may get if one of our processes died while making it: it is almost certainly that one's."""

    def __init__(self, path: str, directory: str, timeout: float = 10.0, stale: float = 30.0) -> None:
        super().__init__(path, timeout)
        self.directory = directory
        self.stale = stale

    def __enter__(self) -> locked_beside:
        super().__enter__()
        try:
            self._take()
        except OSError as error:
            os.close(self._fd)
            raise storage_error(error, self.directory, "lock") from error
        except BaseException:
            os.close(self._fd)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            os.rmdir(self.directory)
        except OSError:
            pass  # another program broke it when it was stale, so it is not ours to remove
        super().__exit__()

    def _take(self) -> None:
        deadline = time.monotonic() + (self.timeout or 0.0)
        left = os.pread(self._fd, 64, 0)
        patience = min(self._MAKING_SECONDS, self.stale) if left == self._MAKING else self.stale
        while not self._make(left):
            if self._age() > patience:
                self._break()
            elif time.monotonic() > deadline:
                raise Busy(
                    f"{self.directory} is locked by another program; gave up after {self.timeout:g} s",
                    hint=f"the lock expires after {self.stale:g} s",
                )
            else:
                time.sleep(0.02)

    def _make(self, left: bytes) -> bool:
        """Make the directory, or take over the one that the lock file says is ours; False when it is another's."""
        os.pwrite(self._fd, self._MAKING, 0)
        try:
            os.mkdir(self.directory)
        except FileNotFoundError:
            os.pwrite(self._fd, left.ljust(64), 0)
            return True  # the parent directory is gone, so there is no one to keep out
        except FileExistsError:
            os.pwrite(self._fd, left.ljust(64), 0)
            try:
                if left != self._mark():
                    return False
                os.utime(self.directory)
            except FileNotFoundError:
                return False  # it was released just now; the next attempt gets it
        os.pwrite(self._fd, self._mark(), 0)
        return True

    def _break(self) -> None:
        try:
            os.rmdir(self.directory)
        except FileNotFoundError:
            pass  # another process broke it, or its holder released it

    def _mark(self) -> bytes:
        # The inode number alone is not enough: the next directory that anybody makes may get the same one.
        found = os.stat(self.directory)
        return f"{found.st_ino} {found.st_ctime_ns}".encode().ljust(64)

    def _age(self) -> float:
        try:
            return time.time() - os.stat(self.directory).st_mtime
        except FileNotFoundError:
            return 0.0


def _holder(fd: int) -> str:
    found = os.fstat(fd)
    place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    try:
        with open("/proc/locks") as table:
            for row in table:
                fields = row.split()
                if fields[1:2] == ["FLOCK"] and place in fields:
                    return f" by process {fields[4]}"
    except OSError:
        pass
    return ""


# Reading whole files, with one kind of error, and following them as they grow.


def read(path: str, most: int | None = None) -> bytes:
    """The content of the file; StorageError when it cannot be read. With a limit also when it is larger, or not a
    regular file: a device or a pipe may have no end."""
    try:
        if most is None:
            with open(path, "rb") as file:
                return file.read()
        data = read_at_most(path, most + 1)
    except OSError as error:
        raise storage_error(error, path, "read") from error
    if len(data) > most:
        raise StorageError(f"{path} is larger than {most >> 20} MiB, the limit for reading", hint="name another file")
    return data


def read_if_there(path: str) -> bytes | None:
    """The content of the file, or None when it does not exist; StorageError when it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise storage_error(error, path, "read") from error


def read_ends(path: str, size: int) -> bytes:
    """At most `size` bytes from each end of the file, on lines of their own; StorageError when it cannot be read."""
    try:
        with open(path, "rb") as file:
            first = file.read(size)
            length = os.fstat(file.fileno()).st_size
            if length <= size:
                return first
            file.seek(max(size, length - size))
            return first + b"\n" + file.read(size)
    except OSError as error:
        raise storage_error(error, path, "read") from error


def sha256(path: str) -> str:
    """The hash of the file's content. Raises OSError."""
    import hashlib

    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def state_numbers(directory: str, ending: str) -> dict[str, int]:
    """For each file in a directory whose name ends with `ending`, a number that differs after any change of the file.

    Empty when the directory does not exist.
    """
    found = {}
    try:
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)  # faster access to its files
    except FileNotFoundError:
        return {}
    try:
        with os.scandir(fd) as entries:
            for entry in entries:
                if entry.name.endswith(ending):
                    try:
                        found[entry.name] = _number(entry.stat())
                    except FileNotFoundError:
                        pass  # removed while we look
    finally:
        os.close(fd)
    return found


def state_number(path: str) -> int:
    return _number(os.stat(path))


def _number(state: os.stat_result) -> int:
    return hash((state.st_ctime_ns, state.st_size, state.st_ino))


def follow_lines(path: str, going_on: Callable[[], bool], every: float) -> Iterator[bytes]:
    """The lines of a growing file as they come, until `going_on` returns False and all has been read. The file need
    not exist yet, and may be removed meanwhile: it is read to the end."""
    while not os.path.exists(path):
        if not going_on():
            return
        time.sleep(every)
    try:
        file = open(path, "rb")
    except FileNotFoundError:
        return  # removed between the two checks
    with file:
        rest = b""
        while True:
            more_may_come = going_on()
            *lines, rest = (rest + file.read()).split(b"\n")
            yield from lines
            if not lines:
                if not more_may_come:
                    return
                time.sleep(every)


def text_if_there(path: str) -> str | None:
    """The same as text; what is not UTF-8 in it is replaced."""
    data = read_if_there(path)
    return None if data is None else data.decode(errors="replace")
