"""Whether an ended terminal has left work in a worktree of its own. Light: every start of a terminal asks it."""

import os

from treadle.errors import ConfigError, NotFound, StorageError
from treadle.io.paths import state_dir
from treadle.terminal.history import exit_record
from treadle.terminal.places import Place


def base() -> str:
    """Where the worktrees of terminals are."""
    return os.path.join(state_dir(), "worktrees")


def is_own(workdir: str) -> bool:
    return workdir.startswith(os.path.join(os.path.realpath(base()), ""))


def directory(workdir: str) -> str:
    """The directory of the workspace that a program works in; empty when it has none, or that is gone."""
    if not is_own(workdir) or not os.path.isdir(workdir):
        return ""
    top = os.path.realpath(base())
    return os.path.join(top, os.path.relpath(workdir, top).split(os.sep)[0])


def left_in(place: Place) -> str:
    """The worktree that an ended terminal has left, neither brought over nor thrown away."""
    try:
        return directory(str(exit_record(place.exit).get("workdir") or ""))
    except NotFound:
        return ""


def check(place: Place) -> None:
    """Refuse to give away an id whose last terminal has left work: its exit record is how that work is found."""
    try:
        left = left_in(place)
    except StorageError as error:
        raise ConfigError(
            f"whether the last program in {place.id} has left work is not known: {error}",
            hint=f"use another id, or remove {place.exit} if you miss nothing",
        ) from error
    if left:
        raise ConfigError(
            f"the last program in {place.id} has left work in its worktree",
            hint=f"`treadle merge {place.id}` brings it over, --discard throws it away; or use another id",
        )
