"""Keeps live state in git's common directory, with links in `.planning` where other tools look for it.

git clean, stash, checkout and removing a worktree affect `.planning`, but never git's own directory. Live state that
older versions left in `.planning` is moved once. If git later restores such files, they are history and are ignored.
"""

import os

from treadle.errors import TreadleError
from treadle.io.files import locked, move, write_atomic

MOVED = "moved"
"""A file in the live directory that records that the old layout was dealt with."""
LIVE = ("protocol.log", "ledger/claims", "ledger/agents.json", "protocol/ledger.jsonl")
"""What other tools read in `.planning`, and what is therefore linked from there."""
_OLDER = (*LIVE, "ledger/fence", "protocol/messages.jsonl")
_IGNORE = """# What is listed here leads to live state in git's own directory. The rest is for you to commit, or not.
/protocol.log
/ledger/claims
/ledger/agents.json
/protocol/ledger.jsonl
/.locks/
/.gitignore
"""


def moved(root: str, live: str) -> str:
    """Where the live state is, after moving that of an older layout; `root` if it cannot be moved."""
    if os.path.exists(os.path.join(live, MOVED)):
        return live
    older = [name for name in _OLDER if _is_real(os.path.join(root, name))]
    if not older:
        return live
    try:
        os.makedirs(live, exist_ok=True)
        with locked(os.path.join(live, ".moving"), 60.0):
            if not os.path.exists(os.path.join(live, MOVED)):
                for name in older:
                    _move(os.path.join(root, name), os.path.join(live, name))
                # Last: after a kill in between, the next process moves what is left.
                write_atomic(os.path.join(live, MOVED), b"1\n", 0o644)
        return live
    except (OSError, TreadleError):
        return root  # read-only: use the old place


def _is_real(path: str) -> bool:
    return os.path.lexists(path) and not os.path.islink(path)


def _move(old: str, new: str) -> None:
    """Move files one by one; anything that is already in the new place is newer and stays."""
    if os.path.isdir(old):
        for name in os.listdir(old):
            _move(os.path.join(old, name), os.path.join(new, name))
        try:
            os.rmdir(old)
        except OSError:
            pass  # something was left in it
    elif not os.path.lexists(new):
        os.makedirs(os.path.dirname(new), exist_ok=True)
        move(old, new)


def link(root: str, live: str) -> None:
    """Create the missing links. A file that git tracks there stays; without support for links, none are made."""
    for name in LIVE:
        target, place = os.path.join(live, name), os.path.join(root, name)
        if os.path.lexists(place) or not os.path.exists(target):
            continue
        directory = os.path.dirname(place)
        try:
            if not os.path.isdir(directory):
                os.makedirs(directory, exist_ok=True)
            ignore = os.path.join(root, ".gitignore")
            if not os.path.lexists(ignore):
                write_atomic(ignore, _IGNORE.encode(), 0o644, sync=False)
            os.symlink(os.path.relpath(target, os.path.realpath(directory)), place)
        except (OSError, TreadleError):
            return
    if not os.path.exists(os.path.join(live, MOVED)):
        try:
            write_atomic(os.path.join(live, MOVED), b"1\n", 0o644, sync=False)
        except TreadleError:
            pass
