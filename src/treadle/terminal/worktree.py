"""A directory of its own for a terminal's program: written from the commit that is checked out, with its own `.git`.

What the program changes there stays there until a person takes it over. No git of ours runs where it can write.
"""

from __future__ import annotations

import os
import re
import secrets

from treadle.errors import ConfigError, NotFound, TreadleError
from treadle.io.descriptors import remove_tree
from treadle.io.files import is_locked
from treadle.io.paths import private_dir
from treadle.terminal import lock
from treadle.terminal.listing import row
from treadle.terminal.places import Place, default_directory
from treadle.terminal.settings import TerminalSettings
from treadle.workspace.user_repository import UserRepository
from treadle.workspace.workspace import Workspace, open_workspace, prepare


def check_free(settings: TerminalSettings) -> None:
    """Refuse an id that is not free for another worktree before one is made for it."""
    place = Place(settings.directory or default_directory(), settings.id) if settings.id else None
    if place is not None and not is_locked(place.pid):
        lock.check(place)


def holds_work(place: Place) -> bool:
    """Whether a terminal has a worktree that was neither brought over nor thrown away."""
    return bool(lock.directory(_workdir(place)))


def make(name: str, settings: TerminalSettings) -> Workspace:
    """A fresh directory for the program of a terminal, which is to work on its working directory."""
    source = os.path.realpath(os.path.expanduser(settings.workdir))
    if UserRepository.around(source) is None:
        raise ConfigError(f"{source} is not in a git repository, so it has no worktree", hint="run git init there")
    own = f"{re.sub(r'[^A-Za-z0-9_-]+', '-', name).strip('-')[:40] or 'terminal'}-{secrets.token_hex(3)}"
    directory = private_dir(os.path.join(private_dir(lock.base()), own))
    try:
        made = prepare("worktree", source, directory, name=own)
        settings.workdir = made.root
        return made
    except BaseException:
        remove_tree(directory)
        raise


def of(place: Place) -> Workspace:
    """The directory of a terminal that was started with `run --worktree`, also after its program has ended."""
    workdir = _workdir(place)
    if not lock.is_own(workdir):
        raise NotFound(f"{place.id} has no worktree of its own", hint="`treadle run --worktree` starts one with it")
    directory = lock.directory(workdir)
    found = open_workspace(directory) if directory else None
    if found is None:
        raise NotFound(f"the worktree of {place.id} was removed")
    return found


def _workdir(place: Place) -> str:
    found = row(place)
    if found["alive"]:
        return str(found.get("workdir") or "")
    try:
        return lock.workdir_of(place)
    except TreadleError:
        return ""


def runs(place: Place) -> bool:
    """Whether the program may still change something."""
    return is_locked(place.pid) and row(place)["alive"]
