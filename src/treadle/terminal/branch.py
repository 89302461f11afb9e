"""Which branch is checked out in a directory, read from git's own files: fast enough for a line that shows it."""

import os

from treadle.errors import StorageError
from treadle.io.reading import read_if_there


def branch_of(directory: str) -> str:
    """The branch; the beginning of the commit's id without one; empty outside a repository."""
    try:
        while directory:
            head = _head(os.path.join(directory, ".git"))
            if head:
                return head.removeprefix("ref: ").removeprefix("refs/heads/") if "ref: " in head else head[:9]
            above = os.path.dirname(directory)
            directory = above if above != directory else ""
    except (StorageError, UnicodeDecodeError):
        pass
    return ""


def _head(git: str) -> str:
    if os.path.isfile(git):  # a worktree, or a submodule
        pointer = (read_if_there(git) or b"").decode().strip()
        if not pointer.startswith("gitdir: "):
            return ""
        git = os.path.join(os.path.dirname(git), pointer.removeprefix("gitdir: "))
    return (read_if_there(os.path.join(git, "HEAD")) or b"").decode().strip()
