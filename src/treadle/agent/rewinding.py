"""The trees of a workspace around the turns of a session, and how its files go back to one of them.

Before the first call of a turn that may change files, and at the turn's end, the directory is taken as a tree into a
store in the session's own folder. What a turn changed is what differs between its two trees. A path goes back only if
it is as the last of these turns left it, and was not changed between them. HEAD, index and refs of a person's
repository are looked at, never moved.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial

from treadle.agent.transcript import Restored, TurnTrees
from treadle.errors import NotFound
from treadle.workspace.changes import TreeEntry
from treadle.workspace.directories import Look, hidden_changes, permission_changes, take
from treadle.workspace.journal import carry_out, settle
from treadle.workspace.merge import File, put_beside
from treadle.workspace.store import GITLINK, Store, lending
from treadle.workspace.submodules import checked_out
from treadle.workspace.user_repository import UserRepository

LARGEST = 32 << 20
"""Bytes of a file that can come back."""
NAMED = 200
"""How many paths that cannot come back are written down for a turn."""


class Trees:
    """`folder` makes the directory for the store, and returns it."""

    def __init__(self, cwd: str, folder: Callable[[], str]) -> None:
        self._cwd = os.path.realpath(cwd)
        self._folder = folder
        self._last: Look | None = None
        self._began: tuple[Look, dict[str, str]] | None = None

    def _store(self, user: UserRepository | None) -> Store:
        place = os.path.join(self._folder(), "store.git")
        try:
            return Store.open(place)
        except NotFound:
            return Store.make(place, **lending(user))

    def _take(self) -> tuple[Look, dict[str, str]]:
        """The directory as it is now, and which commits are checked out there. Blocks."""
        user = UserRepository.around(self._cwd)
        store, heads, base = self._store(user), dict[str, str](), dict[str, TreeEntry]()
        if user is not None and (head := checked_out(user)):
            inside = os.path.relpath(self._cwd, os.path.realpath(user.top))
            start = "" if inside == "." else f"{inside}/"
            _, files = store.borrow_tree(head)
            base = {path[len(start) :]: entry for path, entry in files.items() if path.startswith(start)}
            heads = {"": head}
            for path in (path for path, entry in base.items() if entry.mode == GITLINK):
                if (inner := UserRepository.at(os.path.join(self._cwd, path))) is not None:
                    heads[path] = checked_out(inner)
        excludes = user.excludes(everywhere=True) if user is not None else ""
        lent = {entry.blob for entry in base.values()}
        self._last = take(
            store, self._cwd, base=base, earlier=self._last, excludes=excludes, lent=lent, git_files=False, cap=LARGEST
        )
        return self._last, heads

    def begin(self) -> None:
        self._began = self._take()

    def end(self, turn: str) -> TurnTrees | None:
        if self._began is None:
            return None
        (before, heads), self._began = self._began, None
        after, now = self._take()
        lost = hidden_changes(before, after)
        odd = {path for path in before.files.keys() - after.files.keys() if _mode(before, path) & 0o777 not in _USUAL}
        modes = {one.path: (one.before, one.after) for one in permission_changes(before, after)}
        return TurnTrees(
            turn=turn,
            before=before.tree,
            after=after.tree,
            lost=tuple(lost[:NAMED]),
            more=max(0, len(lost) - NAMED),
            modes={**modes, **{path: (f"{_mode(before, path) & 0o777:04o}", "") for path in odd}},
            emptied=tuple(sorted(before.empty - after.empty)),
            made=tuple(sorted(after.empty - before.empty)),
            heads={path: heads[path] for path in heads if heads[path] != now.get(path)},
        )

    def restore(self, turns: Sequence[TurnTrees]) -> Restored:
        """Undo what these turns changed, the first one first. Blocks."""
        if not turns:
            return Restored()
        journal = os.path.join(self._folder(), "apply.json")
        settle(journal)
        now, heads = self._take()
        store = self._store(UserRepository.around(self._cwd))
        wanted, changed_since = _wanted(store, turns, now.files)
        deletes = [path for path, entry in wanted.items() if entry is None]
        writes = {path: entry for path, entry in wanted.items() if entry is not None and entry.mode != GITLINK}
        left = now.files.keys() - set(deletes)
        blocked = [path for path in writes if _is_blocked(path, left)]
        changed_since += blocked
        writes = {path: entry for path, entry in writes.items() if path not in blocked}
        content = store.blobs(entry.blob for entry in writes.values())
        carry_out(
            journal,
            self._cwd,
            {
                path: partial(put_beside, _file(entry, content[entry.blob]), os.path.join(self._cwd, path))
                for path, entry in writes.items()
            },
            deletes,
        )
        for turn in reversed(turns):
            self._put_rest(turn, {*writes, *deletes})
        lost = dict.fromkeys(path for turn in turns for path in turn.lost)
        first = {path: head for turn in reversed(turns) for path, head in turn.heads.items()}
        return Restored(
            changed=tuple(os.path.join(self._cwd, path) for path in (*writes, *deletes)),
            changed_since=tuple(sorted(changed_since)),
            lost=tuple(lost),
            more=sum(turn.more for turn in turns),
            heads={path: (heads.get(path, ""), head) for path, head in first.items() if heads.get(path) != head},
        )

    def _put_rest(self, turn: TurnTrees, restored: set[str]) -> None:
        """Permissions, and directories without files, which trees do not hold."""
        for path, (before, after) in turn.modes.items():
            place = os.path.join(self._cwd, path)
            with suppress(OSError):
                found = os.lstat(place).st_mode
                if stat.S_ISREG(found) and (path in restored or f"{found & 0o7777:04o}" == after):
                    os.chmod(place, int(before, 8))
        for path in sorted(turn.made, reverse=True):
            with suppress(OSError):
                os.rmdir(os.path.join(self._cwd, path))
        for path in turn.emptied:
            with suppress(OSError):
                os.makedirs(os.path.join(self._cwd, path), exist_ok=True)


_USUAL = (0o644, 0o755, 0o664, 0o775, 0o777)


def _mode(look: Look, path: str) -> int:
    return look.seen[path][0] if path in look.seen else 0o644


def _file(entry: TreeEntry, data: bytes) -> File:
    return File(data=data, link=entry.is_link, executable=entry.executable)


def _wanted(
    store: Store, turns: Sequence[TurnTrees], now: Mapping[str, TreeEntry]
) -> tuple[dict[str, TreeEntry | None], list[str]]:
    """What each path that the turns changed was before; and those that another has changed since."""
    wanted: dict[str, TreeEntry | None] = {}
    current: dict[str, TreeEntry | None] = {}
    strange: set[str] = set()
    for turn in turns:
        for delta in store.deltas(turn.before, turn.after, renames=False):
            path = delta.change.path
            if path in current and current[path] != delta.old:
                strange.add(path)
            wanted.setdefault(path, delta.old)
            current[path] = delta.new
    strange |= {path for path, entry in current.items() if now.get(path) != entry}
    needed = {path: entry for path, entry in wanted.items() if now.get(path) != entry}
    return {path: one for path, one in needed.items() if path not in strange}, sorted(strange & needed.keys())


def _is_blocked(path: str, left: set[str]) -> bool:
    """Whether a file that stays is where its directory has to be, or below it."""
    above = path.split("/")
    parents = {"/".join(above[:count]) for count in range(1, len(above))}
    return bool(parents & left) or any(one.startswith(f"{path}/") for one in left)
