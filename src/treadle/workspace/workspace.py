"""Where a run works: a copy, a git worktree, or the directory itself; and what it changed there.

Files that `.gitignore` names are not part of the patch and are removed with the copy, but changes to them are reported.
If anything else is new or changed, the workspace is kept until the changes are applied or a person discards it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from treadle.errors import Denied, NotFound, WorkspaceError
from treadle.io import stopping
from treadle.io.copying import copy_file
from treadle.io.files import storage_error, write_atomic
from treadle.io.reading import read_if_there
from treadle.policy.patterns import match
from treadle.workspace.changes import PathChange, status_lines
from treadle.workspace.git import Repository, Worktree, check_out, git
from treadle.workspace.merge import Merged, MergePlan, plan_back
from treadle.workspace.scan import Scan, Watched
from treadle.workspace.snapshot import Snapshots

WorkspaceMode: TypeAlias = Literal["staged", "worktree", "pass_through"]
COPY_CAP = 8 * 1024**3
JOURNAL = "apply.json"
"""The journal's name in the run's directory while its changes are applied to the source."""


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    after: str
    changes: tuple[PathChange, ...]
    patch: bytes
    status: str
    unread: str = ""
    """What could not be read."""
    hidden: tuple[str, ...] | None = None
    """Changes that are not in the patch: ignored files, and files in `.git`. None when they could not be determined."""


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """What is needed to find a workspace again after a crash."""

    mode: WorkspaceMode
    source: str
    root: str
    directory: str
    before: str
    """The tree that it started from."""
    branch: str | None = None
    start: str | None = None
    commit: str | None = None
    """The commit that the source had checked out, if it is in a repository."""


class Workspace:
    """With `scan`, made at the start, files that git does not look at are checked too."""

    def __init__(self, place: Prepared, notes: Sequence[str] = (), scan: Scan | None = None) -> None:
        self.place = place
        self._scan = scan
        self.root = place.root
        self.notes = list(notes)
        self._snapshots = Snapshots(os.path.join(place.directory, "snapshots.git"), place.root)
        self._seal = self._snapshots.seal() if scan is not None else None
        self._difference: Difference | None = None

    @classmethod
    def open(cls, directory: str) -> Workspace | None:
        """The workspace that was prepared in `directory`, or None when its preparation did not finish."""
        data = read_if_there(os.path.join(directory, "workspace.json"))
        try:
            return cls(msgspec.json.decode(data or b"", type=Prepared))
        except msgspec.MsgspecError:
            return None

    def difference(self) -> Difference:
        """The changes since the start. Raises Denied when somebody has tampered with our record of the start."""
        if self._seal is not None and self._difference is None and self._snapshots.seal() != self._seal:
            raise Denied(f"what was kept of the workspace's start was changed: {self._snapshots.directory}")
        touched = self._scan.changed() if self._scan is not None else None
        before, after = self.place.before, self._snapshots.snapshot()
        if self._snapshots.unread and self.place.mode != "pass_through":
            make_readable(self.root)
            after = self._snapshots.snapshot()
        changes = self._snapshots.changes(before, after)
        self._difference = Difference(
            after=after,
            changes=tuple(changes),
            patch=self._snapshots.patch(before, after),
            status=status_lines(changes),
            unread=self._snapshots.unread,
            hidden=None if touched is None else tuple(self._hidden(touched, changes, after)),
        )
        return self._difference

    def _hidden(self, touched: list[str], changes: list[PathChange], after: str) -> list[str]:
        """The changed paths that the patch does not show. A file that git finds unchanged was only touched."""
        assert self._scan is not None
        shown = {path for change in changes for path in (change.path, change.old_path)}
        rest = [path for path in touched if path not in shown]
        same = self._snapshots.entries(after, rest)
        return [path for path in rest if path not in same or path in self._scan.hashes]

    def plan(self) -> MergePlan | None:
        """How the changes would be applied to the source; None when they are there already."""
        if self.place.mode == "pass_through":
            return None
        found = self._difference or self.difference()
        return plan_back(self._snapshots, self.place.before, found.after, self.place.source)

    def apply(self) -> Merged:
        """Apply the changes to the source, all of them or none."""
        plan = self.plan()
        return plan.carry_out(os.path.join(self.place.directory, JOURNAL)) if plan is not None else Merged()

    def holds_work(self, *, applied: bool = False) -> bool:
        """Whether removing it would lose anything that the source does not have."""
        if self.place.mode == "pass_through" or not os.path.isdir(self.root):
            return False
        found = self._difference or self.difference()
        return bool(found.unread or found.changes and not applied) or self._holds_more()

    def _holds_more(self) -> bool:
        """Whether a worktree has commits, or changes outside the directory that was worked on."""
        tree = self._worktree()
        if tree is None:
            return self.place.mode == "worktree"
        inside = os.path.relpath(self.root, tree.path)
        above = ["--", ".", f":(exclude,literal){inside}"] if inside != "." else []
        return tree.has_commits() or bool(above and git("status", "--porcelain", *above, cwd=tree.path).stdout)

    def _worktree(self) -> Worktree | None:
        repository = Repository.find(self.place.source) if self.place.mode == "worktree" else None
        if repository is None or self.place.branch is None or self.place.start is None:
            return None
        return repository.worktree(os.path.join(self.place.directory, "workspace"), self.place.branch, self.place.start)

    def release(self, *, applied: bool = False) -> str | None:
        """Remove the workspace if nothing would be lost; otherwise return where it is kept."""
        if self.holds_work(applied=applied):
            return self.root
        self._remove()
        remove_tree(os.path.join(self.place.directory, "snapshots.git"))
        return None

    def discard(self) -> None:
        """Remove it with all the work in it. Only a person may ask for that."""
        self._remove()
        remove_tree(self.place.directory)

    def _remove(self) -> None:
        tree = self._worktree()
        if tree is not None:
            tree.remove()
        elif self.place.mode == "staged":
            remove_tree(self.root)


def prepare(
    mode: WorkspaceMode,
    source: str,
    directory: str,
    *,
    name: str,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    cap: int = COPY_CAP,
    watched: Watched | None = None,
) -> Workspace:
    """Make a workspace for `source`. `directory` is the run's own; `name` tells its branch from others. `watched`
    files are compared by content, so one rewritten with the same content counts as unchanged."""
    source = os.path.realpath(source)
    if not os.path.isdir(source):
        raise WorkspaceError(f"{source} is not a directory", hint="name the directory to work on with --root")
    try:
        return _prepare(mode, source, directory, name, include, exclude, cap, watched)
    except BaseException:
        abandon(mode, source, directory, name)
        raise


def _prepare(
    mode: WorkspaceMode,
    source: str,
    directory: str,
    name: str,
    include: Sequence[str],
    exclude: Sequence[str],
    cap: int,
    watched: Watched | None,
) -> Workspace:
    notes: list[str] = []
    root, branch, start = source, None, None
    copy = os.path.join(directory, "workspace")
    if mode == "staged":
        root = copy
        os.mkdir(copy, 0o700)
        notes = Copy(source, copy, include, exclude, cap).run()
    elif mode == "worktree":
        branch = f"treadle/{name}"
        root, start, notes = _add_worktree(source, copy, branch)
    snapshots = Snapshots.create(os.path.join(directory, "snapshots.git"), root)
    before = snapshots.snapshot()
    place = Prepared(
        mode=mode,
        source=source,
        root=root,
        directory=directory,
        before=before,
        branch=branch,
        start=start,
        commit=start or _commit(source),
    )
    write_atomic(os.path.join(directory, "workspace.json"), msgspec.json.encode(place), sync=False)
    return Workspace(place, notes, Scan(root, watched, _git_files(root)))


def _commit(source: str) -> str | None:
    repository = Repository.find(source)
    try:
        return repository.commit("HEAD") if repository is not None else None
    except (NotFound, WorkspaceError):  # it has no commit yet
        return None


def _git_files(root: str) -> dict[str, str]:
    """The files that make git run programs, if the repository lies outside the workspace. The rest is shared with
    other worktrees, whose work changes it too."""
    if os.path.isdir(os.path.join(root, ".git")):
        return {}
    repository = Repository.find(root)
    names = ("config", "config.worktree", "hooks", "info")
    return {f".git/{name}": os.path.join(repository.common, name) for name in names} if repository else {}


def abandon(mode: WorkspaceMode, source: str, directory: str, name: str) -> None:
    """Remove a workspace in which no work was done yet, so nothing can be lost."""
    copy = os.path.join(directory, "workspace")
    repository = Repository.find(source) if mode == "worktree" and os.path.isdir(copy) else None
    if repository is not None:
        branch = f"treadle/{name}"
        with contextlib.suppress(WorkspaceError):  # it may have ended before it had one
            repository.worktree(copy, branch, repository.commit(f"refs/heads/{branch}")).remove_if_unchanged()
    if mode == "staged":
        remove_tree(copy)
    remove_tree(os.path.join(directory, "snapshots.git"))


def _add_worktree(source: str, path: str, branch: str) -> tuple[str, str, list[str]]:
    made = check_out(source, path, branch, hint="use --workspace-mode staged")
    notes = [f"{made.pending} uncommitted changes of {source} are not in the worktree"] if made.pending else []
    return made.cwd, made.tree.start, notes


class Copy:
    """A copy of a directory without `.git`, devices, or links that lead out of it."""

    def __init__(self, source: str, target: str, include: Sequence[str], exclude: Sequence[str], cap: int) -> None:
        self.source = source
        self.target = target
        self.include = tuple(include)
        self.exclude = tuple(exclude)
        self.left = cap
        self.cap = cap
        self.notes: list[str] = []

    def run(self) -> list[str]:
        """Make the copy. Returns notes about what was left out and might be missed."""
        self._directory("")
        if self.include and not os.listdir(self.target):
            self.notes.append(f"nothing was copied: no file fits {', '.join(self.include)}")
        return self.notes

    def _directory(self, path: str) -> None:
        try:
            with os.scandir(os.path.join(self.source, path)) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except PermissionError as error:
            self.notes.append(f"{path or '.'} was left out: {error.strerror}")
            return
        except OSError as error:
            raise storage_error(error, os.path.join(self.source, path), "read") from error
        if path and not found and not self.include:
            os.makedirs(os.path.join(self.target, path), exist_ok=True)  # a program may expect it
        for entry in found:
            inside = os.path.join(path, entry.name)
            if entry.name == ".git" or os.path.realpath(entry.path) == os.path.realpath(self.target):
                continue
            if any(match(pattern, inside) for pattern in self.exclude):
                continue
            if entry.is_dir(follow_symlinks=False):
                self._directory(inside)
            elif not self.include or any(match(pattern, inside) for pattern in self.include):
                self._entry(entry, inside)

    def _entry(self, entry: os.DirEntry[str], path: str) -> None:
        stopping.check()
        target = os.path.join(self.target, path)
        try:
            if entry.is_symlink():
                self._link(entry, path, target)
            elif entry.is_file(follow_symlinks=False):
                self._file(entry, path, target)
        except PermissionError as error:
            self.notes.append(f"{path} was left out: {error.strerror}")
        except OSError as error:
            raise storage_error(error, target, "copy") from error

    def _link(self, entry: os.DirEntry[str], path: str, target: str) -> None:
        # The real target: `b/../x` is no longer inside if b itself is a link upwards.
        to, end = os.readlink(entry.path), os.path.realpath(entry.path)
        if os.path.isabs(to) or not f"{end}/".startswith(f"{self.source.rstrip('/')}/"):
            self.notes.append(f"{path} was left out: it is a link that leads out of the directory")
            return
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.symlink(to, target)

    def _file(self, entry: os.DirEntry[str], path: str, target: str) -> None:
        self.left -= entry.stat(follow_symlinks=False).st_size
        if self.left < 0:
            raise WorkspaceError(
                f"{self.source} holds more than {self.cap} bytes, which is the most that is copied",
                hint="leave things out with --exclude, or use --workspace-mode worktree",
            )
        os.makedirs(os.path.dirname(target), exist_ok=True)
        copy_file(entry.path, target)


def make_readable(root: str) -> None:
    """Restore permissions that a run removed in a directory of ours; otherwise it could hide things there."""
    os.chmod(root, stat.S_IMODE(os.stat(root).st_mode) | stat.S_IRWXU)
    for folder, folders, names in os.walk(root):
        for name in (*folders, *names):
            place = os.path.join(folder, name)
            mode = os.lstat(place).st_mode
            needed = stat.S_IRWXU if stat.S_ISDIR(mode) else stat.S_IRUSR
            if not stat.S_ISLNK(mode) and mode & needed != needed:
                with contextlib.suppress(PermissionError):  # it is somebody else's
                    os.chmod(place, stat.S_IMODE(mode) | needed)


def remove_tree(path: str) -> None:
    """Remove a directory of ours, whatever its permissions have become."""

    def retry(function: Callable[..., Any], place: str, error: Any) -> None:
        for each in (os.path.dirname(place), place):
            if os.path.isdir(each) and not os.path.islink(each):
                os.chmod(each, stat.S_IRWXU)
        if os.path.lexists(place):
            shutil.rmtree(place) if os.path.isdir(place) and not os.path.islink(place) else os.unlink(place)

    if os.path.lexists(path):
        try:
            shutil.rmtree(path, onerror=retry)
        except OSError as error:
            raise storage_error(error, path, "remove") from error
