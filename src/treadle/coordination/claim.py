"""One claim: who holds what, for which task, until when; and how it overlaps with what others want."""

import os
from collections.abc import Iterable, Sequence

from treadle.coordination.identity import human_of, root_of
from treadle.coordination.planning import Planning, digest, one_line, read_text, seconds_of, timestamp, write_text
from treadle.coordination.record import CLAIM, file_name
from treadle.coordination.surfaces import Index, Surface
from treadle.errors import ConfigError, Denied, StorageError
from treadle.io.files import try_remove
from treadle.light import Any
from treadle.wire.common.jsontext import dumps, loads
from treadle.wire.common.schema import faults

DEFAULT_TTL_MINUTES = 90
MAX_TTL_MINUTES = 60 * 24 * 365
MOST_SHOWN = 100
"""How many overlaps a check or a refused claim names at most."""


class Claim:
    """What one identity holds, as in its file; fields that other tools added are kept.

    A surface is a path, a glob or a symbol. The field `held` records for each one its task, its mode and its fence.
    """

    def __init__(self, fields: dict[str, Any], top: str = "", path: str = "", now: float | None = None) -> None:
        """Raises ValueError when these are not the fields of a claim. `now`: no renewal is later than this."""
        if faults(CLAIM, fields):
            raise ValueError("not a claim")
        self.fields = fields
        self.haid: str = fields["haid"]
        self.task = one_line(str(fields.get("task_ref", "")))
        self.texts: list[str] = fields["claimed_surfaces"]
        self.fence = fields["fence"] if type(fields.get("fence")) is int else 0
        self.path = path
        self._top = top
        self._now = now
        self._surfaces: dict[str, Surface | None] = {}

    @property
    def surfaces(self) -> list[Surface]:
        return [surface for text in self.texts if (surface := self.surface(text)) is not None]

    def surface(self, text: str) -> Surface | None:
        """The Surface for one of its texts; None if another tool wrote something that is not a path."""
        if text not in self._surfaces:
            try:
                self._surfaces[text] = Surface(text, self._top)
            except ConfigError:
                self._surfaces[text] = None
        return self._surfaces[text]

    def part(self, text: str) -> dict[str, Any]:
        """The task, mode, time and fence with which a surface was taken."""
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
        """When it was last renewed, according to its heartbeat, which the original tools renew too."""
        seen = seconds_of(self.fields.get("heartbeat"))
        if seen is None:
            seen = seconds_of(self.fields.get("claimed_at")) or 0.0
        return seen if self._now is None else min(seen, self._now)  # the other clock may be ahead of ours

    @property
    def ends(self) -> float:
        """When it ends if it is not renewed."""
        return self.renewed + self.ttl

    @property
    def expires_at(self) -> str:
        return timestamp(self.ends)

    def as_json(self) -> dict[str, Any]:
        return {**self.fields, "expires_at": self.expires_at, "fence": self.fence, "mode": self.mode}

    def listed(self, gone: str = "") -> str:
        """The claim as a person reads it in a list; `gone`: since when its holder's session has been gone."""
        away = f"; holder not connected since {gone}" if gone else ""
        surfaces = "".join(f"\n    {one_line(text)}" for text in self.texts)
        away += "; not recorded by heimdall-claim" if self.fields.get("unproved") else ""
        away += "; in another clone" if self.fields.get("elsewhere") else ""
        how = f"{self.mode}, fence {self.fence}, expires_at {self.expires_at}{away}"
        return f"  {self.haid}  task {one_line(self.task)}  {how}{surfaces}"

    @property
    def mode(self) -> str:
        return "shared" if self.shared else "exclusive"


class Overlap:
    """A requested surface that another agent's claim covers."""

    def __init__(self, asked: str, held: str, claim: Claim) -> None:
        self.asked = asked
        self.held = held
        self.claim = claim
        self.gone = ""
        """Since when the holder's session has been gone, if that is known."""

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
    """Another agent holds what was asked for."""

    def __init__(self, overlaps: list[Overlap], doing: str = "claim") -> None:
        holders = sorted({overlap.claim.haid for overlap in overlaps})
        lines = "".join(f"\n  {overlap}" for overlap in overlaps)
        lines += f"\n  (the first {MOST_SHOWN}; there may be more)" if len(overlaps) == MOST_SHOWN else ""
        super().__init__(f"COLLISION: cannot {doing} what {', '.join(holders)} holds{lines}")
        self.overlaps = overlaps
        self.details = [overlap.as_json() for overlap in overlaps]


class Released:
    """What a release gave up, and what is still held."""

    def __init__(self, claim: Claim, given: list[str], left: list[str]) -> None:
        self.claim = claim
        self.given = given
        self.left = left


def inside(surface: Surface) -> Surface:
    """Refuse a surface outside the repository, where these claims mean nothing."""
    if surface.is_outside:
        raise ConfigError(
            f"{surface.text!r} is outside of this repository", hint="surfaces are paths from its top, such as src/**"
        )
    return surface


def summed(parts: dict[str, Any]) -> dict[str, Any]:
    """The fields of a claim that are derived from its surfaces."""
    tasks = dict.fromkeys(str(part["task"]) for part in parts.values())
    return {
        "claimed_surfaces": list(parts),
        "task_ref": "; ".join(tasks),
        "fence": max((part["fence"] for part in parts.values()), default=0),
        "mode": "shared" if all(part["mode"] == "shared" for part in parts.values()) else "exclusive",
        "held": parts,
    }


def owns(caller: str, haid: str) -> bool:
    """Whether the caller may act on it: its own claim, or that of an agent started from its checkout."""
    return caller in (haid, root_of(haid))


def is_proved(claim: Claim, given: Iterable[str]) -> bool:
    """Whether one of these codes is the one that was last made for this claim."""
    return claim.fields.get("proof") in {digest(code) for code in given}


class Held:
    """A snapshot of claims, indexed for asking about many surfaces."""

    def __init__(self, claims: Iterable[Claim], *, shared: bool = False) -> None:
        """With `shared`, for a caller that only wants to share: shared claims do not conflict and are left out."""
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


# Remembers refused claims, so that the holder learns who waits for it.

WAIT_SECONDS = 3600
"""The one who has not asked again for this long is no longer waiting."""


class Waits:
    def __init__(self, planning: Planning) -> None:
        self.planning = planning
        self.directory = planning.live_path("waits")

    def put(self, haid: str, surfaces: Sequence[str], task: str, holders: Sequence[str]) -> None:
        old = self._load(self._path(haid))
        now = self.planning.now()
        same = old if old and old.get("surfaces") == list(surfaces) else {}
        since = same.get("since", now)
        wait = {"haid": haid, "surfaces": list(surfaces), "task": task, "since": since, "asked": now}
        wait |= {"told": same["told"]} if "told" in same else {}
        write_text(self._path(haid), dumps({**wait, "holders": sorted(set(holders))}, 2) + "\n")

    def mark_notified(self, wait: dict[str, Any], haid: str) -> None:
        """Record that this holder was notified. The stored key is `told`."""
        write_text(self._path(wait["haid"]), dumps({**wait, "told": [*wait.get("told", ()), haid]}, 2) + "\n")

    def drop(self, haid: str) -> None:
        try_remove(self._path(haid))  # unless it was not waiting

    def all(self) -> list[dict[str, Any]]:
        try:
            names = sorted(os.listdir(self.directory))
        except OSError:
            return []
        found = [self._load(os.path.join(self.directory, name)) for name in names if name.endswith(".json")]
        return [wait for wait in found if wait is not None]

    def on(self, haid: str) -> list[dict[str, Any]]:
        """Who waits for something that this identity holds."""
        return [wait for wait in self.all() if haid in wait["holders"]]

    def _load(self, path: str) -> dict[str, Any] | None:
        try:
            wait = loads(read_text(path) or "")
            asked = seconds_of(wait["asked"])
            fresh = asked is not None and self.planning.clock() - asked < WAIT_SECONDS
            return wait if fresh and isinstance(wait["holders"], list) and wait["haid"] and wait["surfaces"] else None
        except (ValueError, KeyError, TypeError, StorageError):
            return None

    def _path(self, haid: str) -> str:
        return os.path.join(self.directory, file_name(haid) + ".json")


def wait_text(wait: dict[str, Any]) -> str:
    return f"{wait['haid']} waits for {' '.join(wait['surfaces'])} since {wait['since']} (task {wait['task']})"
