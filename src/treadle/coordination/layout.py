"""Live state in git's common directory, and the names in `.planning` under which other tools still find it.

Clean, stash, checkout and a removed worktree reach `.planning`; they never reach git's own directory. A `.planning`
that holds live state, as older versions left it, is moved once. What git brings back of it later is history.
"""

import os

from treadle.errors import TreadleError
from treadle.io.files import locked, move, write_atomic

MOVED = "moved"
"""A file in the live directory that says that the older layout was looked at."""
LIVE = ("protocol.log", "ledger/claims", "ledger/agents.json", "protocol/ledger.jsonl")
"""What other tools read in `.planning` and what is linked from there."""
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
    """Where the live state is, after that of an older layout was moved; `root` where it cannot be moved."""
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
                write_atomic(os.path.join(live, MOVED), b"1\n", 0o644)
        return live
    except (OSError, TreadleError):
        return root  # nothing can be written: what is there is read where it is


def _is_real(path: str) -> bool:
    return os.path.lexists(path) and not os.path.islink(path)


def _move(old: str, new: str) -> None:
    """What is in the new place already is newer and stays; a directory is moved file by file."""
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
    """Make the links that are missing. A file that git keeps there stays; where links cannot be, none are made."""
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
