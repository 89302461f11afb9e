"""This machine as others ask about it: its file system for permission rules, and how busy it is."""

import os
import os.path
from collections.abc import Iterator

from treadle.errors import StorageError
from treadle.io.files import read

# This machine's file system, as permission rules ask about it.


class _Disk:
    """A `policy.rules.Disk`."""

    def expand(self, path: str) -> str:
        return os.path.expanduser(path)

    def real(self, path: str) -> str:
        """Where the path leads. A link that may not be read, as in /proc, is taken as the end."""
        try:
            return os.path.realpath(path)
        except OSError as error:
            return str(error.filename or "/")

    def found(self, base: str, pattern: str) -> Iterator[str]:
        import glob

        return glob.iglob(os.path.join(glob.escape(base), pattern))


class RememberingDisk(_Disk):
    """Looks at each directory once, until it is told to forget. Only for judging what has already happened: a judge
    of what is about to happen must look every time."""

    def __init__(self) -> None:
        self._folders: dict[str, str] = {}

    def real(self, path: str) -> str:
        folder, slash, name = path.rpartition("/")
        if not slash or name in ("", ".", ".."):
            return os.path.realpath(path)
        real = self._folders.get(folder)
        if real is None:
            real = self._folders[folder] = os.path.realpath(folder or "/")
        place = f"{real.rstrip('/')}/{name}"
        return os.path.realpath(place) if os.path.islink(place) else place

    def forget(self) -> None:
        self._folders.clear()


DISK = _Disk()

PROC = "/proc"


class MachineLook:
    """Looks now and then. How busy the processors are is measured over the time since the look before."""

    def __init__(self) -> None:
        self._busy, self._all = _processor_times()

    def cpu(self) -> float | None:
        """The share of all processors that was used, from 0 to 1; None where the system does not tell."""
        busy, everything = _processor_times()
        used, time = busy - self._busy, everything - self._all
        self._busy, self._all = busy, everything
        return min(1.0, max(0.0, used / time)) if time > 0 else None


def memory() -> tuple[int, int]:
    """Bytes of memory that programs could still get, and all of it; zeros where the system does not tell."""
    try:
        rows = dict(line.split(":", 1) for line in read(f"{PROC}/meminfo").decode().splitlines() if ":" in line)
        free, whole = (int(rows[name].split()[0]) * 1024 for name in ("MemAvailable", "MemTotal"))
        return free, whole
    except (StorageError, KeyError, ValueError, IndexError):
        return 0, 0


def disk(directory: str) -> tuple[int, int]:
    """Bytes of a directory's file system that are free for us, and all of it."""
    found = os.statvfs(directory)
    return found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize


def _processor_times() -> tuple[int, int]:
    try:
        ticks = [int(each) for each in read(f"{PROC}/stat").split(b"\n", 1)[0].split()[1:9]]
    except (StorageError, ValueError):
        return 0, 0
    return sum(ticks) - sum(ticks[3:5]), sum(ticks)  # idle, and waiting for a disk, is not used
