"""Submodules: their files for a directory that is only read, and which of them a checkout has as they are committed.

All functions block.
"""

import os
import re
from collections.abc import Iterator, Mapping

from treadle.errors import TreadleError, WorkspaceError
from treadle.io import scratch, tasks
from treadle.io.files import read_at_most
from treadle.workspace.changes import TreeEntry
from treadle.workspace.directories import write_files
from treadle.workspace.store import FILES, GITLINK, Store, lacks, lending
from treadle.workspace.user_repository import ID, REF, SMALL, UserRepository

# The files, as far as the person's own checkout has their commits.

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


# One entry for each submodule of a checkout, as git commits it.

_PATH = re.compile(r"^[ \t]*path[ \t]*=[ \t]*(.+?)[ \t]*$", re.MULTILINE)


def as_links(
    store: Store, base: Mapping[str, TreeEntry], files: Mapping[str, TreeEntry], top: str, git: str
) -> Mapping[str, TreeEntry]:
    """The files of the checkout `top` with one entry for each submodule that has just the files of the commit that it
    is at. Those of another stay: no commit has what was found there. `git`: the git directory that has its submodules'.
    """
    known = {path for path, entry in base.items() if entry.mode == GITLINK}
    for path in sorted(known.union(_named(store, files)), key=len, reverse=True):  # the inner ones first
        tasks.check()
        found = _repository(os.path.join(top, path), git)
        commit = checked_out(found) if found is not None else ""
        if found is None or not commit:
            continue
        inner = {name[len(path) + 1 :]: entry for name, entry in files.items() if name.startswith(f"{path}/")}
        if inner and _tree_of(store, found, commit) == store.put_files(inner):
            files = {name: entry for name, entry in files.items() if not name.startswith(f"{path}/")}
            files[path] = TreeEntry(mode=GITLINK, blob=commit)
    return files


def _named(store: Store, files: Mapping[str, TreeEntry]) -> Iterator[str]:
    """The paths that the files `.gitmodules` name."""
    lists = {path: one for path, one in files.items() if f"/{path}".endswith("/.gitmodules") and one.mode in FILES}
    contents = store.stream([one.blob for one in lists.values()], lent=True)
    texts = {name: b"".join(piece for piece in pieces if size <= SMALL) for name, size, pieces in contents}
    for path, one in lists.items():
        for name in _PATH.findall(os.fsdecode(texts[one.blob])):
            yield os.path.normpath(os.path.join(os.path.dirname(path), name))


def _repository(place: str, git: str) -> UserRepository | None:
    """A submodule's repository. An agent may have written it: it is data, and no git runs in it."""
    own = os.path.join(place, ".git")
    if not os.path.isdir(own):
        named = _text(own)
        own = os.path.realpath(os.path.join(place, named.removeprefix("gitdir: ")))
        if not named.startswith("gitdir: ") or not own.startswith(f"{os.path.realpath(git)}/modules/"):
            return None
    return UserRepository(place, own, own, linked=True)


def checked_out(inner: UserRepository) -> str:
    """The commit that it is at; empty if that is not known."""
    name = _text(inner.file("HEAD"))
    if name.startswith("ref: ") and REF.fullmatch(name[5:]):
        packed = [line.partition(" ") for line in _text(inner.file("packed-refs")).splitlines()]
        name = _text(inner.file(name[5:])) or next((at for at, _, ref in packed if ref == name[5:]), "")
    return name if ID.fullmatch(name) else ""


def _tree_of(store: Store, inner: UserRepository, commit: str) -> str:
    """The tree of a commit, which is hashed; empty if it is not there."""
    with scratch.directory("submodule") as directory:
        try:
            lent = Store.make(directory, lenders=inner.object_places(), algorithm=store.algorithm)
            data = lent.git("cat-file", "commit", commit, lent=True, check=False).stdout
        except WorkspaceError:
            return ""
    return data.partition(b"\n")[0].decode()[5:] if store.id_of("commit", data) == commit else ""


def _text(path: str) -> str:
    try:
        return os.fsdecode(read_at_most(path, SMALL, follow=False)).strip()
    except (TreadleError, OSError, ValueError):
        return ""
