"""Moves and copies files between directories that are open, so that no link leads elsewhere (`pinned.py`)."""

import errno
import os
import stat

from treadle.io import pinned
from treadle.io.copying import copy_between
from treadle.io.files import try_remove

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY


def move(old: int, name: str, new: int, to: str) -> None:
    """Move a file or a link from the directory `old` to `new`, where it replaces a file of that name. On another file
    system it is copied first, and appears in one step all the same. Raises OSError."""
    try:
        os.rename(name, to, src_dir_fd=old, dst_dir_fd=new)
        return
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
    beside = f".treadle-{os.urandom(8).hex()}"
    try:
        copy(old, name, new, beside, sync=True)
        os.rename(beside, to, src_dir_fd=new, dst_dir_fd=new)
    except BaseException:
        try_remove(beside, new)
        raise
    os.unlink(name, dir_fd=old)


def link_or_copy(old: int, name: str, new: int, to: str) -> None:
    """Give a file a second name in another directory, or copy it where no hard link can be made. Raises OSError."""
    try:
        os.link(name, to, src_dir_fd=old, dst_dir_fd=new, follow_symlinks=False)
    except FileExistsError:
        raise
    except OSError:
        copy(old, name, new, to, sync=True)


def copy(old: int, name: str, new: int, to: str, *, sync: bool = False) -> None:
    """Copy an ordinary file or a link; EINVAL for anything else, EEXIST if the name is taken."""
    mode = os.lstat(name, dir_fd=old).st_mode
    if stat.S_ISLNK(mode):
        os.symlink(os.readlink(name, dir_fd=old), to, dir_fd=new)
        return
    reading = pinned.open_in(old, name, _READ)
    try:
        if not stat.S_ISREG(os.fstat(reading).st_mode):
            raise OSError(errno.EINVAL, "not an ordinary file", name)
        writing = pinned.open_in(new, to, _NEW, 0o600)
        try:
            copy_between(reading, writing)
            if sync:
                os.fsync(writing)
        finally:
            os.close(writing)
    finally:
        os.close(reading)
