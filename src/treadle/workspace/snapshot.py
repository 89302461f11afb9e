"""Snapshots of a directory and the differences between them. No repository in the directory is touched.

The snapshots are kept in a git directory of our own, elsewhere; bytes are stored as they are, whatever attributes or
settings say. Files that `.gitignore` names are left out, and so is anything called `.git`.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Iterator

from treadle.errors import WorkspaceError
from treadle.io.opening import write
from treadle.io.process.programs import Finished
from treadle.io.reading import sha256
from treadle.workspace.changes import KINDS, PathChange, TreeEntry
from treadle.workspace.git import Repository, git

_AS_THEY_ARE = "* -text -eol -ident -filter -working-tree-encoding !diff !merge\n"
_CONFIG = """[core]
    repositoryformatversion = 0
    bare = false
    autocrlf = false
    symlinks = true
    filemode = true
"""
_ALONE = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
_DIFF = ["--no-color", "--no-ext-diff", "--no-textconv", "--find-renames", "--src-prefix=a/", "--dst-prefix=b/"]
SNAPSHOT_TIMEOUT = 600.0


def _write(path: str, text: str) -> None:
    write(path, text.encode())


def _files_under(root: str, path: str) -> Iterator[str]:
    for folder, folders, names in os.walk(os.path.join(root, path)):
        folders[:] = [name for name in folders if name != ".git"]
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        for name in (*names, *links):
            place = os.path.join(folder, name)
            if name != ".git" and stat.S_IFMT(os.lstat(place).st_mode) in (stat.S_IFREG, stat.S_IFLNK):
                yield os.path.relpath(place, root)


class Snapshots:
    def __init__(self, directory: str, root: str) -> None:
        self.directory = directory
        self.root = root
        self.unread = ""
        """What the last snapshot lacks because it is unreadable, in git's words."""

    @classmethod
    def create(cls, directory: str, root: str) -> Snapshots:
        git("init", "--quiet", "--bare", directory, cwd=root, env=_ALONE)
        os.makedirs(os.path.join(directory, "info"), exist_ok=True)
        _write(os.path.join(directory, "config"), _CONFIG)
        _write(os.path.join(directory, "info", "attributes"), _AS_THEY_ARE)
        snapshots = cls(directory, root)
        snapshots._borrow(Repository.find(root))
        return snapshots

    def _borrow(self, repository: Repository | None) -> None:
        """Start from what the repository around `root` already has, so that unchanged files need not be read."""
        if repository is None or repository.git("rev-parse", "--show-object-format").strip() != "sha1":
            return
        _write(os.path.join(self.directory, "objects", "info", "alternates"), f"{repository.common}/objects\n")
        excludes = os.path.join(repository.common, "info", "exclude")
        if os.path.exists(excludes):
            shutil.copyfile(excludes, os.path.join(self.directory, "info", "exclude"))
        index = os.path.join(repository.top, repository.git("rev-parse", "--git-path", "index").strip())
        if os.path.realpath(repository.top) == os.path.realpath(self.root) and os.path.exists(index):
            ours = os.path.join(self.directory, "index")
            shutil.copy2(index, ours)
            if self._git("ls-files", "--stage", check=False).code != 0:
                os.unlink(ours)  # a split index, or a form that only works in its own repository

    def _git(self, *arguments: str, check: bool = True, stdin: bytes = b"", timeout: float = 60.0) -> Finished:
        env = {**_ALONE, "GIT_DIR": self.directory, "GIT_WORK_TREE": self.root}
        return git(*arguments, cwd=self.root, env=env, check=check, stdin=stdin, timeout=timeout)

    def seal(self) -> str:
        """A hash of everything that affects the next snapshot: whoever can write here could hide their changes."""
        made = hashlib.sha256()
        for name in ("index", "config", "HEAD", "info/exclude", "info/attributes", "objects/info/alternates"):
            try:
                made.update(f"{name} {sha256(os.path.join(self.directory, name))}\n".encode())
            except FileNotFoundError:
                made.update(f"no {name}\n".encode())
        return made.hexdigest()

    def snapshot(self) -> str:
        """The id of the directory's current tree."""
        done = self._git("add", "--all", "--ignore-errors", ".", check=False, timeout=SNAPSHOT_TIMEOUT)
        if done.code not in (0, 1):
            raise WorkspaceError(f"cannot look at {self.root}: {done.complaint}")
        self.unread = done.complaint if "ermission denied" in done.complaint else ""
        self._look_into_repositories()
        return self._git("write-tree").stdout.decode().strip()

    def _look_into_repositories(self) -> None:
        """git does not look into a repository inside another, so changes could be hidden there. We do."""
        staged = os.fsdecode(self._git("ls-files", "--stage", "-z", timeout=SNAPSHOT_TIMEOUT).stdout)
        others = os.fsdecode(self._git("ls-files", "--others", "--exclude-standard", "-z").stdout)
        inner = [row.split("\t", 1)[1] for row in staged.split("\0")[:-1] if row.startswith("160000 ")]
        inner += [path.rstrip("/") for path in others.split("\0") if path.endswith("/")]
        for path in inner:
            self._git("update-index", "--force-remove", "--", path, check=False)
        files = [name for path in inner for name in _files_under(self.root, path)]
        if files:
            listed = b"".join(os.fsencode(name) + b"\0" for name in files)
            self._git("update-index", "--add", "--replace", "-z", "--stdin", stdin=listed, timeout=SNAPSHOT_TIMEOUT)

    def changes(self, before: str, after: str) -> list[PathChange]:
        names = os.fsdecode(self._git("diff-tree", "-r", "-z", "--name-status", *_DIFF, before, after).stdout)
        found: list[PathChange] = []
        fields = iter(names.split("\0")[:-1])
        for status in fields:
            path = next(fields)
            old = path if status[0] in "RC" else None
            path = next(fields) if old is not None else path
            found.append(PathChange(kind=KINDS[status[0]], path=path, old_path=old))
        return found

    def patch(self, before: str, after: str) -> bytes:
        """A patch from which `git apply` makes one from the other, binary files included."""
        return self._git("diff-tree", "-r", "-p", "--binary", "--full-index", *_DIFF, before, after).stdout

    def entries(self, tree: str, paths: list[str]) -> dict[str, TreeEntry]:
        """Those of the paths that the snapshot contains."""
        if not paths:
            return {}
        done = self._git("ls-tree", "-r", "-z", "--full-tree", tree)
        wanted = set(paths)
        found = {}
        for row in os.fsdecode(done.stdout).split("\0")[:-1]:
            head, path = row.split("\t", 1)
            mode, kind, blob = head.split()
            if path in wanted and kind == "blob":
                found[path] = TreeEntry(mode=mode, blob=blob)
        return found

    def read(self, entry: TreeEntry) -> bytes:
        return self._git("cat-file", "blob", entry.blob).stdout
