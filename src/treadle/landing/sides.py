"""The sides of a conflict, as files and differences, and where a helper starts: never a half-done merge.

All functions block.
"""

import re
from collections.abc import Sequence

import msgspec

from treadle.workspace import merges
from treadle.workspace.store import GITLINK, Store, TreeMerge

LITERAL = {"GIT_LITERAL_PATHSPECS": "1"}
_HUNK = re.compile(rb"^<{7} [^\n]*\n(.*?)^={7}\n(.*?)^>{7} [^\n]*$", re.M | re.S)
BIG = 1 << 20


class FileSides(msgspec.Struct, frozen=True, kw_only=True):
    """One file in conflict: `base` is the commit before both, `branch` and `order` what each did to it since."""

    path: str
    kind: str = ""
    base: str
    tip: str
    change: str
    orders: tuple[str, ...] = ()
    """The orders that changed it on the branch."""
    branch: str = ""
    order: str = ""


class HelpStart(msgspec.Struct, frozen=True, kw_only=True):
    """Where a helper starts."""

    commit: str
    tip: str
    since: str
    """The last commit that the branch and the change have in common."""
    sides: tuple[FileSides, ...] = ()
    landed: tuple[str, ...] = ()
    """The orders that landed since."""


class HunkDecision(msgspec.Struct, frozen=True, kw_only=True):
    """Which side of a conflict a result has: measured, not claimed."""

    path: str
    hunk: int
    took: str


def start(store: Store, tip: str, change: str) -> HelpStart:
    """A commit with the branch and the change as parents. Where they conflict, its files are as on the branch."""
    merges.set_attributes(store, tip)
    merged = store.merge(tip, change)
    since = store.git("merge-base", tip, change, lent=True).stdout.decode().split()[0]
    tree = _without_markers(store, tip, change, merged)
    parents = [tip, change]
    commit = store.commit(tree, parents, "Where help starts\n", who=merges.fixed_identity(store, parents))
    kinds = merges.kinds(merged.messages)
    sides = tuple(
        FileSides(
            path=path,
            kind=kinds.get(path, ""),
            base=since,
            tip=tip,
            change=change,
            orders=_orders(store, since, tip, path),
            branch=_difference(store, since, tip, path),
            order=_difference(store, since, change, path),
        )
        for path in merged.conflicts
    )
    return HelpStart(commit=commit, tip=tip, since=since, sides=sides, landed=_orders(store, since, tip))


def _without_markers(store: Store, tip: str, change: str, merged: TreeMerge) -> str:
    _, files = store.borrow_tree(merged.tree)
    if not merged.conflicts:
        return merged.tree
    (_, ours), (_, theirs) = store.borrow_tree(tip), store.borrow_tree(change)
    files = {path: entry for path, entry in files.items() if path in ours or path in theirs}  # less names like a~HEAD
    for path in merged.conflicts:
        files.pop(path, None)
        if path in ours:
            files[path] = ours[path]
    return store.put_files(files)


def _difference(store: Store, before: str, after: str, path: str) -> str:
    words = (
        "diff-tree",
        "-p",
        "--no-color",
        "--no-ext-diff",
        "--no-textconv",
        "--no-renames",
        before,
        after,
        "--",
        path,
    )
    return store.git(*words, lent=True, env=LITERAL, check=False).stdout.decode("utf-8", "replace")


def _orders(store: Store, since: str, tip: str, *paths: str) -> tuple[str, ...]:
    """The orders that landed in between, oldest first; only those that changed these files."""
    words = ["log", "--first-parent", "--reverse", "--format=%(trailers:key=Order,valueonly,separator=%x20)"]
    done = store.git(*words, f"{since}..{tip}", "--", *paths, lent=True, env=LITERAL, check=False)
    return tuple(dict.fromkeys(done.stdout.decode("utf-8", "replace").split()))


def decisions(store: Store, tip: str, change: str, result: str) -> list[HunkDecision]:
    """For each hunk of the conflict between the branch and a change: which side the result has."""
    merged = store.merge(tip, change)
    if not merged.conflicts:
        return []
    _, marked = store.borrow_tree(merged.tree)
    _, made = store.borrow_tree(result)
    found = []
    for path in merged.conflicts:
        entry, now = marked.get(path), made.get(path)
        if entry is None or entry.mode == GITLINK or now is not None and now.mode == GITLINK:
            continue
        text = store.blobs([now.blob])[now.blob] if now is not None else b""
        hunks = _HUNK.findall(store.blobs([entry.blob])[entry.blob][:BIG])
        found += [
            HunkDecision(path=path, hunk=number, took=_took(ours, theirs, text))
            for number, (ours, theirs) in enumerate(hunks, 1)
        ]
    return found


def _took(ours: bytes, theirs: bytes, text: bytes) -> str:
    has = [bool(side.strip()) and side in text for side in (ours, theirs)]
    if all(has):
        return "both"
    if has[0] or not any(has) and not ours.strip() and theirs not in text:
        return "the branch's"
    return "the order's" if has[1] else "neither as it was"


def as_data(found: Sequence[HunkDecision]) -> list[dict[str, object]]:
    return [msgspec.to_builtins(each) for each in found]
