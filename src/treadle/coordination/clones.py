"""Claims of a repository's other clones: exchanged through one ref on a shared remote, `refs/heimdall/claims`.

The ref's commit has one file for each clone, with the clone's active claims. A clone replaces its own file and leaves
the others; a push that names what it replaces decides between two that claim at the same moment. What was read last is
kept here with its time, and counts like claims of this clone. A fleet's bucket does none of this: it serves machines
that run one fleet, and people's clones share only their remote.
"""

from __future__ import annotations

import os

from treadle.coordination.planning import Planning
from treadle.coordination.record import CLAIM, ENDING, SEEN, SeenClones, encoded
from treadle.errors import ConfigError
from treadle.io import scratch
from treadle.io.files import locked, try_remove
from treadle.io.paths import private_dir
from treadle.light import Any
from treadle.wire.common.jsontext import loads
from treadle.wire.common.schema import faults
from treadle.workspace.branch_moves import BranchMoved
from treadle.workspace.changes import TreeEntry
from treadle.workspace.remotes import Remote, RemoteBranch
from treadle.workspace.store import Store, lending
from treadle.workspace.user_repository import UserRepository

REF = "refs/heimdall/claims"
_FILE = "100644"


class _ClaimsRef(RemoteBranch):
    tries, seconds = 1, 30.0  # an agent waits for its claim, and it is made without the others when they are away

    def __init__(self, remote: Remote, store: Store) -> None:
        super().__init__(remote, "claims", store)
        self.there = REF

    def read(self) -> tuple[str, dict[str, TreeEntry]]:
        """Where the ref is, empty if it is not there, and the files of its commit."""
        done = self._ask("ls-remote", "--exit-code", "--end-of-options", self.remote.address, REF, fine=(2,))
        if done.code == 2:
            return "", {}
        self._ask("fetch", "--quiet", "--no-tags", "--end-of-options", self.remote.address, f"+{REF}:refs/fetched/tip")
        tip = self.store.ref("refs/fetched/tip") or ""
        return tip, self.store.files(self.store.tree_of(tip))


class Clones:
    """What this clone tells others of its claims, and reads of theirs. Off until a person names the remote."""

    def __init__(self, planning: Planning) -> None:
        self._planning = planning
        self._seen = SeenClones(planning)

    def turn(self, remote: str) -> None:
        """Share claims through this remote; through none if it is empty."""
        if not remote:
            return try_remove(self._seen.path)
        self._at(remote)
        private_dir(os.path.dirname(self._seen.path))
        ours = self._seen.read().get("ours") or os.urandom(8).hex()
        SEEN.save(self._seen.path, {"format": 1, "remote": remote, "ours": ours, "at": 0.0, "clones": {}})

    def exchange(self, own: dict[str, Any]) -> bool:
        """Read others' claims and publish these. False when another clone was first: look again."""
        with locked(f"{self._seen.path}.lock"), scratch.directory("claims") as directory:
            seen = self._seen.read()
            remote, ours = self._at(seen.get("remote", "")), seen.get("ours", "") + ENDING
            ref = _ClaimsRef(remote, Store.make(os.path.join(directory, "store"), **lending(remote.user)))
            tip, files = ref.read()
            found = {name: _claims_in(ref.store, name, entry) for name, entry in files.items()}
            before = found.pop(ours, None)
            self._save(seen, found)
            if before == own or not (own or ours in files):
                return True
            entries = {**files, ours: TreeEntry(mode=_FILE, blob=ref.store.put("blob", encoded(own)))}
            try:
                ref.push(ref.store.loose_commit(ref.store.put_files(entries)), REF, lease=tip)
            except BranchMoved:
                return False
            return True

    def _at(self, name: str) -> Remote:
        user = UserRepository.around(self._planning.project)
        if user is None:
            raise ConfigError(f"{self._planning.project} is not in a git checkout", hint="share claims in a clone")
        return Remote(user, name)

    def _save(self, seen: dict[str, Any], found: dict[str, dict[str, Any] | None]) -> None:
        """A clone never removes its file: where one is gone, or cannot be read, what was known of that clone counts."""
        readable = {name: claims for name, claims in found.items() if claims is not None}
        unread = sorted(set(found) - set(readable))
        stored = {**seen, "at": self._planning.clock(), "clones": {**seen["clones"], **readable}, "unread": unread}
        SEEN.save(self._seen.path, stored)


def _claims_in(store: Store, name: str, entry: TreeEntry) -> dict[str, Any] | None:
    """The claims in a clone's file; None where they cannot be read. All who may push there may write anything."""
    if "/" in name or not name.endswith(ENDING) or entry.mode != _FILE:
        return None
    try:
        claims = loads(store.blobs([entry.blob], lent=False)[entry.blob])
        return None if any(faults(CLAIM, fields) for fields in claims.values()) else dict(claims)
    except (ValueError, AttributeError):
        return None
