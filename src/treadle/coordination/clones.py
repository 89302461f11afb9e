"""Claims of a repository's other clones: exchanged through one ref on a shared remote, `refs/heimdall/claims`.

The ref's commit has one file for each clone, with the clone's active claims. A clone replaces its own file and leaves
the others; a push that names what it replaces decides between two that claim at the same moment. What was read last is
kept here with its time, and counts like claims of this clone. A fleet's bucket does none of this: it serves machines
that run one fleet, and people's clones share only their remote.
"""

from __future__ import annotations

import os
from hashlib import sha256

from treadle.coordination.planning import Planning
from treadle.coordination.record import CLAIM, ENDING, SEEN, SeenClones, encoded
from treadle.errors import ConfigError
from treadle.io import scratch
from treadle.io.files import try_remove
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


class _ClaimsRef(RemoteBranch):
    def __init__(self, remote: Remote, store: Store) -> None:
        super().__init__(remote, "claims", store)
        self.there = REF

    def read(self) -> tuple[str, dict[str, Any]]:
        """Where the ref is, empty if it is not there, and the files of its commit."""
        done = self._ask("ls-remote", "--exit-code", "--end-of-options", self.remote.address, REF, fine=(2,))
        if done.code == 2:
            return "", {}
        self._ask("fetch", "--quiet", "--no-tags", "--end-of-options", self.remote.address, f"+{REF}:refs/fetched/tip")
        tip = self.store.ref("refs/fetched/tip") or ""
        files = self.store.files(self.store.tree_of(tip))
        blobs = self.store.blobs([one.blob for one in files.values()], lent=False)
        return tip, {name: loads(blobs[one.blob]) for name, one in files.items()}


class Clones:
    """What this clone tells others of its claims, and reads of theirs. Off until a person names the remote."""

    def __init__(self, planning: Planning) -> None:
        self._planning = planning
        self._seen = SeenClones(planning)
        self._own = sha256(os.fsencode(f"{os.uname().nodename}\x1f{planning.live}")).hexdigest()[:16] + ENDING

    def turn(self, remote: str) -> None:
        """Share claims through this remote; through none if it is empty."""
        if not remote:
            return try_remove(self._seen.path)
        self._at(remote)
        private_dir(os.path.dirname(self._seen.path))
        SEEN.save(self._seen.path, {"format": 1, "remote": remote, "at": 0.0, "claims": {}})

    def exchange(self, own: dict[str, Any]) -> bool:
        """Read others' claims and publish these. False when another clone was first: look again."""
        remote = self._at(self._seen.remote)
        with scratch.directory("claims") as directory:
            ref = _ClaimsRef(remote, Store.make(os.path.join(directory, "store"), **lending(remote.user)))
            tip, files = ref.read()
            self._save(files)
            if files.get(self._own, {}) == own:
                return True
            blobs = {name: encoded(one) for name, one in {**files, self._own: own}.items()}
            entries = {name: TreeEntry(mode="100644", blob=ref.store.put("blob", data)) for name, data in blobs.items()}
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

    def _save(self, files: dict[str, Any]) -> None:
        theirs = [one for name, one in files.items() if name != self._own and isinstance(one, dict)]
        claims = {name: fields for one in theirs for name, fields in one.items() if not faults(CLAIM, fields)}
        seen = {"remote": self._seen.remote, "at": self._planning.clock(), "claims": claims}
        SEEN.save(self._seen.path, {"format": 1, **seen})
