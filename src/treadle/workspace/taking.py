"""Takes the files of a directory into a store as one tree, and states what is odd about them.

The directory may be an agent's: every file is reached through descriptors without following a link, no program is
started on it and no git runs in it. `.gitignore` files are read as data. A file whose metadata are the same as in an
earlier look has not changed since: only the kernel can set the ctime. When that is in doubt, the file is hashed.

Ignored files, everything that git takes for `.git`, and files of ours that are about to be put in place are not part of
the tree, but are looked at: `hidden_changes` tells which of them changed.
"""

import hashlib
import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import IO, TypeAlias

from treadle.errors import WorkspaceError
from treadle.io import pinned, stopping
from treadle.io.files import is_unfinished, storage_error
from treadle.io.opening import opened
from treadle.io.walking import left_out
from treadle.policy.ignored import IgnoreRules
from treadle.workspace.changes import TreeEntry
from treadle.workspace.copied import DEPTH_CAP
from treadle.workspace.git_names import is_git
from treadle.workspace.look import MISSING, TICK, DirectoryPart, Look, Metadata, Oddity, OddityKind, metadata_of
from treadle.workspace.store import GITLINK, PIECE, TREE, Store, TreeRow

Watched: TypeAlias = Callable[[str], bool]
FILE_CAP = 2 << 30
"""The largest file, in bytes, that is taken; a sparse one counts with its holes."""
TOTAL_CAP = 8 << 30
"""The most bytes that one look puts into a store."""
PATH_CAP = 4000
"""The longest path, in bytes. The kernel opens paths of up to 4095 bytes."""
RULES_CAP = 1 << 20
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
_KINDS = {stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket", stat.S_IFBLK: "a device", stat.S_IFCHR: "a device"}
_BITS = {stat.S_ISUID: "setuid", stat.S_ISGID: "setgid", stat.S_ISVTX: "the sticky bit"}
_USUAL = {"security.selinux"}
_Levels: TypeAlias = tuple[tuple[int, IgnoreRules], ...]
"""Where the path relative to a file of rules begins, and its rules; the innermost first."""


def take(
    store: Store,
    root: str,
    *,
    base: Mapping[str, TreeEntry] | None = None,
    earlier: Look | None = None,
    excludes: str = "",
    watched: Watched | None = None,
    lent: Collection[str] = (),
    git_files: bool = True,
) -> Look:
    """Take the directory `root` into the store.

    Files in `base` are taken even where `.gitignore` names them, and keep their entry there if they cannot be read.
    `earlier` is a look at the same directory with the same store. `excludes` are further rules, below those of any
    `.gitignore`. The blobs `lent` need not be put into the store, because a lender has them. Without `git_files`, the
    directory's own `.git` is not looked at.
    """
    return _Taking(store, base if base is not None else {}, earlier, excludes, watched, lent, git_files).run(root)


class _Folder:
    __slots__ = ("hidden", "levels", "path", "same")

    def __init__(self, path: str, levels: _Levels, hidden: bool, same: bool) -> None:
        self.same = same
        """Whether the rules about it are those of the earlier look."""
        self.path = path
        """With a slash at the end; empty for the root."""
        self.levels = levels
        self.hidden = hidden
        """Whether it is ignored, or in `.git`: of what is in it, only files of the base are taken."""


class _Taking:
    def __init__(
        self,
        store: Store,
        base: Mapping[str, TreeEntry],
        earlier: Look | None,
        excludes: str,
        watched: Watched | None,
        lent: Collection[str],
        git_files: bool,
    ) -> None:
        self.look = Look()
        self._store = store
        self._base = base
        self._earlier = earlier if earlier is not None and self.look.comparable(earlier) else None
        self._watched = watched
        self._lent = lent
        self._git_files = git_files
        self._left = TOTAL_CAP
        self._rows: dict[str, list[TreeRow]] = {}
        self.look.excludes = excludes
        same = self._earlier is not None and self._earlier.excludes == excludes
        self._waiting = [_Folder("", ((0, IgnoreRules(excludes)),) if excludes else (), False, same)]

    def run(self, root: str) -> Look:
        try:
            self._root = pinned.open_directory(os.path.realpath(root))
        except OSError as error:
            raise storage_error(error, root, "read") from error
        try:
            while self._waiting:
                stopping.check()
                self._folder(self._waiting.pop())
        finally:
            os.close(self._root)
        self.look.tree = self._trees()
        return self.look

    def _state(self, kind: OddityKind, path: str, note: str) -> None:
        self.look.oddities.append(Oddity(kind=kind, path=path, note=note))

    # Directories...

    def _folder(self, folder: _Folder) -> None:
        self._rows[folder.path] = []
        try:
            fd = pinned.open_from(self._root, folder.path or ".", _FOLDER)
        except FileNotFoundError:
            return  # gone since it was listed
        except OSError as error:
            self._unreadable(folder, error)
            return
        try:
            self._entries(fd, folder)
        except OSError as error:
            self._unreadable(folder, error)
        finally:
            os.close(fd)

    def _unreadable(self, folder: _Folder, error: OSError) -> None:
        # An entry of its own, so that making a directory unreadable is a change.
        self.look.seen[f"{folder.path}."] = (0, 0, 0, 0, 0)
        if folder.hidden and not any(path.startswith(folder.path) for path in self._base):
            return
        self._state("unreadable", folder.path or ".", error.strerror or str(error))
        self._keep_base(folder.path)

    def _keep_base(self, folder: str) -> None:
        """What the base has of a directory that cannot be looked at stays in the tree."""
        self._rows[folder] = []
        for path, entry in self._base.items():
            if path.startswith(folder):
                _add(self._rows, path, entry)
                self.look.files[path] = entry

    def _entries(self, fd: int, folder: _Folder) -> None:
        with os.scandir(fd) as listed:
            files, folders = _metadata(listed)
        levels, same = folder.levels, folder.same
        known = self._earlier.parts.get(folder.path) if self._earlier is not None else None
        if ".gitignore" in files or ".gitignore" in folders:
            same = same and known is not None and known.seen.get(".gitignore") == files.get(".gitignore")
            if not folder.hidden:
                levels = ((len(folder.path), self._read_rules(fd)), *levels)
        elif known is not None and ".gitignore" in known.seen:
            same = False
        for name in folders:
            self._inner(folder, folder.path + name, name, levels, same)
        if same and known is not None and known.sure and known.seen == files:
            self._repeat(folder.path, known)
        else:
            self._each(fd, folder, files, levels)

    def _repeat(self, path: str, known: DirectoryPart) -> None:
        """Nothing in this directory has changed, and neither have the rules about it."""
        self._rows[path] += known.rows
        self.look.files.update(known.files)
        self.look.seen.update(known.by_path)
        self.look.parts[path] = known

    def _each(self, fd: int, folder: _Folder, files: dict[str, Metadata], levels: _Levels) -> None:
        look, rows, taken = self.look, self._rows[folder.path], {}
        before = len(look.oddities) + len(look.hashes)
        for name, metadata in files.items():
            path = folder.path + name
            if self._is_too_long(path):
                row = self._base.get(path)
            else:
                row = self._entry(fd, folder, path, name, metadata, levels)
            if row is not None:
                rows.append((os.fsencode(name), row.mode, row.blob))
                taken[path] = row
        look.files.update(taken)
        if len(look.oddities) + len(look.hashes) == before:
            look.parts[folder.path] = DirectoryPart(folder.path, files, taken, rows, look.wall - TICK)

    def _is_too_long(self, path: str) -> bool:
        if path.count("/") > DEPTH_CAP:
            why = f"it lies more than {DEPTH_CAP} directories deep"
        elif len(path) > PATH_CAP // 4 and len(os.fsencode(path)) > PATH_CAP:
            why = f"its path has more than {PATH_CAP} bytes"
        else:
            return False
        self._state("too_long", path if len(path) <= 200 else f"{path[:200]}...", why)
        return True

    def _inner(self, folder: _Folder, path: str, name: str, levels: _Levels, same: bool) -> None:
        if path == ".git" and not self._git_files:
            return
        if self._is_too_long(path):
            self._keep_base(f"{path}/")
            return
        hidden = folder.hidden or self._is_git(folder, path, name) or left_out(path, name, levels, folder=True)
        self._waiting.append(_Folder(f"{path}/", levels, hidden, same))

    def _is_git(self, folder: _Folder, path: str, name: str) -> bool:
        """Whether it makes its directory a repository for git. One below the top, or with another name, is stated."""
        if not is_git(name):
            return False
        if path != ".git":
            why = "a git directory, or names one" if name == ".git" else "some systems take it for .git"
            self._state("git_directory", path, f"{why}; it is not in the tree")
        return True

    def _trees(self) -> str:
        """Put the trees, from the innermost to the root: a directory was listed before those in it."""
        old = self._earlier.folders if self._earlier is not None else {}
        made = ""
        for path in reversed(self._rows):
            rows, mode = sorted(self._rows[path]), TREE
            known = old.get(path)
            if rows or not path:
                made = known[1] if known is not None and known[0] == rows else self._store.put_tree(rows)
                self.look.folders[path] = (rows, made)
            elif (link := self._base.get(path[:-1])) is not None and link.mode == GITLINK:
                made, mode = link.blob, GITLINK  # an empty directory is what a submodule looks like here
                self.look.files[path[:-1]] = link
            if path and (rows or mode == GITLINK):
                above, _, name = path[:-1].rpartition("/")
                self._rows[f"{above}/" if above else ""].append((os.fsencode(name), mode, made))
        return made

    # ... and what is in them

    def _entry(
        self, fd: int, folder: _Folder, path: str, name: str, metadata: Metadata, levels: _Levels
    ) -> TreeEntry | None:
        self.look.seen[path] = metadata
        if path not in self._base and (
            folder.hidden or self._is_git(folder, path, name) or is_unfinished(name) or left_out(path, name, levels)
        ):
            if self._watched is not None and self._watched(path):
                self.look.hashes[path] = self._hidden_hash(fd, name, metadata)
            return None
        earlier = self._earlier
        if earlier is not None and earlier.seen.get(path) == metadata and metadata[3] < earlier.wall - TICK:
            known = earlier.files.get(path)
            if known is not None:
                return known
        before = len(self.look.oddities)
        taken = self._read(fd, path, name, stat.S_IFMT(metadata[0]))
        if taken is None and any(one.kind in MISSING for one in self.look.oddities[before:]):
            return self._base.get(path)
        return taken

    def _read(self, fd: int, path: str, name: str, kind: int) -> TreeEntry | None:
        if not _is_utf8(name):
            self._state("name", path, "its name is not UTF-8")
        try:
            if kind == stat.S_IFLNK:
                return self._read_link(fd, path, name)
            if kind != stat.S_IFREG:
                self._state("special", path, f"{_KINDS.get(kind, 'a special file')}; it is not in the tree")
                return None
            return self._read_file(fd, path, name)
        except FileNotFoundError:
            return None  # gone since it was listed
        except OSError as error:
            self._state("unreadable", path, error.strerror or str(error))
            return None

    def _read_link(self, fd: int, path: str, name: str) -> TreeEntry:
        target = os.readlink(name, dir_fd=fd)
        if os.path.isabs(target) or f"{os.path.normpath(os.path.join(os.path.dirname(path), target))}/".startswith(
            "../"
        ):
            self._state("link_out", path, f"a link that leads out of the directory, to {target[:200]}")
        return TreeEntry(mode="120000", blob=self._put(os.fsencode(target)))

    def _read_file(self, fd: int, path: str, name: str) -> TreeEntry | None:
        with opened(pinned.open_in(fd, name, _FILE)) as content:
            found = os.fstat(content.fileno())
            size = found.st_size
            if not stat.S_ISREG(found.st_mode):
                self._state("moving", path, "it was replaced while it was read")
                return None
            if size > FILE_CAP or size > self._left:
                most = f"at most {FILE_CAP} of one file and {TOTAL_CAP} of all are taken"
                self._state("too_large", path, f"it has {size} bytes; {most}")
                return None
            self._left -= size
            self._state_extras(content.fileno(), path, found)
            try:
                blob = self._put(content.read()) if size <= PIECE else self._put_large(content, size)
            except WorkspaceError as error:
                self._state("moving", path, str(error))
                return None
        return TreeEntry(mode="100755" if found.st_mode & 0o100 else "100644", blob=blob)

    def _put(self, data: bytes) -> str:
        if self._lent:
            blob = self._store.id_of("blob", data)
            if blob in self._lent:
                return blob
        return self._store.put("blob", data)

    def _put_large(self, content: IO[bytes], size: int) -> str:
        return self._store.put_pieces(_pieces(content, size), size)

    def _state_extras(self, file: int, path: str, found: os.stat_result) -> None:
        if bits := [name for bit, name in _BITS.items() if found.st_mode & bit]:
            self._state("mode", path, f"has {' and '.join(bits)}; a tree does not hold that")
        try:
            names = sorted(set(os.listxattr(file)) - _USUAL) if hasattr(os, "listxattr") else []
        except OSError:
            return  # this file system has none
        if names:
            self._state("attributes", path, f"has {', '.join(names)[:200]}; a tree does not hold that")

    def _hidden_hash(self, fd: int, name: str, found: Metadata) -> str:
        """For comparing only: it does not enter the store."""
        try:
            if stat.S_ISLNK(found[0]):
                return os.readlink(name, dir_fd=fd)
            if not stat.S_ISREG(found[0]):
                return ""
            made = hashlib.sha256()
            with opened(pinned.open_in(fd, name, _FILE)) as content:
                for piece in _pieces(content, found[1]):
                    made.update(piece)
            return made.hexdigest()
        except OSError as error:  # an unreadable file is marked by its error
            return f"unread: {error.errno}"

    def _read_rules(self, fd: int) -> IgnoreRules:
        """A file that cannot be read, or is not an ordinary file, has no rules."""
        try:
            with opened(pinned.open_in(fd, ".gitignore", _FILE)) as content:
                if stat.S_ISREG(os.fstat(content.fileno()).st_mode):
                    return IgnoreRules(content.read(RULES_CAP).decode("utf-8", "surrogateescape"))
        except OSError:
            pass
        return IgnoreRules("")


def _metadata(listed: Iterable[os.DirEntry[str]]) -> tuple[dict[str, Metadata], list[str]]:
    """Of all that is not a directory, by name; and the names of the directories."""
    seen, folders = {}, []
    for entry in listed:
        if entry.is_dir(follow_symlinks=False):
            folders.append(entry.name)
            continue
        try:
            seen[entry.name] = metadata_of(entry.stat(follow_symlinks=False))
        except FileNotFoundError:
            continue  # gone since it was listed
    return seen, folders


def _add(rows: dict[str, list[TreeRow]], path: str, entry: TreeEntry) -> None:
    """Add a file to the rows of its directory, which need not be listed."""
    folder, _, name = path.rpartition("/")
    above = folder
    missing = []
    while above and f"{above}/" not in rows:
        missing.append(f"{above}/")
        above = above.rpartition("/")[0]
    rows.update({one: [] for one in reversed(missing)})
    row = (os.fsencode(name), entry.mode, entry.blob)
    if row not in rows[f"{folder}/" if folder else ""]:
        rows[f"{folder}/" if folder else ""].append(row)


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _pieces(content: IO[bytes], size: int) -> Iterator[bytes]:
    """At most `size` bytes, piece by piece; a file that grows meanwhile is not followed."""
    while size > 0 and (piece := content.read(min(PIECE, size))):
        stopping.check()
        size -= len(piece)
        yield piece
