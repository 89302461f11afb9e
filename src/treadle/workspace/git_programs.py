"""The programs that a repository's own configuration has git run when a person only wants to look."""

import os

from treadle.errors import TreadleError
from treadle.policy.programs import git_looks_with
from treadle.workspace.user_repository import UserRepository


def run_when_looking(directory: str) -> str:
    """Why `git diff` and the like may run a program here; empty when they do not. What a person has configured for all
    repositories is theirs."""
    found = UserRepository.around(directory)
    if found is None:
        return f"the repository around {directory} is of an unusual form" if _is_in_one(directory) else ""
    try:
        listed = found.settings()
    except TreadleError as error:
        return f"its configuration cannot be read ({error})"
    own = [
        f"{key} = {value}"
        for scope, key, value in listed
        if scope in ("local", "worktree") and git_looks_with(key, value)
    ]
    return f"the repository {found.top} has git run a program: {', '.join(own)}" if own else ""


def _is_in_one(directory: str) -> bool:
    place = os.path.realpath(directory)
    while place != os.path.dirname(place):
        if os.path.lexists(os.path.join(place, ".git")):
            return True
        place = os.path.dirname(place)
    return False
