"""Claims: who may change what, for how long. One file per identity; all checks and changes happen under one lock.

A claim that is not renewed ends by itself. Each has a fence, a number that only ever grows: whoever accepts work under
a claim can refuse it from a holder whose fence is not the newest for that surface any more.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from treadle.coordination import decisions
from treadle.coordination.identity import Agents, human_of, root_of
from treadle.coordination.index import Index
from treadle.coordination.planning import Planning, one_line, read_text, seconds_of, timestamp, write_text
from treadle.coordination.surfaces import Surface
from treadle.errors import ConfigError, Denied, NotFound
from treadle.io.files import storage_error
from treadle.light import TYPE_CHECKING
from treadle.wire.common.jsontext import dumps, loads
from treadle.wire.common.schema import NON_EMPTY, TEXT, faults, list_of, record

if TYPE_CHECKING:
    from typing import Any

    from treadle.io.files import locked

DEFAULT_TTL_MINUTES = 90
MAX_TTL_MINUTES = 60 * 24 * 365
_SCHEMA = record({"haid": NON_EMPTY, "claimed_surfaces": list_of(TEXT)})
"""What makes a file a claim; the rest has defaults."""


class Claim:
    """One claim as it is in its file; fields that others added are kept."""

    def __init__(self, fields: dict[str, Any], top: str = "", path: str = "") -> None:
        """Raises ValueError when these are not the fields of a claim."""
        if faults(_SCHEMA, fields):
            raise ValueError("not a claim")
        self.fields = fields
        self.haid: str = fields["haid"]
        self.task = one_line(str(fields.get("task_ref", "")))
        self.texts: list[str] = fields["claimed_surfaces"]
        self.shared = fields.get("mode") == "shared"
        self.fence = fields["fence"] if isinstance(fields.get("fence"), int) else 0
        self.path = path
        self._top = top
        self._surfaces: dict[str, Surface | None] = {}

    @property
    def surfaces(self) -> list[Surface]:
        return [surface for text in self.texts if (surface := self.surface(text)) is not None]

    def surface(self, text: str) -> Surface | None:
        """What one of its texts covers; None where another tool wrote what stands for no path at all."""
        if text not in self._surfaces:
            try:
                self._surfaces[text] = Surface(text, self._top)
            except ConfigError:
                self._surfaces[text] = None
        return self._surfaces[text]

    @property
    def ends(self) -> float:
        """When it ends if it is not renewed, from the heartbeat, which the original tools renew too."""
        seen = seconds_of(self.fields.get("heartbeat"))
        if seen is None:
            seen = seconds_of(self.fields.get("claimed_at")) or 0.0
        ttl = self.fields.get("ttl_minutes", DEFAULT_TTL_MINUTES)
        return seen + min(ttl if isinstance(ttl, (int, float)) else DEFAULT_TTL_MINUTES, MAX_TTL_MINUTES) * 60

    @property
    def expires_at(self) -> str:
        return timestamp(self.ends)

    def as_json(self) -> dict[str, Any]:
        return {**self.fields, "expires_at": self.expires_at, "fence": self.fence, "mode": self.mode}

    @property
    def mode(self) -> str:
        return "shared" if self.shared else "exclusive"


class Overlap:
    """A surface asked for that somebody else's claim covers."""

    def __init__(self, asked: str, held: str, claim: Claim) -> None:
        self.asked = asked
        self.held = held
        self.claim = claim

    def __str__(self) -> str:
        claim = self.claim
        return (
            f"{self.asked} overlaps {self.held} held by {claim.haid} (human {human_of(claim.haid)},"
            f" task {claim.task}, {claim.mode} until {claim.expires_at})"
        )

    def as_json(self) -> dict[str, Any]:
        return {"asked": self.asked, "held": self.held, "claim": self.claim.as_json()}


class Collision(Denied):
    """Somebody else holds it."""

    def __init__(self, overlaps: list[Overlap], doing: str = "claim") -> None:
        holders = sorted({overlap.claim.haid for overlap in overlaps})
        lines = "".join(f"\n  {overlap}" for overlap in overlaps)
        super().__init__(f"COLLISION: cannot {doing} what {', '.join(holders)} holds{lines}")
        self.overlaps = overlaps
        self.details = [overlap.as_json() for overlap in overlaps]


class Claims:
    def __init__(self, planning: Planning, top: str = "") -> None:
        self.planning = planning
        self.top = top or os.path.dirname(planning.root)
        """Where the surfaces are, to tell files from directories."""
        self.directory = planning.path("ledger", "claims")
        self.agents = Agents(planning)

    def lock(self) -> locked:
        """Held around every check that something depends on, and around writes that a claim allows."""
        return self.planning.lock_beside("claims", self.planning.path("ledger", "claims.lock"))

    # What people and agents do...

    def claim(
        self, haid: str, surfaces: Sequence[str], task: str, ttl_minutes: int | None = None, *, shared: bool = False
    ) -> Claim:
        """Take these surfaces, in place of what this identity held before. Raises Collision when another has any."""
        ttl = DEFAULT_TTL_MINUTES if ttl_minutes is None else ttl_minutes
        if not surfaces or not task:
            raise ConfigError("a claim needs surfaces and a task", hint="heimdall-claim claim SURFACE... --task T")
        if not 1 <= ttl <= MAX_TTL_MINUTES:
            raise ConfigError(f"a claim cannot last {ttl} minutes", hint=f"1 to {MAX_TTL_MINUTES}")
        wanted = [Surface(text, self.top) for text in dict.fromkeys(surfaces)]
        with self.lock():
            self.agents.require(haid)
            _, active = self._reap()
            if found := self.overlaps(haid, wanted, active, shared=shared):
                self.planning.log("claim", "collision", f"{haid} {' '.join(surfaces)}")
                raise Collision(found)
            now = self.planning.now()
            claim = self._write(
                {
                    "haid": haid,
                    "human": human_of(haid),
                    "claimed_surfaces": [surface.text for surface in wanted],
                    "task_ref": task,
                    "claimed_at": now,
                    "ttl_minutes": ttl,
                    "heartbeat": now,
                    "expires_at": "",
                    "fence": self._next_fence(active),
                    "mode": "shared" if shared else "exclusive",
                }
            )
        self.planning.log("claim", "claim", f"{haid} task={task} {' '.join(claim.texts)}")
        return claim

    def release(self, caller: str, haid: str = "", *, force: bool = False, reason: str = "") -> Claim | None:
        """Give a claim up; gives the claim there was. Another's only by force, with a reason that is kept."""
        haid = haid or caller
        with self.lock():
            self.agents.require(caller)
            claim = self._load(self._path(haid))
            if claim is not None and not owns(caller, haid):
                if not force or not reason.strip():
                    raise Denied(
                        f"the claim of {haid} is not {caller}'s to release",
                        hint='ask its holder, or use --force --reason "why", which is recorded in decisions.md',
                    )
                decisions.append(
                    self.planning,
                    f"forced release of {haid}",
                    f"`{caller}` released the claim of `{haid}` (task `{claim.task}`): {reason.strip()}",
                )
            if claim is not None:
                self._remove(claim)
        self.planning.log("claim", "release", haid if claim else f"{haid} (none)")
        return claim

    def heartbeat(self, caller: str, haid: str = "") -> Claim:
        """Renew a claim. One that ran out and that nobody has taken since is taken again, with a new fence."""
        haid = haid or caller
        with self.lock():
            self.agents.require(caller)
            claim = self._load(self._path(haid))
            if claim is None:
                raise NotFound(f"{haid} holds no claim", hint="it ended or was released: claim again")
            if not owns(caller, haid):
                raise Denied(f"the claim of {haid} is not {caller}'s to renew")
            if not self.is_active(claim):
                active = self.active()
                if found := self.overlaps(haid, claim.surfaces, active, shared=claim.shared):
                    raise Collision(found, "renew")
                claim.fields["fence"] = self._next_fence(active)
            claim = self._write({**claim.fields, "heartbeat": self.planning.now()})
        self.planning.log("claim", "heartbeat", haid)
        return claim

    def reap(self) -> tuple[list[Claim], list[Claim]]:
        """Remove the claims that ended; gives those, and those that remain."""
        with self.lock():
            reaped, active = self._reap()
        self.planning.log("claim", "reap", f"reaped={len(reaped)} active={len(active)}")
        return reaped, active

    # What is asked...

    def active(self) -> list[Claim]:
        return [claim for claim in self._all() if self.is_active(claim)]

    def of(self, haid: str) -> Claim | None:
        """The active claim of an identity."""
        claim = self._load(self._path(haid))
        return claim if claim is not None and self.is_active(claim) else None

    def holds(self, haid: str) -> bool:
        """Whether it has a claim, also one that ran out and can still be renewed."""
        return self._load(self._path(haid)) is not None

    def is_active(self, claim: Claim) -> bool:
        return self.planning.clock() < claim.ends

    def overlaps(
        self, haid: str, wanted: Iterable[Surface], active: Iterable[Claim] | None = None, *, shared: bool = False
    ) -> list[Overlap]:
        """Where others' active claims are in the way; two shared claims never are."""
        known = self.active() if active is None else active
        others = [claim for claim in known if claim.haid != haid and not (shared and claim.shared)]
        return Held(others).overlaps(wanted)

    def check(self, haid: str, surfaces: Sequence[str], *, shared: bool = False) -> list[Overlap]:
        wanted = [Surface(text, self.top) for text in surfaces]
        found = self.overlaps(haid, wanted, shared=shared)
        self.planning.log("claim", "check", f"{haid} overlaps={len(found)} {' '.join(surfaces)}")
        return found

    # Under the lock...

    def _reap(self) -> tuple[list[Claim], list[Claim]]:
        ended: list[Claim] = []
        active: list[Claim] = []
        for claim in self._all():
            (active if self.is_active(claim) else ended).append(claim)
        for claim in ended:
            decisions.append(
                self.planning,
                "auto-release (TTL/heartbeat expired)",
                f"The claim of `{claim.haid}` (task `{claim.task}`) was not renewed and is released.",
            )
            self._remove(claim)
        return ended, active

    def _next_fence(self, held: Iterable[Claim]) -> int:
        path = self.planning.path("ledger", "fence")
        text = (read_text(path) or "").strip()
        # The file may be lost, or be an older one that git brought back: what is held is the least there was.
        last = max([int(text) if text.isdecimal() else 0, *(claim.fence for claim in held)])
        write_text(path, f"{last + 1}\n")
        return last + 1

    def _write(self, fields: dict[str, Any]) -> Claim:
        claim = Claim(fields, self.top, self._path(fields["haid"]))
        fields["expires_at"] = claim.expires_at
        write_text(claim.path, dumps(fields, 2) + "\n")
        return claim

    def _remove(self, claim: Claim) -> None:
        try:
            os.unlink(claim.path)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise storage_error(error, claim.path, "remove") from error

    def _path(self, haid: str) -> str:
        return os.path.join(self.directory, haid.replace("/", "_").replace(":", "_") + ".json")

    def _all(self) -> list[Claim]:
        try:
            names = sorted(os.listdir(self.directory))
        except FileNotFoundError:
            return []
        found = [self._load(os.path.join(self.directory, name)) for name in names if name.endswith(".json")]
        return [claim for claim in found if claim is not None]

    def _load(self, path: str) -> Claim | None:
        """The claim in a file; None when there is none, or when what is there cannot be read as one."""
        try:
            text = read_text(path)
            return None if text is None else Claim(loads(text), self.top, path)
        except ValueError:
            return None


def owns(caller: str, haid: str) -> bool:
    """One's own, or that of an agent which one's checkout started."""
    return caller in (haid, root_of(haid))


class Held:
    """Claims as they are at one moment, ready to be asked about many surfaces."""

    def __init__(self, claims: Iterable[Claim]) -> None:
        self._index = Index((text, (claim, text)) for claim in claims for text in claim.texts)

    def overlaps(self, wanted: Iterable[Surface]) -> list[Overlap]:
        found = []
        for mine in wanted:
            for claim, text in self._index.near(mine.pattern):
                theirs = claim.surface(text)
                if theirs is not None and mine.overlaps(theirs):
                    found.append(Overlap(mine.text, text, claim))
        return found
