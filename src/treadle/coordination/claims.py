"""Claims: who may change what, for how long. One file per identity; all checks and changes happen under one lock.

A claim that is not renewed ends by itself. Each has a fence, a number that only ever grows: whoever accepts work under
a claim can refuse it from a holder whose fence is not the newest for that surface any more.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence

from treadle.coordination import decisions
from treadle.coordination.identity import Agents, human_of, root_of
from treadle.coordination.index import Index
from treadle.coordination.planning import Planning, one_line, read_text, seconds_of, timestamp, write_text
from treadle.coordination.seats import Seats, file_name
from treadle.coordination.surfaces import Surface, matches_any
from treadle.coordination.waits import Waits
from treadle.errors import ConfigError, Denied, NotFound, TreadleError
from treadle.io.files import storage_error
from treadle.light import TYPE_CHECKING
from treadle.wire.common.jsontext import dumps, loads
from treadle.wire.common.schema import NON_EMPTY, TEXT, faults, list_of, record

if TYPE_CHECKING:
    from typing import Any

    from treadle.io.files import locked

DEFAULT_TTL_MINUTES = 90
MAX_TTL_MINUTES = 60 * 24 * 365
KEEP_SECONDS = 300.0
"""A holder that is seen at work has its claim renewed at most this often."""
_SCHEMA = record({"haid": NON_EMPTY, "claimed_surfaces": list_of(TEXT)})
"""What makes a file a claim; the rest has defaults."""


class Claim:
    """What one identity holds, as it is in its file; fields that others added are kept.

    Each surface remembers under `held` for which task it was taken, how, and with which fence.
    """

    def __init__(self, fields: dict[str, Any], top: str = "", path: str = "", now: float | None = None) -> None:
        """Raises ValueError when these are not the fields of a claim. `now`: nothing was renewed later than that."""
        if faults(_SCHEMA, fields):
            raise ValueError("not a claim")
        self.fields = fields
        self.haid: str = fields["haid"]
        self.task = one_line(str(fields.get("task_ref", "")))
        self.texts: list[str] = fields["claimed_surfaces"]
        self.fence = fields["fence"] if isinstance(fields.get("fence"), int) else 0
        self.path = path
        self._top = top
        self._now = now
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

    def part(self, text: str) -> dict[str, Any]:
        """For which task a surface was taken, how, when, and with which fence."""
        held = self.fields.get("held")
        part = held.get(text) if isinstance(held, dict) else None
        whole = {"task": self.task, "mode": self.fields.get("mode", "exclusive"), "fence": self.fence}
        return {**whole, "since": self.fields.get("claimed_at", ""), **(part if isinstance(part, dict) else {})}

    def is_shared(self, text: str) -> bool:
        return bool(self.part(text)["mode"] == "shared")

    @property
    def shared(self) -> bool:
        return all(self.is_shared(text) for text in self.texts)

    @property
    def ttl(self) -> float:
        ttl = self.fields.get("ttl_minutes", DEFAULT_TTL_MINUTES)
        plain = isinstance(ttl, (int, float)) and not isinstance(ttl, bool)
        return min(ttl if plain else DEFAULT_TTL_MINUTES, MAX_TTL_MINUTES) * 60

    @property
    def renewed(self) -> float:
        """When it was last renewed, by the heartbeat, which the original tools renew too."""
        seen = seconds_of(self.fields.get("heartbeat"))
        if seen is None:
            seen = seconds_of(self.fields.get("claimed_at")) or 0.0
        return seen if self._now is None else min(seen, self._now)  # written by a clock that is ahead of ours

    @property
    def ends(self) -> float:
        """When it ends if it is not renewed."""
        return self.renewed + self.ttl

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
        self.gone = ""
        """Since when the holder's session is not there, where that is known."""

    def __str__(self) -> str:
        claim = self.claim
        part = claim.part(self.held)
        gone = f"; holder not connected since {self.gone}" if self.gone else ""
        return (
            f"{self.asked} overlaps {self.held} held by {claim.haid} (human {human_of(claim.haid)},"
            f" task {one_line(str(part['task']))}, {part['mode']} until {claim.expires_at}{gone})"
        )

    def as_json(self) -> dict[str, Any]:
        gone = {"not_connected_since": self.gone} if self.gone else {}
        return {"asked": self.asked, "held": self.held, "claim": self.claim.as_json(), **gone}


class Collision(Denied):
    """Somebody else holds it."""

    def __init__(self, overlaps: list[Overlap], doing: str = "claim") -> None:
        holders = sorted({overlap.claim.haid for overlap in overlaps})
        lines = "".join(f"\n  {overlap}" for overlap in overlaps)
        super().__init__(f"COLLISION: cannot {doing} what {', '.join(holders)} holds{lines}")
        self.overlaps = overlaps
        self.details = [overlap.as_json() for overlap in overlaps]


class Released:
    """What a release gave up, and what is still held."""

    def __init__(self, claim: Claim, given: list[str], left: list[str]) -> None:
        self.claim = claim
        self.given = given
        self.left = left


class Claims:
    def __init__(self, planning: Planning, top: str = "") -> None:
        self.planning = planning
        self.top = top or os.path.dirname(planning.root)
        """Where the surfaces are, to tell files from directories."""
        self.directory = planning.live_path("ledger", "claims")
        self.agents = Agents(planning)
        self.seats = Seats(planning, "")
        self.waits = Waits(planning)

    def lock(self) -> locked:
        """Held around every check that something depends on, and around writes that a claim allows."""
        return self.planning.lock_beside("claims", "ledger", "claims.lock")

    # What people and agents do...

    def claim(
        self, haid: str, surfaces: Sequence[str], task: str, ttl_minutes: int | None = None, *, shared: bool = False
    ) -> Claim:
        """Take these surfaces beside what this identity holds. Raises Collision when another has any."""
        ttl = DEFAULT_TTL_MINUTES if ttl_minutes is None else ttl_minutes
        if not surfaces or not task:
            raise ConfigError("a claim needs surfaces and a task", hint="heimdall-claim claim SURFACE... --task T")
        if not 1 <= ttl <= MAX_TTL_MINUTES:
            raise ConfigError(f"a claim cannot last {ttl} minutes", hint=f"1 to {MAX_TTL_MINUTES}")
        wanted = [inside(Surface(text, self.top)) for text in dict.fromkeys(surfaces)]
        with self.lock():
            self.agents.require(haid)
            _, active = self._reap()
            if found := self.overlaps(haid, wanted, active, shared=shared):
                self.waits.put(haid, [surface.text for surface in wanted], task, [o.claim.haid for o in found])
                self.planning.log("claim", "collision", f"{haid} {' '.join(surfaces)}")
                raise Collision(found)
            held = next((claim for claim in active if claim.haid == haid), None)
            texts = [surface.text for surface in wanted]
            claim = self._write(self._added(held, haid, texts, task, ttl, shared, self._next_fence(active)))
            self.waits.drop(haid)
        self.planning.log("claim", "claim", f"{haid} task={task} {' '.join(texts)}")
        return claim

    def _added(
        self, held: Claim | None, haid: str, texts: list[str], task: str, ttl: int, shared: bool, fence: int
    ) -> dict[str, Any]:
        """The fields of a claim with these surfaces beside those that it had."""
        now = self.planning.now()
        mode = "shared" if shared else "exclusive"
        parts = {text: held.part(text) for text in held.texts} if held else {}
        parts |= {text: {"task": task, "mode": mode, "fence": fence, "since": now} for text in texts}
        fields: dict[str, Any] = {
            "haid": haid,
            "human": human_of(haid),
            "claimed_surfaces": list(parts),
            "task_ref": "",
            "claimed_at": held.fields.get("claimed_at", now) if held else now,
            "ttl_minutes": max(ttl, int(held.ttl // 60)) if held else ttl,
            "heartbeat": now,
        }
        return {**(held.fields if held else {}), **fields, **_summed(parts)}

    def release(
        self, caller: str, haid: str = "", surfaces: Sequence[str] = (), *, force: bool = False, reason: str = ""
    ) -> Released | None:
        """Give up these surfaces, or all; None when nothing was held. Another's only by force, with a reason."""
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
            self.waits.drop(haid)
            given = self._given(claim, surfaces) if claim else []
            left = [text for text in claim.texts if text not in given] if claim else []
            if claim is not None and left:
                self._write({**claim.fields, **_summed({text: claim.part(text) for text in left})})
            elif claim is not None:
                self._remove(claim)
        self.planning.log("claim", "release", f"{haid} {' '.join(given)}" if claim else f"{haid} (none)")
        return Released(claim, given, left) if claim else None

    def _given(self, claim: Claim, surfaces: Sequence[str]) -> list[str]:
        if not surfaces:
            return list(claim.texts)
        given = []
        for asked in (Surface(text, self.top) for text in surfaces):
            same = [
                t for t in claim.texts if t == asked.text or (s := claim.surface(t)) is not None and s.is_same(asked)
            ]
            if not same:
                raise NotFound(f"{claim.haid} does not hold {asked.text}", hint=f"it holds {' '.join(claim.texts)}")
            given += same
        return given

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
                fence = self._next_fence(active)
                claim.fields |= _summed({text: {**claim.part(text), "fence": fence} for text in claim.texts})
            claim = self._renew(claim)
        self.planning.log("claim", "heartbeat", haid)
        return claim

    def keep(self, haid: str) -> None:
        """Renew what this identity holds when a part of its time is over: it was just seen at work."""
        claim = self._load(self._path(haid))
        if claim is not None and self.planning.clock() - claim.renewed > min(claim.ttl / 4, KEEP_SECONDS):
            try:
                self.heartbeat(haid)
            except TreadleError:
                pass  # it ended and another has it, or nothing can be written: the next claim says so

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
        """Until it ends, and beyond that while the session that holds it is there."""
        return self.planning.clock() < claim.ends or self.seats.living(claim.haid)

    def unseen(self) -> list[str]:
        """Why what others hold cannot be seen, or not all of it; nothing when it can."""
        found = [why] if (why := self.planning.blind()) else []
        return [*found, *(f"{path} is not a claim that can be read" for path in self.broken())]

    def broken(self) -> list[str]:
        """The files among the claims that are none: what they hold is not known."""
        return [path for path in self._paths() if self._load(path) is None and os.path.exists(path)]

    def without_files(self, surfaces: Sequence[str]) -> list[str]:
        """Those that stand for no file there is, which may be a new one or may be misspelt."""
        return [text for text in dict.fromkeys(surfaces) if not matches_any(Surface(text, self.top), self.top)]

    def exists(self) -> bool:
        """Whether anything was ever claimed here; a fresh clone has no claims of anybody, which is not the same."""
        return os.path.isdir(self.directory)

    def overlaps(
        self, haid: str, wanted: Iterable[Surface], active: Iterable[Claim] | None = None, *, shared: bool = False
    ) -> list[Overlap]:
        """Where others' active claims are in the way; two shared claims never are."""
        known = self.active() if active is None else active
        return self.met(Held((claim for claim in known if claim.haid != haid), shared=shared).overlaps(wanted))

    def met(self, overlaps: list[Overlap]) -> list[Overlap]:
        """The same overlaps, each with since when its holder is not there."""
        gone = {haid: self.seats.gone_since(haid) for haid in {overlap.claim.haid for overlap in overlaps}}
        for overlap in overlaps:
            overlap.gone = gone[overlap.claim.haid]
        return overlaps

    def check(self, haid: str, surfaces: Sequence[str], *, shared: bool = False) -> list[Overlap]:
        wanted = [Surface(text, self.top) for text in surfaces]
        found = self.overlaps(haid, wanted, shared=shared)
        self.planning.note("claim", "check", f"{haid} overlaps={len(found)} {' '.join(surfaces)}")
        return found

    # Under the lock...

    def _reap(self) -> tuple[list[Claim], list[Claim]]:
        ended: list[Claim] = []
        active: list[Claim] = []
        now = self.planning.clock()
        for claim in self._all():
            if not self.is_active(claim):
                ended.append(claim)
            elif now >= claim.ends or (seconds_of(claim.fields.get("heartbeat")) or 0.0) > now + claim.ttl:
                active.append(self._renew(claim, now >= claim.ends))
            else:
                active.append(claim)
        for claim in ended:
            decisions.append(
                self.planning,
                "auto-release (TTL/heartbeat expired)",
                f"The claim of `{claim.haid}` (task `{claim.task}`) was not renewed and is released.",
            )
            self._remove(claim)
        return ended, active

    def _renew(self, claim: Claim, forward: bool = True) -> Claim:
        """Forward only: a clock that is behind shortens nobody's claim. Else to now, from a clock far ahead."""
        now = self.planning.now()
        old = claim.fields.get("heartbeat", "")
        return self._write({**claim.fields, "heartbeat": max(now, old) if forward and seconds_of(old) else now})

    def _next_fence(self, held: Iterable[Claim]) -> int:
        path = self.planning.live_path("ledger", "fence")
        text = (read_text(path) or "").strip()
        # The file may be lost, or be an older one that git brought back: what is held is the least there was.
        last = max([int(text) if text.isdecimal() else 0, *(claim.fence for claim in held)])
        write_text(path, f"{last + 1}\n")
        return last + 1

    def _write(self, fields: dict[str, Any]) -> Claim:
        claim = Claim(fields, self.top, self._path(fields["haid"]), self.planning.clock())
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
        return os.path.join(self.directory, file_name(haid) + ".json")

    def _paths(self) -> list[str]:
        try:
            names = sorted(os.listdir(self.directory))
        except FileNotFoundError:
            return []
        return [os.path.join(self.directory, name) for name in names if name.endswith(".json")]

    def _all(self) -> list[Claim]:
        found = [self._load(path) for path in self._paths()]
        return [claim for claim in found if claim is not None]

    def _load(self, path: str) -> Claim | None:
        """The claim in a file; None when there is none, or when what is there cannot be read as one."""
        try:
            text = read_text(path)
            return None if text is None else Claim(loads(text), self.top, path, self._latest(path))
        except (ValueError, FileNotFoundError):
            return None

    def _latest(self, path: str) -> float:
        """The latest time at which a claim can have been renewed: its file was not written by a clock ahead of all."""
        now = self.planning.clock()
        return min(now, os.stat(path).st_mtime + 1) if self.planning.clock is time.time else now


def _summed(parts: dict[str, Any]) -> dict[str, Any]:
    """The fields of a claim that follow from its surfaces."""
    tasks = dict.fromkeys(str(part["task"]) for part in parts.values())
    return {
        "claimed_surfaces": list(parts),
        "task_ref": "; ".join(tasks),
        "fence": max((part["fence"] for part in parts.values()), default=0),
        "mode": "shared" if all(part["mode"] == "shared" for part in parts.values()) else "exclusive",
        "held": parts,
    }


def inside(surface: Surface) -> Surface:
    """Refuse a surface that lies outside of the repository: nobody works there under these claims."""
    if surface.is_outside:
        raise ConfigError(
            f"{surface.text!r} is outside of this repository", hint="surfaces are paths from its top, such as src/**"
        )
    return surface


def owns(caller: str, haid: str) -> bool:
    """One's own, or that of an agent which one's checkout started."""
    return caller in (haid, root_of(haid))


class Held:
    """Claims as they are at one moment, ready to be asked about many surfaces."""

    def __init__(self, claims: Iterable[Claim], *, shared: bool = False) -> None:
        """With `shared`, for who only wants to share: what others share is left out."""
        self._index = Index(
            (text, (claim, text)) for claim in claims for text in claim.texts if not (shared and claim.is_shared(text))
        )

    def overlaps(self, wanted: Iterable[Surface]) -> list[Overlap]:
        found = []
        for mine in wanted:
            for claim, text in self._index.near(mine.pattern):
                theirs = claim.surface(text)
                if theirs is not None and mine.overlaps(theirs):
                    found.append(Overlap(mine.text, text, claim))
        return found
