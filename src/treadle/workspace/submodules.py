"""The files of submodules for a directory that is only read: as far as the person's own checkout has their commits."""

import os
from collections.abc import Mapping

from treadle.errors import WorkspaceError
from treadle.io import scratch
from treadle.workspace.changes import TreeEntry
from treadle.workspace.exchange import lacks
from treadle.workspace.store import GITLINK, Store, lending
from treadle.workspace.user_repository import UserRepository
from treadle.workspace.writing import write_files

DEPTH = 8
"""How deep submodules of submodules are followed."""


def write_submodules(
    user: UserRepository, files: Mapping[str, TreeEntry], here: str, depth: int = DEPTH
) -> dict[str, str]:
    """Write the files of the submodules in `files` into their directories in `here`, which are empty. Blocks.

    Nothing is fetched. Returns the submodules that stay empty, because the commit that they name is not in the person's
    checkout of them, and that commit.
    """
    missing: dict[str, str] = {}
    for path, entry in files.items():
        if entry.mode != GITLINK:
            continue
        inner = UserRepository.at(os.path.join(user.top, path)) if depth else None
        own = _written(inner, entry.blob, os.path.join(here, path)) if inner is not None else None
        if inner is None or own is None:
            missing[path] = entry.blob
            continue
        deeper = write_submodules(inner, own, os.path.join(here, path), depth - 1)
        missing |= {f"{path}/{each}": commit for each, commit in deeper.items()}
    return missing


def _written(inner: UserRepository, commit: str, here: str) -> dict[str, TreeEntry] | None:
    """The files of a submodule, written; None if it has no such commit, or one that is none to be written."""
    if lacks(inner, [commit]):
        return None
    with scratch.directory("submodule") as directory:
        store = Store.make(directory, **lending(inner))
        try:
            _, own = store.borrow_tree(commit)
            write_files(store, own, here)
        except WorkspaceError:  # an agent can name anything
            return None
    return own
