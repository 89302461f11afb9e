"""Writes a tree of a store into a fresh directory, byte for byte, each file hashed on the way.

This is no checkout: no filter runs, no line ending changes, and nothing in the directory is followed or replaced.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import closing
from itertools import groupby

from treadle.errors import WorkspaceError
from treadle.io import pinned
from treadle.io.files import storage_error, write_all
from treadle.workspace.changes import TreeEntry
from treadle.workspace.git_names import is_forbidden
from treadle.workspace.look import Metadata, metadata_of
from treadle.workspace.store import GITLINK, Store

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


def write_files(store: Store, files: Mapping[str, TreeEntry], directory: str) -> dict[str, Metadata]:
    """Write these files into `directory`, which is made if it is missing and must be empty. Returns their metadata.

    Links come last, so that no path leads through one. A submodule becomes an empty directory. Raises WorkspaceError
    for a path that would leave the directory, an object that is missing, or one that is not what its name says.
    """
    if wrong := {name for name in {name for path in files for name in path.split("/")} if is_forbidden(name)}:
        path = next(path for path in files if not wrong.isdisjoint(path.split("/")))
        raise WorkspaceError(f"{path!r} is not a path for a file")
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        if os.listdir(directory):
            raise WorkspaceError(f"{directory} is not empty")
        root = pinned.open_directory(os.path.realpath(directory))
        try:
            writing = _Writing(store, root)
            writing.run(files)
        finally:
            os.close(root)
    except OSError as error:
        raise storage_error(error, error.filename or directory, "write") from error
    return writing.seen


class _Writing:
    def __init__(self, store: Store, root: int) -> None:
        self._store = store
        self._root = root
        self._made = {""}
        self.seen: dict[str, Metadata] = {}

    def run(self, files: Mapping[str, TreeEntry]) -> None:
        links: list[tuple[str, str]] = []
        for path, entry in files.items():
            folder = path if entry.mode == GITLINK else path.rpartition("/")[0]
            if folder not in self._made:
                self._make(folder)
        content = [(path, entry) for path, entry in files.items() if entry.mode != GITLINK]
        content.sort(key=lambda item: item[0].rpartition("/"))
        blobs = self._store.stream([entry.blob for _, entry in content], lent=True)
        with closing(blobs):
            for folder, inside in groupby(content, key=lambda item: item[0].rpartition("/")[0]):
                fd = pinned.open_from(self._root, folder or ".", os.O_RDONLY | os.O_DIRECTORY)
                try:
                    for path, entry in inside:
                        _, _, pieces = next(blobs)
                        if entry.is_link:
                            links.append((path, os.fsdecode(b"".join(pieces))))
                        else:
                            self.seen[path] = _write(fd, path[len(folder) + bool(folder) :], entry, pieces)
                finally:
                    os.close(fd)
        for path, target in links:
            self._link(path, target)

    def _make(self, folder: str) -> None:
        missing = []
        while folder not in self._made:
            missing.append(folder)
            folder = folder.rpartition("/")[0]
        for each in reversed(missing):
            os.mkdir(each, dir_fd=self._root)
            self._made.add(each)

    def _link(self, path: str, target: str) -> None:
        folder, _, name = path.rpartition("/")
        fd = pinned.open_from(self._root, folder or ".", os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.symlink(target, name, dir_fd=fd)
            self.seen[path] = metadata_of(os.lstat(name, dir_fd=fd))
        finally:
            os.close(fd)


def _write(fd: int, name: str, entry: TreeEntry, pieces: Iterator[bytes]) -> Metadata:
    file = pinned.open_in(fd, name, _NEW, 0o777 if entry.executable else 0o666)
    try:
        for piece in pieces:
            write_all(file, piece)
        return metadata_of(os.fstat(file))
    finally:
        os.close(file)
