"""Runs git as a subprocess, with one writer at a time for each repository.

No configuration of the repository or the person can run code here or change what we read: no hooks, pager, prompts or
external diff. All functions block; inside an event loop, call them in a thread.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from treadle.errors import NotFound, WorkspaceError
from treadle.io.files import locked
from treadle.io.paths import private_dir, state_dir
from treadle.io.process.programs import Finished, run_program

TIMEOUT = 60.0
_SETTINGS = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.quotePath": "false",
    "commit.gpgSign": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "advice.detachedHead": "false",
}
_RUNS = re.compile(
    r"(filter\..*\.(clean|smudge|process)|merge\..*\.driver"
    r"|credential\.(.*\.)?helper|core\.(sshcommand|askpass|pager|editor|gitproxy|alternaterefscommand)|gpg\.(.*\.)?program"
    r"|ssh\.variant|uploadpack\.packobjectshook|sequence\.editor|pager\..*|trailer\..*\.(command|cmd))",
    re.I,
)
HARMLESS = {
    "rev-parse",
    "symbolic-ref",
    "branch",
    "config",
    "init",
    "version",
    "update-ref",
    "for-each-ref",
    "merge-base",
    "rev-list",
}
"""Commands that read no file content, so they run none of the programs that the config names."""
COMPARING = {"diff", "log", "show", "diff-tree", "diff-index", "diff-files"}
"""Commands for which the config can name another program to compare files. git refuses an empty name for it."""
OPTIONS = [part for name, value in _SETTINGS.items() for part in ("-c", f"{name}={value}")]


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Our environment, without the variables that would point git at another repository."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return {**kept, "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C.UTF-8", **(more or {})}


def git(
    *arguments: str,
    cwd: str,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    timeout: float = TIMEOUT,
    check: bool = True,
) -> Finished:
    """Run git in `cwd`. A failure is a WorkspaceError with git's own message, unless `check` is off."""
    options = OPTIONS if arguments[0] in HARMLESS else [*OPTIONS, *disarmed(cwd, env)]
    if arguments[0] in COMPARING:
        arguments = (arguments[0], "--no-ext-diff", "--no-textconv", *arguments[1:])
    done = run_program(["git", *options, *arguments], cwd=cwd, env=environment(env), stdin=stdin, timeout=timeout)
    if check and done.code != 0:
        raise WorkspaceError(f"git {arguments[0]} failed in {cwd}: {done.complaint or f'exit code {done.code}'}")
    return done


def disarmed(cwd: str, env: Mapping[str, str] | None = None) -> list[str]:
    """Options that disable every program that the repository's own config names: filters, drivers, helpers."""
    keys = _own_keys(cwd, env, "--local")
    if keys is None or "extensions.worktreeconfig" in keys:  # without that extension, both scopes are one file
        keys = [*(keys or ()), *(_own_keys(cwd, env, "--worktree") or ())]
    found: list[str] = []
    for key in keys:
        if _RUNS.fullmatch(key):
            found += ["-c", f"{key}="]
        if key.startswith("filter."):
            found += ["-c", f"{key.rpartition('.')[0]}.required=false"]
    return found


def _own_keys(cwd: str, env: Mapping[str, str] | None, scope: str) -> list[str] | None:
    asked = ["git", *OPTIONS, "config", scope, "--includes", "--name-only", "-z", "--list"]
    done = run_program(asked, cwd=cwd, env=environment(env), timeout=TIMEOUT)
    return os.fsdecode(done.stdout).split("\0") if done.code == 0 else None


class Repository:
    """One working tree of a repository; `common` is the git directory that all its working trees share."""

    def __init__(self, top: str, common: str) -> None:
        self.top = top
        self.common = common

    @classmethod
    def find(cls, path: str) -> Repository | None:
        """The repository that `path` is in, or None when it is in none or git is not installed."""
        try:
            done = git("rev-parse", "--show-toplevel", "--git-common-dir", cwd=path, check=False)
        except NotFound:
            return None
        if done.code != 0:
            return None
        top, common = os.fsdecode(done.stdout).splitlines()
        return cls(top, os.path.realpath(os.path.join(path, common)))

    def git(self, *arguments: str, **more: object) -> str:
        return os.fsdecode(git(*arguments, cwd=self.top, **more).stdout)  # type: ignore[arg-type]

    def lock(self, timeout: float = TIMEOUT) -> locked:
        """Held around everything that writes to the repository: git itself fails when two add a worktree at once."""
        import hashlib

        name = hashlib.blake2b(os.fsencode(self.common), digest_size=12).hexdigest()
        return locked(os.path.join(private_dir(os.path.join(state_dir(), "locks")), f"git-{name}"), timeout)

    def commit(self, name: str = "HEAD") -> str:
        """The id of a commit. Raises WorkspaceError in a repository without commits."""
        done = git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", cwd=self.top, check=False)
        if done.code != 0:
            raise WorkspaceError(f"{self.top} has no commit {name!r}", hint="commit something first")
        return done.stdout.decode().strip()

    def add_worktree(self, path: str, branch: str, base: str = "HEAD") -> Worktree:
        """A new working tree at `path`, on a new branch that starts at `base`."""
        with self.lock():
            start = self.commit(base)
            self.git("worktree", "prune")
            self.git("worktree", "add", "--quiet", "-b", branch, path, start)
        return Worktree(self, os.path.realpath(path), branch, start)

    def add_detached(self, path: str, base: str) -> str:
        """A new working tree at `path` on no branch. Returns the commit that it starts at."""
        with self.lock():
            start = self.commit(base)
            self.git("worktree", "prune")
            self.git("worktree", "add", "--quiet", "--detach", path, start)
        return start

    def worktree(self, path: str, branch: str, start: str) -> Worktree:
        """A working tree that was added before."""
        return Worktree(self, os.path.realpath(path), branch, start)


class Checkout:
    """A new working tree, and the directory in it to work in."""

    def __init__(self, tree: Worktree, cwd: str, pending: int) -> None:
        self.tree = tree
        self.cwd = cwd
        self.pending = pending
        """How many uncommitted changes of the original directory are missing here."""


def check_out(cwd: str, path: str, branch: str, *, hint: str) -> Checkout:
    """A new working tree at `path` of the repository around `cwd`, and the directory in place of `cwd`."""
    repository = Repository.find(cwd)
    if repository is None:
        raise WorkspaceError(f"{cwd} is not in a git repository, so it has no worktrees", hint=hint)
    tree = repository.add_worktree(path, branch)
    inside = os.path.relpath(os.path.realpath(cwd), os.path.realpath(repository.top))
    here = os.path.normpath(os.path.join(tree.path, inside))
    os.makedirs(here, exist_ok=True)
    return Checkout(tree, here, len(repository.git("status", "--porcelain").splitlines()))


class Worktree:
    def __init__(self, repository: Repository, path: str, branch: str, start: str) -> None:
        self.repository = repository
        self.path = path
        self.branch = branch
        self.start = start

    def changed(self) -> bool:
        """Whether it contains anything that `start` does not: a commit, an edit, a new file that is not ignored."""
        return bool(git("status", "--porcelain", "-z", cwd=self.path).stdout) or self.has_commits()

    def has_commits(self) -> bool:
        """Whether it, or its branch, has moved on from `start`."""
        head = git("rev-parse", "--verify", "HEAD", cwd=self.path).stdout.decode().strip()
        tip = self.repository.commit(f"refs/heads/{self.branch}")
        return {head, tip} != {self.start}

    def remove(self) -> None:
        """Remove the working tree and its branch, with everything in them."""
        with self.repository.lock():
            if os.path.isdir(self.path):
                self.repository.git("worktree", "remove", "--force", self.path)
            self.repository.git("worktree", "prune")
            git("branch", "--quiet", "-D", self.branch, cwd=self.repository.top, check=False)  # it may be gone

    def remove_if_unchanged(self) -> bool:
        """Remove the working tree and its branch, unless that would lose anything. Returns whether it was removed."""
        with self.repository.lock():
            if os.path.isdir(self.path):
                if self.changed():
                    return False
                # Without --force, so that git checks too: changes made in the meantime are kept.
                done = git("worktree", "remove", self.path, cwd=self.repository.top, check=False)
                if done.code != 0:
                    if self.changed():
                        return False
                    self.repository.git("worktree", "remove", "--force", self.path)  # it has submodules
            else:
                self.repository.git("worktree", "prune")
            self.repository.git("branch", "--quiet", "-D", self.branch)
        return True
