"""Merges beside a branch, in a store of ours: as the branch's attributes want it, the same commit every time."""

import os
import re
from collections.abc import Iterator, Sequence

from treadle.io.files import write
from treadle.workspace import private_git
from treadle.workspace.directories import write_files
from treadle.workspace.store import Store, give
from treadle.workspace.submodules import write_submodules
from treadle.workspace.user_repository import UserRepository

# The merges. All functions block.

LATEST = 2**32 - 1
"""The latest date that every git reads."""
_ATTRIBUTES = ("merge", "-merge", "!merge", "binary", "conflict-marker-size")


def fixed_identity(store: Store, commits: Sequence[str]) -> dict[str, str]:
    """Fixed names and dates for a commit with these parents: what is built twice is the same commit."""
    dates = store.git("log", "--no-walk", "--format=%ct", *commits, lent=True).stdout.split()
    date = f"@{min(max(map(int, dates)), LATEST)} +0000"  # an agent may date its commits as it likes
    who = {"NAME": "treadle", "EMAIL": "treadle@localhost", "DATE": date}
    return {f"GIT_{role}_{name}": value for role in ("AUTHOR", "COMMITTER") for name, value in who.items()}


def unstated(store: Store, before: str, merged: str, base: str, work: str) -> list[str]:
    """The files that a merge changes on the branch, from the tree `before` to `merged`, and that the work itself, from
    the commit `base` to `work`, did not change.

    A commit can claim to have merged the branch and have dropped what it found there; then git takes that for the
    work's own doing. What an order did is what its receipt states, and nothing else of it is merged.
    """
    # Where a lender has a tree already, git did not write it into the store.
    before, merged, base, work = (store.borrow_tree(each)[0] for each in (before, merged, base, work))
    own = store.deltas(base, work, renames=False)
    stated = {delta.change.path for delta in own}
    contents = {delta.new.blob for delta in own if delta.new is not None}
    wrong = []
    for delta in store.deltas(before, merged, renames=False):
        moved_along = delta.new is not None and delta.new.blob in contents
        if delta.change.path not in stated and not moved_along:
            wrong.append(delta.change.path)
    if wrong:  # what the branch has renamed meanwhile is changed under its new name
        since = store.deltas(base, before)
        renamed = {delta.change.path for delta in since if delta.change.old_path in stated}
        wrong = [path for path in wrong if path not in renamed]
    return sorted(wrong)


def set_attributes(store: Store, tip: str) -> None:
    """Let the branch's own `.gitattributes` say how files are merged: git reads them only from a checkout."""
    _, files = store.borrow_tree(tip)
    named = {path: entry.blob for path, entry in files.items() if path.rpartition("/")[2] == ".gitattributes"}
    content = store.blobs(named.values())
    lines = []
    for path in sorted(named, key=lambda each: each.count("/")):
        text = content[named[path]].decode("utf-8", "surrogateescape")
        lines += list(_merge_attributes(text, path.rpartition("/")[0]))
    before = "* -text -eol -ident -filter -working-tree-encoding !diff" + ("" if lines else " !merge") + "\n"
    data = "".join([before, *lines]).encode("utf-8", "surrogateescape")
    write(os.path.join(store.directory, "info", "attributes"), data)


def _merge_attributes(text: str, folder: str) -> Iterator[str]:
    """The lines of a `.gitattributes` that say how to merge, for a file at the top."""
    for line in text.splitlines():
        pattern, *words = line.split()[:20] or [""]
        attributes = [word for word in words if word.partition("=")[0] in _ATTRIBUTES]
        if attributes and not pattern.startswith(("#", "[", '"')):
            if folder:
                pattern = f"{folder}/{pattern.lstrip('/')}" if "/" in pattern.rstrip("/") else f"{folder}/**/{pattern}"
            yield f"{pattern} {' '.join(attributes)}\n"


def kinds(messages: str) -> dict[str, str]:
    """The kind of conflict for each path, from what `git merge-tree -z` says after the paths."""
    fields = iter(messages.strip("\0").split("\0"))
    found: dict[str, str] = {}
    for count in fields:
        if not count.isdigit():
            break
        paths = [next(fields, "") for _ in range(int(count))]
        _, text = next(fields, ""), next(fields, "")
        if (kind := re.match(r"CONFLICT \(([^)]+)\)", text)) and paths:
            found.setdefault(paths[0], kind[1])
    return found


def check_out(store: Store, user: UserRepository, ref: str, commit: str, on: str, here: str) -> dict[str, str]:
    """A fresh directory with the files of a commit, and a git directory of its own with its history.

    `on` is a commit of the user's repository that it was built on, or that commit itself. Returns the submodules that
    are empty there, and the commits that they name.
    """
    _, files = store.borrow_tree(commit)
    write_files(store, files, here)
    empty = write_submodules(user, files, here)
    place = os.path.join(here, ".git")
    private_git.make(place, user, head=ref, at=on)
    own = UserRepository(here, place, place, linked=False)  # nothing but us has written in it yet
    if commit != on:
        give(store, own, commit, without=on)
    own.run("update-ref", ref, commit)
    own.run("read-tree", commit)
    return empty
