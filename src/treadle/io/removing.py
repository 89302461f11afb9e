"""Removes a directory with all that is in it, whatever its permissions and however deep it is.

Deep directories are moved up before they are removed, so no path gets too long and no recursion too deep.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from treadle.io.files import storage_error

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(path: str) -> None:
    """Remove a directory of ours, or a file; nothing if it is not there. Raises StorageError."""
    try:
        if os.path.isdir(path) and not os.path.islink(path):
            _empty(path)
            os.rmdir(path)
        elif os.path.lexists(path):
            os.unlink(path)
    except OSError as error:
        raise storage_error(error, path, "remove") from error


def _empty(path: str) -> None:
    with suppress(PermissionError):  # it is another user's; perhaps it can be emptied all the same
        os.chmod(path, stat.S_IRWXU)
    root = os.open(path, _FOLDER)
    number = 0
    try:
        while found := _listed(root):
            for name, is_folder in found:
                if not is_folder:
                    os.unlink(name, dir_fd=root)
                    continue
                with _opened(root, name) as folder:
                    for inner, is_inner_folder in _listed(folder):
                        if not is_inner_folder:
                            os.unlink(inner, dir_fd=folder)
                            continue
                        _make_ours(folder, inner)  # a directory that cannot be written to cannot be moved
                        number = _free(root, number)
                        os.rename(inner, f"{number}.removed", src_dir_fd=folder, dst_dir_fd=root)
                os.rmdir(name, dir_fd=root)
    finally:
        os.close(root)


def _listed(folder: int) -> list[tuple[str, bool]]:
    with os.scandir(folder) as entries:
        return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]


@contextmanager
def _opened(root: int, name: str) -> Iterator[int]:
    _make_ours(root, name)
    folder = os.open(name, _FOLDER, dir_fd=root)
    try:
        yield folder
    finally:
        os.close(folder)


def _make_ours(parent: int, name: str) -> None:
    if os.lstat(name, dir_fd=parent).st_mode & stat.S_IRWXU != stat.S_IRWXU:
        os.chmod(name, stat.S_IRWXU, dir_fd=parent)


def _free(root: int, number: int) -> int:
    """The next number whose name is free in the directory."""
    while True:
        number += 1
        try:
            os.lstat(f"{number}.removed", dir_fd=root)
        except FileNotFoundError:
            return number
