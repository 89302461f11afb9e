"""Finds a directory's git repository from git's own files, because starting git would double a small command's time.

Only what the coordination needs: the top of this worktree, and the top of the main one, which all worktrees share.
"""

import os

from treadle.errors import ConfigError
from treadle.io.files import read_at_most
from treadle.io.paths import here

MARK = "treadle-private"
"""In the git directory that a sandbox shows instead of the user's (`workspace/private_git.py`)."""


RELAY = "/run/treadle-coordination"
"""In a sandbox, the socket through which our process outside is asked (`relay.py`)."""


class SharedRepository:
    __slots__ = ("top", "git", "main", "common")

    def __init__(self, top: str, git: str) -> None:
        self.top = top
        """The top of the worktree that contains the directory."""
        self.git = git
        """Where git keeps what belongs to this worktree alone."""
        if is_sealed(git):
            raise ConfigError(
                "claims and identities are stored in the user's git directory, which a sandbox hides",
                hint="run this outside of the sandbox; writes of this session are checked against claims there anyway",
            )
        self.common = common = common_of(git)
        """What `git rev-parse --git-common-dir` says, absolute."""
        self.main = _main(common)
        """The top of the main worktree; for a bare repository, the repository itself."""


def find(start: str | None = None) -> SharedRepository | None:
    """The repository that contains `start` (by default the working directory), or None."""
    located = locate(start)
    return SharedRepository(*located) if located else None


def inside_other(path: str, live: str) -> str:
    """Where an absolute path lies in a worktree of the repository whose live state is `live`; empty if in none."""
    try:
        located = locate(path)
        if located is None or not os.path.samefile(os.path.dirname(os.path.realpath(live)), common_of(located[1])):
            return ""
    except (ConfigError, OSError):
        return ""
    return os.path.relpath(os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path)), located[0])


def is_sealed(git: str) -> bool:
    """Whether this git directory is an agent's own, shown instead of the user's."""
    return os.path.exists(os.path.join(git, MARK))


def sealed_top(start: str | None = None) -> str | None:
    """The top of the worktree around `start`, if its live state can be reached only through a relay."""
    located = locate(start)
    if located is None:
        # The workspace may be a directory of a repository whose top is not shown; outside it is looked for again.
        return os.path.realpath(start or here()) if os.path.exists(RELAY) else None
    top, git = located
    if is_sealed(git):
        return top
    # The workspace may be a directory below the top; the git directory is then seen, but cannot be written.
    return top if os.path.exists(RELAY) and not os.access(common_of(git), os.W_OK) else None


def locate(start: str | None = None) -> tuple[str, str] | None:
    """The top of the worktree around `start`, and its git directory, even one that only stands for the user's."""
    top = os.path.realpath(start or here())
    while True:
        if git := _git_dir(top):
            return top, git
        if _is_git_dir(top):  # inside a bare repository, or inside .git itself
            return top, top
        parent = os.path.dirname(top)
        if parent == top:
            return None
        top = parent


def _git_dir(top: str) -> str | None:
    place = os.path.join(top, ".git")
    if os.path.isdir(place):
        return place if _is_git_dir(place) else None
    text = _read(place)
    if text is None or not text.startswith("gitdir:"):
        return None
    found = os.path.normpath(os.path.join(top, text.removeprefix("gitdir:").strip()))
    if not os.path.isdir(found):
        raise ConfigError(
            f"{place} points to {found}, which does not exist",
            hint="the worktree or submodule was moved: `git worktree repair` fixes it",
        )
    return os.path.realpath(found)


def _is_git_dir(place: str) -> bool:
    return os.path.isfile(os.path.join(place, "HEAD")) and (
        os.path.isdir(os.path.join(place, "objects")) or os.path.isfile(os.path.join(place, "commondir"))
    )


def common_of(git: str) -> str:
    text = _read(os.path.join(git, "commondir"))
    return os.path.realpath(os.path.join(git, text.strip())) if text else git


def _main(common: str) -> str:
    if os.path.basename(common) == ".git":
        return os.path.dirname(common)
    # A submodule's repository lies elsewhere and names its worktree; a bare one does not.
    for line in (_read(os.path.join(common, "config")) or "").splitlines():
        name, _, value = line.partition("=")
        if name.strip().lower() == "worktree":
            return os.path.realpath(os.path.join(common, value.strip().strip('"')))
    return common


def _read(path: str) -> str | None:
    try:
        return read_at_most(path, 65536).decode("utf-8", "surrogateescape")
    except OSError:
        return None


# The claims' git hooks, recognised by their files.

HOOKS = ("pre-commit", "pre-push")
SERVER_HOOK = "pre-receive"
"""The hook of a shared remote."""
HOOK_MARK = "# heimdall-guard"
LEGACY = ".legacy"
"""The suffix that `pre-commit install` adds to an existing hook, which it then runs first."""


def is_ours(path: str) -> bool:
    return HOOK_MARK in hook_text(path)


def is_legacy(path: str) -> bool:
    """Whether pre-commit has installed its hook in place of ours, and runs ours."""
    return not is_ours(path) and is_ours(path + LEGACY) and "pre-commit" in hook_text(path)


def hook_text(path: str) -> str:
    try:
        return read_at_most(path, 4096).decode("utf-8", "replace")
    except OSError:
        return ""
