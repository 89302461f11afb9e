"""The checkouts of a person's repository that have a branch checked out, and what stands in the way of changing them.

Files are compared by us, not by git: no filter, hook or other program that a checkout could name is started. What git
last knew of a file (its times, inode and size) is believed if the file still looks the same, as git does.
"""

import difflib
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import groupby

from treadle.errors import WorkspaceError
from treadle.io import descriptors
from treadle.io.files import opened, read_if_there
from treadle.workspace import index_file
from treadle.workspace.changes import Delta, TreeEntry
from treadle.workspace.gate import TreeGate, crossings
from treadle.workspace.index_file import IndexEntry
from treadle.workspace.merge import File, put_beside
from treadle.workspace.store import GITLINK, Store
from treadle.workspace.user_repository import UserRepository

NAMED = 3
"""How many files a refusal names."""
UNFINISHED = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply", "sequencer")


def find(path: str) -> UserRepository | None:
    """As `UserRepository.around`; but a `.git` that cannot be made sure of is an error, and not the same as none."""
    found, place = UserRepository.around(path), os.path.realpath(path)
    while found is None and place != "/":
        if os.path.lexists(os.path.join(place, ".git")):
            raise WorkspaceError(f"{place}/.git is not the git directory of a checkout", hint="try git status there")
        place = os.path.dirname(place)
    return found


def around(path: str) -> UserRepository:
    """The repository of the checkout that this path is in."""
    found = UserRepository.around(path)
    if found is None:
        raise WorkspaceError(f"{path} is not in a git repository")
    return found


def repository(path: str) -> UserRepository:
    """The repository of the checkout that this path is in, or the bare one that is exactly here."""
    return UserRepository.bare(path) or around(path)


def branch_here(user: UserRepository) -> str:
    """The name of the branch that is checked out."""
    ref = user.head()
    if not ref.startswith("refs/heads/"):
        raise WorkspaceError(f"no branch is checked out in {user.top}", hint="name one, or `git switch BRANCH`")
    return ref.removeprefix("refs/heads/")


def missing(user: UserRepository, name: str) -> WorkspaceError:
    """The error where no commit or branch has this name, with the branch that may have been meant."""
    listed = user.run("for-each-ref", "--format=%(refname:short)", "refs/heads", check=False).stdout.decode().split()
    short = name.removeprefix("refs/heads/")
    near = difflib.get_close_matches(short, listed, 1) or [", ".join(listed[:NAMED])]
    hint = f"did you mean {near[0]}?" if listed else "commit something first"
    kind = "branch" if name.startswith("refs/heads/") else "branch or commit"
    return WorkspaceError(f"{user.top} has no {kind} {short!r}", hint=hint)


def uncommitted(checkout: UserRepository, old: Mapping[str, TreeEntry]) -> int | None:
    """How many tracked files differ from those of the commit; None when the index is in a form that is not read."""
    data = read_if_there(checkout.file("index")) or b""
    try:
        entries = index_file.parse(data, len(next(iter(old.values())).blob) // 2) if data and old else []
    except WorkspaceError:
        return None
    staged = {entry.path: TreeEntry(mode=entry.mode, blob=entry.blob) for entry in entries}
    differ = {path for path in staged.keys() | old.keys() if staged.get(path) != old.get(path)}
    return len(differ | set(changed_files(checkout, entries)))


def changed_files(checkout: UserRepository, entries: Iterable[IndexEntry]) -> list[str]:
    """The tracked files that are not as the index has them."""
    try:
        written = os.stat(checkout.file("index")).st_mtime_ns
    except FileNotFoundError:
        return []
    modes = ("core.filemode", "false") not in [(key, value) for _, key, value in checkout.settings()]
    root = descriptors.open_directory(os.path.realpath(checkout.top))
    try:
        looked = [entry for entry in entries if not entry.skipped and entry.mode != GITLINK]
        found: list[str] = []
        for folder, inside in groupby(looked, key=lambda entry: entry.path.rpartition("/")[0]):
            found += _changed_in(root, folder, inside, written, modes)
        return found
    finally:
        os.close(root)


def _changed_in(root: int, folder: str, entries: Iterable[IndexEntry], written: int, modes: bool) -> list[str]:
    """Those of the files of one directory that are not as the index has them."""
    try:
        fd = descriptors.open_from(root, folder or ".", os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return [entry.path for entry in entries]
    try:
        return [entry.path for entry in entries if not _unchanged(fd, entry, written, modes)]
    finally:
        os.close(fd)


def of_branch(user: UserRepository, ref: str) -> list[UserRepository]:
    """All checkouts of this repository that have the branch `ref` checked out, or are in the middle of rebasing it."""
    listed = os.path.join(user.common, "worktrees")
    own = [os.path.join(listed, name) for name in os.listdir(listed)] if os.path.isdir(listed) else []
    tops = {os.path.dirname(_text(os.path.join(each, "gitdir"))) for each in own}
    if os.path.basename(user.common) == ".git":
        tops.add(os.path.dirname(user.common))
    found = {} if user.is_bare else {user.directory: user}
    for top in sorted(tops - {""}):
        checkout = UserRepository.at(top) if os.path.isdir(top) else None
        if checkout is not None and checkout.common == user.common:
            found.setdefault(checkout.directory, checkout)
    return [each for each in found.values() if each.head() == ref or _rebases(each, ref)]


def _rebases(checkout: UserRepository, ref: str) -> bool:
    return any(_text(checkout.file(f"{name}/head-name")) == ref for name in ("rebase-merge", "rebase-apply"))


def _text(path: str) -> str:
    return os.fsdecode(read_if_there(path) or b"").strip()


class CheckoutInTheWay(WorkspaceError):
    retryable = True
    """As soon as the person has committed, without a further word from them."""


class CheckoutChange:
    """How a checkout gets from the files `old` to what the deltas say; made only when nothing stands in the way."""

    def __init__(self, checkout: UserRepository, old: Mapping[str, TreeEntry], deltas: Iterable[Delta]) -> None:
        self.checkout = checkout
        self.top = os.path.realpath(checkout.top)
        self.index = read_if_there(checkout.file("index")) or b""
        self.deltas = list(deltas)
        hash_size = len(next(iter(old.values())).blob) // 2 if old else 20
        entries = index_file.parse(self.index, hash_size) if self.index else []
        self.skipped = {entry.path for entry in entries if entry.skipped}
        self.deleted = {delta.change.path for delta in self.deltas if delta.new is None}
        self._refuse(next(self._obstacles(old, entries), ""))

    def _refuse(self, why: str) -> None:
        if why:
            raise CheckoutInTheWay(f"{self.checkout.top} has the branch checked out, and {why}")

    def _obstacles(self, old: Mapping[str, TreeEntry], entries: list[IndexEntry]) -> Iterator[str]:
        """What stands in the way, each as the end of a sentence."""
        for name in UNFINISHED:
            if os.path.lexists(self.checkout.file(name)):
                yield f"a merge, rebase or the like is unfinished there ({name}): end it first"
        for path, why in TreeGate(self.checkout).refused(crossings(self.deltas), agreed=True).items():
            yield f"{path} {why}: change it there yourself"
        if any(entry.stage for entry in entries):
            yield "conflicts are unresolved there: resolve them first"
        staged = {entry.path: TreeEntry(mode=entry.mode, blob=entry.blob) for entry in entries}
        differ = sorted(path for path in staged.keys() | old.keys() if staged.get(path) != old.get(path))
        if differ := self._touched(differ):
            yield f"changes are staged there that are not committed ({_few(differ)}): commit or stash them first"
        if dirty := self._touched(changed_files(self.checkout, entries)):
            yield f"files were changed there and not committed ({_few(dirty)}): commit or stash them first"
        if blocked := [path for delta in self.deltas if (path := self._blocked(delta))]:
            yield f"untracked files are in the way ({_few(blocked)}): move them away first"
        odd = [delta.change.path for delta in self.deltas if not delta.change.path.isprintable()]
        if odd := [path for path in odd if "\udc80" <= max(path) <= "\udcff"]:
            yield f"a name is not UTF-8 ({_few([repr(path) for path in odd])}): merge this with git"

    def _touched(self, paths: list[str]) -> list[str]:
        """Those that the change would write, remove or replace by a directory or a file: others may be as they are."""
        written = {delta.change.path for delta in self.deltas}
        above = {each for path in written for each in _above(path)}
        return [path for path in paths if path in written or path in above or not written.isdisjoint(_above(path))]

    def _blocked(self, delta: Delta) -> str:
        """What lies where a new file goes; empty when nothing does."""
        path = delta.change.path
        if delta.new is None or path in self.skipped or delta.new.mode == GITLINK:
            return ""
        for above in _above(path):
            place = os.path.join(self.top, above)
            if os.path.lexists(place) and (os.path.islink(place) or not os.path.isdir(place)):
                return "" if above in self.deleted else above
        place = os.path.join(self.top, path)
        if os.path.isdir(place) and not os.path.islink(place):
            return next((each for each in self._inside(path) if each not in self.deleted), "")
        return path if delta.old is None and os.path.lexists(place) else ""

    def _inside(self, path: str) -> Iterator[str]:
        for folder, folders, names in os.walk(os.path.join(self.top, path)):
            links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
            for name in (*names, *links):
                yield os.path.relpath(os.path.join(folder, name), self.top)

    def files(self, store: Store) -> tuple[dict[str, partial[None]], list[str]]:
        """What to write, by path, and what to delete."""
        here = [delta for delta in self.deltas if delta.change.path not in self.skipped]
        wanted = [(delta.change.path, delta.new) for delta in here if delta.new and delta.new.mode != GITLINK]
        content = store.blobs([entry.blob for _, entry in wanted])
        writes = {}
        for path, entry in wanted:
            made = File(data=content[entry.blob], link=entry.is_link, executable=entry.executable)
            writes[path] = partial(put_beside, made, os.path.join(self.top, path))
        gone = [delta for delta in here if delta.new is None and delta.old and delta.old.mode != GITLINK]
        return writes, [delta.change.path for delta in gone]

    def index_lines(self) -> tuple[bytes, bytes]:
        """The changed entries for `git update-index`, and the paths of those that stay out of the checkout."""
        lines, skipped = [], []
        for delta in self.deltas:
            path = os.fsencode(delta.change.path)
            known = delta.new or delta.old
            assert known is not None
            if delta.new is None:
                lines.append(b"0 %s\t%s\0" % (b"0" * len(known.blob), path))
            else:
                lines.append(b"%s %s 0\t%s\0" % (known.mode.encode(), known.blob.encode(), path))
                skipped += [path + b"\0"] if delta.change.path in self.skipped else []
        return b"".join(lines), b"".join(skipped)


def _above(path: str) -> Iterator[str]:
    """The directories that a path is in, the nearest first."""
    while path := path.rpartition("/")[0]:
        yield path


def _few(paths: list[str]) -> str:
    more = f" and {len(paths) - NAMED} more" if len(paths) > NAMED else ""
    return ", ".join(paths[:NAMED]) + more


def _unchanged(fd: int, entry: IndexEntry, written: int, modes: bool) -> bool:
    """Whether a tracked file of this directory is as git knows it. What is newer than the index is read."""
    name = entry.path.rpartition("/")[2]
    try:
        found = os.stat(name, dir_fd=fd, follow_symlinks=False)
        if not _same_kind(entry.mode, found.st_mode, modes):
            return False
        now = (found.st_mtime_ns, found.st_ctime_ns, found.st_ino & 0xFFFFFFFF, found.st_size & 0xFFFFFFFF)
        if now == entry.metadata and found.st_mtime_ns < written:
            return True
        made = hashlib.new("sha1" if len(entry.blob) == 40 else "sha256")
        if stat.S_ISLNK(found.st_mode):
            target = os.fsencode(os.readlink(name, dir_fd=fd))
            made.update(b"blob %d\0" % len(target) + target)
        else:
            with opened(descriptors.open_in(fd, name, os.O_RDONLY | os.O_NONBLOCK)) as file:
                made.update(b"blob %d\0" % found.st_size)
                while piece := file.read(1 << 20):
                    made.update(piece)
        return made.hexdigest() == entry.blob
    except OSError:
        return False


def _same_kind(mode: str, found: int, modes: bool) -> bool:
    if mode == "120000":
        return stat.S_ISLNK(found)
    return stat.S_ISREG(found) and (not modes or bool(found & 0o100) == (mode == "100755"))
