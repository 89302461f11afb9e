"""What is written down about a workspace when it is made, so that it is found again after a crash."""

import os
from typing import Literal, TypeAlias

import msgspec

from treadle.errors import StorageError
from treadle.io.reading import read_if_there
from treadle.workspace.user_repository import UserRepository

WorkspaceMode: TypeAlias = Literal["staged", "worktree", "pass_through"]
FORMAT = 1
RECORD = "workspace.json"


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Where the files of a directory come from whose own git directory is an agent's: no git of ours may run there."""

    top: str
    """The person's checkout."""
    commit: str
    inside: str = "."
    """The directory in the checkout that it stands for."""


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """What is needed to find a workspace again after a crash. Format 0 is what earlier releases wrote."""

    format: int = 0
    mode: WorkspaceMode
    source: str
    root: str
    directory: str
    before: str
    """The tree that it started from."""
    whole: str = ""
    """The tree that the whole workspace started from, above `root`."""
    branch: str | None = None
    start: str | None = None
    commit: str | None = None
    """The commit that the source had checked out, if it is in a repository."""
    origin: Origin | None = None

    def at_top(self, user: UserRepository) -> bool:
        """Whether the source stands for the whole checkout."""
        return self.origin.inside == "." if self.origin is not None else os.path.realpath(user.top) == self.source

    def repository(self) -> UserRepository | None:
        """The person's repository that the source belongs to, if any."""
        return UserRepository.around(self.origin.top if self.origin is not None else self.source)


def read_record(directory: str) -> Prepared | None:
    """What was prepared in `directory`; None when the preparation did not finish. Raises StorageError for what a newer
    treadle has prepared."""
    path = os.path.join(directory, RECORD)
    try:
        place = msgspec.json.decode(read_if_there(path) or b"", type=Prepared)
    except msgspec.MsgspecError:
        return None
    if place.format > FORMAT:
        raise StorageError(f"{path} was written by a newer treadle", hint="upgrade treadle")
    return place
