"""What a checkout has that is not committed, found by ourselves (no git of ours looks at its files, because some may be
an agent's and name programs to run); and the files that a person may mean by the start of a name.

A file of which git's index knows the metadata is believed to be unchanged, as git does. Otherwise bytes are compared as
they are on disk: no filter is applied to them, such as that of LFS.
"""

import os
import stat
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import NamedTuple

from treadle.io import descriptors, scratch
from treadle.io.descriptors import Walk
from treadle.io.files import opened
from treadle.workspace import index_file
from treadle.workspace.changes import TreeEntry
from treadle.workspace.checkouts import changed_files
from treadle.workspace.index_file import IndexEntry
from treadle.workspace.store import GITLINK, Store, lending
from treadle.workspace.user_repository import ID, UserRepository

LARGEST = 32 << 20
"""Bytes of a file that is shown in a difference."""


class Uncommitted(NamedTuple):
    head: dict[str, TreeEntry]
    """The files of the commit that is checked out."""
    changed: tuple[str, ...]
    """Tracked paths that differ from it, in the index or on disk."""
    new: tuple[str, ...]
    """Files that are neither tracked nor ignored."""


def find(user: UserRepository, *, new: bool = True) -> Uncommitted:
    """What is not committed. Without `new`, files that are not tracked are not looked for."""
    entries, head = _entries(user), _head(user)
    staged = {entry.path: TreeEntry(mode=entry.mode, blob=entry.blob) for entry in entries if not entry.stage}
    differ = {path for path in staged.keys() | head.keys() if staged.get(path) != head.get(path)}
    differ |= {entry.path for entry in entries if entry.stage}
    differ |= {*changed_files(user, entries), *_moved_submodules(user, entries)}
    return Uncommitted(head, tuple(sorted(differ)), tuple(_new(user, staged, differ)) if new else ())


def _entries(user: UserRepository) -> list[IndexEntry]:
    if not os.path.exists(user.file("index")):
        return []
    return index_file.parse(index_file.whole_index(user)[0], user.hash_size)


def _head(user: UserRepository) -> dict[str, TreeEntry]:
    """Empty in a repository without commits."""
    listed = user.run("ls-tree", "-r", "-z", "--full-tree", "HEAD", check=False)
    if listed.code != 0 and user.run("rev-parse", "--verify", "--quiet", "HEAD", check=False).code == 0:
        user.run("ls-tree", "HEAD")  # there is a commit, so this says what is wrong
    found = {}
    for row in os.fsdecode(listed.stdout).split("\0")[:-1]:
        fields, path = row.split("\t", 1)
        mode, _, blob = fields.split()
        found[path] = TreeEntry(mode=mode, blob=blob)
    return found


def _moved_submodules(user: UserRepository, entries: Iterable[IndexEntry]) -> list[str]:
    """Only those whose git directory is in the person's: another one may be an agent's."""
    found = []
    for entry in entries:
        inner = UserRepository.at(os.path.join(user.top, entry.path)) if entry.mode == GITLINK else None
        if inner is not None and inner.linked and inner.common.startswith(os.path.join(user.common, "modules") + "/"):
            at = inner.run("rev-parse", "--verify", "--quiet", "HEAD", check=False).stdout.decode().strip()
            found += [entry.path] if ID.fullmatch(at) and at != entry.blob else []
    return found


def _new(user: UserRepository, tracked: Mapping[str, TreeEntry], known: Iterable[str]) -> Iterable[str]:
    links = tuple(f"{path}/" for path, entry in tracked.items() if entry.mode == GITLINK)
    known = set(known)
    for path, _ in Walk(os.path.realpath(user.top), links=True, excludes=user.excludes(everywhere=True)):
        if path not in tracked and path not in known and not (links and path.startswith(links)):
            yield path


def patch(user: UserRepository) -> tuple[bytes, list[str]]:
    """All that is not committed as one difference, with new files; and what is too large to be in it."""
    found = find(user)
    with scratch.directory("difference") as directory:
        store = Store.make(os.path.join(directory, "store"), **lending(user))
        paths = [*found.changed, *found.new]
        after, left_out = now(user, store, paths, {path: found.head[path] for path in paths if path in found.head})
        before = {path: entry for path in paths if (entry := found.head.get(path)) and path not in left_out}
        old, new = store.put_files(before), store.put_files(after)
        store.deltas(old, new)  # brings in what the difference needs of the repository's own objects
        return store.patch(old, new), left_out


def now(
    user: UserRepository, store: Store, paths: Iterable[str], head: Mapping[str, TreeEntry]
) -> tuple[dict[str, TreeEntry], list[str]]:
    """The files at these paths as they are on disk, put into the store; and those that are too large for it.

    A submodule stays as `head` has it.
    """
    made: dict[str, TreeEntry] = {}
    left_out = []
    root = descriptors.open_directory(os.path.realpath(user.top))
    try:
        for path in paths:
            if (known := head.get(path)) is not None and known.mode == GITLINK:
                made[path] = known
                continue
            try:
                entry = _taken(store, root, path)
            except (FileNotFoundError, NotADirectoryError):
                continue  # it was deleted
            except OSError:
                entry = None  # it cannot be read, or a link is on the way to it
            if entry is not None:
                made[path] = entry
            else:
                left_out.append(path)
    finally:
        os.close(root)
    return made, left_out


def _taken(store: Store, root: int, path: str) -> TreeEntry | None:
    folder, _, name = path.rpartition("/")
    fd = descriptors.open_from(root, folder or ".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        found = os.stat(name, dir_fd=fd, follow_symlinks=False)
        if stat.S_ISLNK(found.st_mode):
            return TreeEntry(mode="120000", blob=store.put("blob", os.fsencode(os.readlink(name, dir_fd=fd))))
        if stat.S_ISDIR(found.st_mode):
            raise FileNotFoundError(path)  # a directory is where the file was
        if not stat.S_ISREG(found.st_mode) or found.st_size > LARGEST:
            return None
        with opened(descriptors.open_in(fd, name, os.O_RDONLY | os.O_NONBLOCK)) as file:
            data = file.read(LARGEST + 1)
        mode = "100755" if found.st_mode & 0o100 else "100644"
        return TreeEntry(mode=mode, blob=store.put("blob", data)) if len(data) <= LARGEST else None
    finally:
        os.close(fd)


# The names of the files that a person means when they begin to write one.

FILES = 20_000
SHOWN = 50


def listed(cwd: str) -> list[str]:
    """The files of a directory except those that git ignores; outside of a repository, all but hidden ones.

    We read them ourselves: git would obey what an agent may have put there.
    """
    shown = (name for name, _ in Walk(cwd))
    if UserRepository.around(cwd) is None:
        shown = (name for name in shown if not f"/{name}".count("/."))
    return [*islice(shown, FILES)]


def matching(files: list[str], begun: str) -> list[str]:
    """Those that have this in them: first those that begin with it, the shortest first."""
    wanted = begun.lower()
    hits = [path for path in files if wanted in path.lower()]
    hits.sort(key=lambda path: (not path.lower().startswith(wanted), len(path), path))
    return hits[:SHOWN]
