"""This machine's file system, as permission rules ask about it."""

import os.path
from collections.abc import Iterator


class _Disk:
    """A `policy.disk.Disk`."""

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
