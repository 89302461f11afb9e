"""Whether git's hooks hold claims here: they are installed with a repository's first claim, and missed if they go.

A person who uninstalls them has decided, and is not reminded. Light: `heimdall-claim list` imports this, and `hooks`
only when they are to be installed or are missing.
"""

import os

from treadle.coordination import repository
from treadle.coordination.planning import Planning, make_dirs
from treadle.coordination.repository import HOOKS, is_legacy, is_ours
from treadle.errors import TreadleError
from treadle.io.files import read_if_there, write_atomic

_OFF = "guard-off"
"""A file in the live state: the hooks were uninstalled, or not wanted."""


def turn(planning: Planning, *, on: bool) -> None:
    """Remember whether the hooks are wanted here."""
    path = planning.live_path(_OFF)
    if not on:
        make_dirs(planning.live)
        write_atomic(path, b"1\n", 0o644, sync=False)
    elif os.path.exists(path):
        os.unlink(path)


def begin(planning: Planning) -> list[str]:
    """Install the hooks when something is claimed for the first time. Returns what the claimer should read."""
    if not _is_wanted(planning):
        return []
    from treadle.coordination import hooks

    try:
        if "absent" not in hooks.status(planning.project).values():
            return []
        hooks.install(planning.project, "block")
    except (TreadleError, OSError) as error:
        return [f"warning: commits of what others hold are not refused here: {error}"]
    return ["git hooks were installed: commits and pushes of what others hold are refused"]


def warnings(planning: Planning) -> list[str]:
    """Why git would let a commit of what others hold through; empty when it would not, or nothing was ever claimed."""
    if not planning.claimed() or not _is_wanted(planning) or _surely_there(planning):
        return []
    from treadle.coordination import hooks

    absent = [hook for hook, how in hooks.status(planning.project).items() if how == "absent"]
    if not absent:
        return []
    why = hooks.why_absent(planning.project) or "no hooks are installed: `heimdall-claim guard install` does it"
    return [f"commits or pushes of what others hold are not refused here ({', '.join(absent)}); {why}"]


def _is_wanted(planning: Planning) -> bool:
    """Not outside git, and not where `HEIMDALL_PLANNING_DIR` keeps claims apart from the repository."""
    return planning.live != planning.root and not os.path.exists(planning.live_path(_OFF))


def _surely_there(planning: Planning) -> bool:
    """Whether our hooks are in git's own directory, and no settings file could point git to another. Asking git for its
    settings would take longer than the rest of a small command."""
    found = repository.find(planning.project)
    paths = [os.path.join(found.common, "hooks", hook) for hook in HOOKS] if found else []
    if found is None or not all(os.access(path, os.X_OK) and (is_ours(path) or is_legacy(path)) for path in paths):
        return False
    home = os.path.expanduser("~")
    settings = (
        os.path.join(found.common, "config"),
        os.path.join(found.git, "config.worktree"),
        os.environ.get("GIT_CONFIG_GLOBAL") or os.path.join(home, ".gitconfig"),
        os.path.join(os.environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config"), "git", "config"),
        os.environ.get("GIT_CONFIG_SYSTEM") or "/etc/gitconfig",
    )
    texts = [(read_if_there(path) or b"").lower() for path in settings if os.path.isfile(path)]
    return not any(b"hookspath" in text or b"[include" in text for text in texts)
