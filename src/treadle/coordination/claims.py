"""Claims: who may change what, for how long. One file per identity; all checks and changes happen under one lock.

A claim that is not renewed expires. Each has a fence, a number that only grows: one who accepts work under a claim
can refuse it if the holder's fence is no longer the newest for that surface.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence

from treadle.coordination import repository
from treadle.coordination.bindings import IdentityBindings
from treadle.coordination.claim import (
    DEFAULT_TTL_MINUTES,
    MAX_TTL_MINUTES,
    MOST_SHOWN,
    Claim,
    Collision,
    Held,
    Overlap,
    Released,
    Waits,
    inside,
    owns,
    summed,
)
from treadle.coordination.identity import Agents, human_of
from treadle.coordination.planning import Planning, digest, read_text, seconds_of, write_text
from treadle.coordination.record import ClaimStore, claim_name
from treadle.coordination.surfaces import Surface, matches_any, resolved
from treadle.errors import Busy, ConfigError, Denied, NotFound, StorageError, TreadleError
from treadle.light import TYPE_CHECKING, Any
from treadle.wire.common.jsontext import dumps

if TYPE_CHECKING:
    from treadle.io.files import locked


__all__ = ["DEFAULT_TTL_MINUTES", "MAX_TTL_MINUTES", "Claim", "Claims", "Collision", "Held", "Overlap", "Released"]
KEEP_SECONDS = 300.0
"""The claim of a holder that is seen at work is renewed at most this often."""
MOST_TRIES = 20
"""How often other clones may be first before they are not told."""


class Claims:
    def __init__(self, planning: Planning, top: str = "") -> None:
        self.planning = planning
        self.top = top or os.path.dirname(planning.root)
        """The directory that surfaces are relative to, to tell files from directories."""
        self.store = ClaimStore(planning)
        self.directory = self.store.directory
        """Of the view, or of the claims themselves."""
        self.unreported = ""
        """Why other clones could not be told of the last change."""
        self.session = ""
        """The agent's session that claims, if it is one."""
        self.agents = Agents(planning)
        self.bindings = IdentityBindings(planning, "")
        self.waits = Waits(planning)

    def lock(self) -> locked:
        """Held around every check that something depends on, and around writes that a claim allows."""
        self.restore()
        return self._lock()

    def _lock(self) -> locked:
        return self.planning.lock_beside("claims", "ledger", "claims.lock")

    # What people and agents do...

    def claim(
        self, haid: str, surfaces: Sequence[str], task: str, ttl_minutes: int | None = None, *, shared: bool = False
    ) -> Claim:
        """Take these surfaces in addition to what this identity holds. Raises Collision when another has any."""
        ttl = DEFAULT_TTL_MINUTES if ttl_minutes is None else ttl_minutes
        if not surfaces or not task:
            raise ConfigError("a claim needs surfaces and a task", hint="heimdall-claim claim SURFACE... --task T")
        if not 1 <= ttl <= MAX_TTL_MINUTES:
            raise ConfigError(f"a claim cannot last {ttl} minutes", hint=f"1 to {MAX_TTL_MINUTES}")
        # A link that is itself claimed is held, and so is what it leads to.
        both = dict.fromkeys(one for text in surfaces for one in (text, resolved(text, self.top)))
        wanted = [inside(Surface(text, self.top)) for text in both]
        self.share()
        with self.lock():
            self.agents.require(haid)
            self._reap()
            self._check_free(haid, wanted, task, shared)
            texts = [surface.text for surface in wanted]
            fence = self._next_fence()
            claim = self._write(
                self._with_surfaces(self.of(haid), haid, texts, task, ttl, shared, fence), self.session, fence
            )
            self.waits.drop(haid)
        if self.store.clones.remote:  # of two clones, the one that publishes later has read what the first published
            self.publish(lambda: self._yield(haid, wanted, texts, shared))
        self.planning.log("claim", "claim", f"{haid} task={task} {' '.join(texts)}")
        return claim

    def _yield(self, haid: str, wanted: list[Surface], texts: list[str], shared: bool) -> None:
        """Give up what another clone was found to hold. Raises Collision."""
        if found := self.overlaps(haid, wanted, shared=shared, most=MOST_SHOWN):
            self.release(haid, haid, texts)
            self.waits.put(haid, texts, "", [overlap.claim.haid for overlap in found])
            raise Collision(found)

    def publish(self, look: Callable[[], None] = lambda: None, *, withdrawn: bool = False) -> None:
        """Share, until no other clone told of a claim at the same moment; `look` at what was read each time."""
        for _ in range(MOST_TRIES):
            published = self.share(withdrawn=withdrawn)
            look()
            if published:
                return
        self.unreported = f"other clones were not told: {MOST_TRIES} times another was first"

    def share(self, *, withdrawn: bool = False) -> bool:
        """Read what other clones claim, and tell them what is claimed here, where a person wants that: nothing, if
        `withdrawn`. False if another clone told of a claim at the same moment. Where the remote is away, what was read
        last counts."""
        self.unreported = ""
        if not self.store.clones.remote:
            return True
        from treadle.coordination.clones import Clones

        own = {}
        for name, fields in ({} if withdrawn else self.store.own()).items():
            claim = self._load(name)
            if claim is not None and self.is_active(claim):
                # Whether its holder still lives is not seen elsewhere: that we see it now is told as a renewal.
                over = self.planning.clock() >= claim.ends
                own[name] = {**fields, "heartbeat": self.planning.now()} if over else fields
        try:
            return Clones(self.planning).exchange(own)
        except TreadleError as error:
            self.unreported = f"other clones were not told: {error.message}"
            return True

    def _check_free(self, haid: str, wanted: list[Surface], task: str, shared: bool) -> None:
        """Raises Collision."""
        found = self.overlaps(haid, wanted, shared=shared, most=MOST_SHOWN)
        if not found:
            return
        texts = [surface.text for surface in wanted]
        self.waits.put(haid, texts, task, [overlap.claim.haid for overlap in found])
        self.planning.log("claim", "collision", f"{haid} {' '.join(texts)}")
        raise Collision(found)

    def _with_surfaces(
        self, held: Claim | None, haid: str, texts: list[str], task: str, ttl: int, shared: bool, fence: int
    ) -> dict[str, Any]:
        """The fields of a claim with these surfaces added."""
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
        return {**(held.fields if held else {}), **fields, **summed(parts)}

    def release(
        self, caller: str, haid: str = "", surfaces: Sequence[str] = (), *, force: bool = False, reason: str = ""
    ) -> Released | None:
        """Give up these surfaces, or all; None when nothing was held. Another's claim only by force, with a reason."""
        haid = haid or caller
        with self.lock():
            self.agents.require(caller)
            claim = self._load(claim_name(haid))
            if claim is None and any(one.haid == haid and one.fields.get("elsewhere") for one in self.active()):
                raise Denied(f"{haid} has claimed this in another clone", hint="it is released there, or expires")
            if claim is not None and not owns(caller, haid):
                if not force or not reason.strip():
                    raise Denied(
                        f"the claim of {haid} is not {caller}'s to release",
                        hint="ask its holder, or wait until it expires (a person: --force with a reason)",
                    )
                from treadle.coordination import capsules

                capsules.append(
                    self.planning,
                    f"forced release of {haid}",
                    f"`{caller}` released the claim of `{haid}` (task `{claim.task}`): {reason.strip()}",
                )
            self.waits.drop(haid)
            given = self._given(claim, surfaces) if claim else []
            left = [text for text in claim.texts if text not in given] if claim else []
            if claim is not None and left:
                self._write({**claim.fields, **summed({text: claim.part(text) for text in left})})
            elif claim is not None:
                self.store.remove(os.path.basename(claim.path))
        if claim is not None:
            self.publish()
        self.planning.log("claim", "release", f"{haid} {' '.join(given)}" if claim else f"{haid} (none)")
        return Released(claim, given, left) if claim else None

    def _given(self, claim: Claim, surfaces: Sequence[str]) -> list[str]:
        if not surfaces:
            return list(claim.texts)
        given: list[str] = []
        for text in surfaces:
            asked = [Surface(one, self.top) for one in dict.fromkeys((text, resolved(text, self.top)))]
            same = [one for one in claim.texts if any(_is_same(claim, one, surface) for surface in asked)]
            if not same:
                raise NotFound(f"{claim.haid} has not claimed {text}", hint=f"it has claimed {' '.join(claim.texts)}")
            given += same
        return given

    def heartbeat(self, caller: str, haid: str = "") -> Claim:
        """Renew a claim. One that has expired is taken again, with a new fence, if no one else has taken it since."""
        haid = haid or caller
        with self.lock():
            self.agents.require(caller)
            claim = self._load(claim_name(haid))
            if claim is None:
                raise NotFound(f"{haid} has no claim", hint="it ended or was released: claim again")
            if not owns(caller, haid):
                raise Denied(f"the claim of {haid} is not {caller}'s to renew")
            if not self.is_active(claim):
                if found := self.overlaps(haid, claim.surfaces, shared=claim.shared):
                    raise Collision(found, "renew")
                fence = self._next_fence()
                claim.fields |= summed({text: {**claim.part(text), "fence": fence} for text in claim.texts})
            claim = self._renew(claim)
        self.planning.log("claim", "heartbeat", haid)
        return claim

    def prove(self, haid: str) -> str:
        """A code that only this caller has, to show that a push is the holder's. The claim has its hash."""
        code = f"heimdall={os.urandom(16).hex()}"
        with self.lock():
            self.agents.require(haid)
            claim = self.of(haid)
            if claim is None:
                raise NotFound(f"{haid} has no claim", hint="a push of unclaimed files needs no proof")
            self._write({**claim.fields, "proof": digest(code)})
        self.publish()
        return code

    def keep(self, haid: str) -> None:
        """Renew this identity's claim if part of its time has passed, because its holder was just seen at work."""
        claim = self._load(claim_name(haid))
        if claim is not None and self.planning.clock() - claim.renewed > min(claim.ttl / 4, KEEP_SECONDS):
            try:
                self.heartbeat(haid)
            except TreadleError:
                pass  # it expired and another has it, or nothing can be written: the next claim will say so

    def reap(self) -> tuple[list[Claim], list[Claim]]:
        """Remove expired claims. Returns those, and the ones that remain."""
        with self.lock():
            reaped = self._reap()
            active = self.active()
        self.planning.log("claim", "reap", f"reaped={len(reaped)} active={len(active)}")
        return reaped, active

    # Queries...

    def active(self) -> list[Claim]:
        return [claim for claim in self._all() if self.is_active(claim)]

    def listed(self, *, as_json: bool = False) -> list[str]:
        """How each active claim is shown in a list, including since when its holder has been gone."""
        if as_json:
            return [dumps(claim.as_json(), 2) for claim in self.active()]
        return [claim.listed(self.bindings.gone_since(claim.haid)) for claim in self.active()]

    def of(self, haid: str) -> Claim | None:
        """The active claim of an identity."""
        claim = self._load(claim_name(haid))
        return claim if claim is not None and self.is_active(claim) else None

    def of_others(self, own: set[str]) -> list[Claim]:
        """The active claims but these identities'. One in another clone is another's, whatever its name."""
        return [claim for claim in self.active() if claim.haid not in own or claim.fields.get("elsewhere")]

    def holds(self, haid: str) -> bool:
        """Whether it has a claim, even an expired one that can still be renewed."""
        return self._load(claim_name(haid)) is not None

    def is_active(self, claim: Claim) -> bool:
        """Whether it is still valid: until it expires, and beyond that while its holder's session is alive."""
        there = bool(claim.fields.get("elsewhere"))
        return self.planning.clock() < claim.ends or not there and self.bindings.living(claim.haid)

    def unseen(self) -> list[str]:
        """Why others' claims cannot be seen, or not all of them; empty when they can."""
        self.restore()
        found = [why] if (why := self.planning.blind()) else []
        found += self.store.clones.unread()
        return [*found, *(f"{path} is not a claim that can be read" for path in self.broken())]

    def restore(self) -> None:
        """Put back what another program did to claims of ours; decisions.md says so."""
        if not self.store.is_changed():
            return
        try:
            with self._lock():
                done = self.store.restore()
        except (StorageError, Busy):
            return  # nothing can be written here; the record counts all the same
        for what in done:
            from treadle.coordination import capsules

            capsules.append(self.planning, "claims put back", f"Not by `heimdall-claim`: {what}.")
            self.planning.log("claim", "restore", what)

    def broken(self) -> list[str]:
        """Files in the claims directory that cannot be read as claims, so that what they cover is unknown."""
        paths = [os.path.join(self.directory, name) for name in self.store.names() if self._load(name) is None]
        return [path for path in paths if os.path.exists(path)]

    def without_files(self, surfaces: Sequence[str]) -> list[str]:
        """The surfaces that match no file: they may be for a new file, or misspelt."""
        return [text for text in dict.fromkeys(surfaces) if not matches_any(Surface(text, self.top), self.top)]

    def overlaps(
        self, haid: str, wanted: Iterable[Surface], *, shared: bool = False, most: int | None = None
    ) -> list[Overlap]:
        """Where others' active claims conflict with these surfaces; two shared claims never do.

        With `most`, it may stop when it has found that many.
        """
        return self.held_by_others({haid}, wanted, shared=shared, most=most)

    def held_by_others(
        self, own: set[str], wanted: Iterable[Surface], *, shared: bool = False, most: int | None = None
    ) -> list[Overlap]:
        """The same for a caller that acts under several identities."""
        others = self.of_others(own)
        found = Held(others, shared=shared).overlaps(wanted) if others else []
        return self.met(self.without_neighbours(own, found)[:most])

    def without_neighbours(self, own: set[str], found: list[Overlap]) -> list[Overlap]:
        """Without the overlaps of those who hold another symbol of a file of which this caller holds one too: both must
        be able to change the file."""
        if not any(_symbol_of(overlap) for overlap in found):
            return found
        claims = [claim for haid in own if (claim := self.of(haid))]
        mine = {surface.pattern for claim in claims for surface in claim.surfaces if surface.symbol}
        return [one for one in found if not _symbol_of(one) or Surface.of(one.asked).pattern not in mine]

    def met(self, overlaps: list[Overlap]) -> list[Overlap]:
        """The same overlaps, each with since when its holder has been gone."""
        gone = {haid: self.bindings.gone_since(haid) for haid in {overlap.claim.haid for overlap in overlaps}}
        for overlap in overlaps:
            overlap.gone = gone[overlap.claim.haid]
        return overlaps

    def surfaces_at(self, path: str, glob: bool = False) -> list[Surface]:
        """The surfaces of an absolute path in the repository: as it is written, and where its links lead.

        The coordination files belong to no one.
        """
        found = []
        for place in dict.fromkeys((os.path.normpath(path), os.path.realpath(path))):
            inside = os.path.relpath(place, self.top)
            if inside.split("/")[0] == "..":
                inside = repository.inside_other(place, self.planning.live)
            if not inside or place.startswith(self.planning.root + "/"):
                continue
            try:
                # A pattern of the shell may match directories, with all that is in them.
                texts = (inside, f"{inside}/**") if glob else ()
                found += [Surface(text, self.top) for text in texts] or [Surface.of(inside, self.top)]
            except ConfigError:
                found.append(Surface.directory("."))  # not a pattern that we can read: it may be anything
        return found

    def check(self, haid: str, surfaces: Sequence[str], *, shared: bool = False) -> list[Overlap]:
        texts = dict.fromkeys(one for text in surfaces for one in (text, resolved(text, self.top)))
        wanted = [Surface(text, self.top) for text in texts]
        found = self.overlaps(haid, wanted, shared=shared, most=MOST_SHOWN)
        self.planning.note("claim", "check", f"{haid} overlaps={len(found)} {' '.join(surfaces)}")
        return found

    def freed(self, haid: str) -> list[str]:
        """The same, reported once."""
        if free := self.free_for(haid):
            self.waits.drop(haid)
        return free

    def free_for(self, haid: str) -> list[str]:
        """What this identity has waited for and could take now."""
        mine = next((wait for wait in self.waits.all() if wait["haid"] == haid), None)
        surfaces = [Surface(text, self.top) for text in mine["surfaces"]] if mine else []
        own = self.bindings.family(haid)
        if mine is None or self.held_by_others(own, surfaces):
            return []
        return [str(text) for text in mine["surfaces"]]

    # Under the lock...

    def _reap(self) -> list[Claim]:
        """Remove expired claims. Renew those whose holder is still alive, and those with a time far in the future."""
        ended: list[Claim] = []
        now = self.planning.clock()
        for claim in self._all():
            if claim.fields.get("elsewhere"):
                continue
            if not self.is_active(claim):
                ended.append(claim)
            elif now >= claim.ends or (seconds_of(claim.fields.get("heartbeat")) or 0.0) > now + claim.ttl:
                self._renew(claim, now >= claim.ends)
        for claim in ended:
            from treadle.coordination import capsules

            capsules.append(
                self.planning,
                "auto-release (TTL/heartbeat expired)",
                f"The claim of `{claim.haid}` (task `{claim.task}`) was not renewed and is released.",
            )
            self.store.remove(os.path.basename(claim.path))
        return ended

    def _renew(self, claim: Claim, forward: bool = True) -> Claim:
        """With `forward`, a clock that is behind shortens no claim. Without it, a time far ahead becomes now."""
        now = self.planning.now()
        old = claim.fields.get("heartbeat", "")
        return self._write({**claim.fields, "heartbeat": max(now, old) if forward and seconds_of(old) else now})

    def _next_fence(self) -> int:
        path = self.planning.live_path("ledger", "fence")
        text = (read_text(path) or "").strip()
        # The file may be lost, or restored from an older copy: the next fence must exceed all that were given.
        held = max((claim.fence for claim in self._all()), default=0)
        last = max(int(text) if text.isdecimal() else 0, held, self.store.fence())
        write_text(path, f"{last + 1}\n")
        return last + 1

    def _write(self, fields: dict[str, Any], by: str | None = None, fence: int = 0) -> Claim:
        name = claim_name(fields["haid"])
        claim = Claim(fields, self.top, os.path.join(self.directory, name), self.planning.clock())
        fields["expires_at"] = claim.expires_at
        self.store.write(name, fields, fence, by, self.top if by is not None else "")
        return claim

    def _all(self) -> list[Claim]:
        found = [self._load(name) for name in self.store.names()]
        return [claim for claim in found if claim is not None]

    def _load(self, name: str) -> Claim | None:
        """The claim of this name; None when there is none, or it cannot be read as a claim."""
        try:
            fields, now = self.store.read(name), self.planning.clock()
            return None if fields is None else Claim(fields, self.top, os.path.join(self.directory, name), now)
        except (ValueError, FileNotFoundError):
            return None


def _is_same(claim: Claim, text: str, asked: Surface) -> bool:
    held = claim.surface(text)
    return text == asked.text or held is not None and held.is_same(asked)


def _symbol_of(overlap: Overlap) -> str:
    """The symbol that is held, if a whole file was asked for."""
    held = overlap.claim.surface(overlap.held)
    return held.symbol if held is not None and "#" not in overlap.asked else ""


# Who is here, what each works on, since when, and who waits for whom.


def rows(claims: Claims) -> list[dict[str, Any]]:
    """One row for each live session, and for each identity that holds or waits for something."""
    held = {claim.haid: claim for claim in claims.active()}
    waits = {wait["haid"]: wait for wait in claims.waits.all()}
    bindings = {binding.haid: binding for binding in claims.bindings.all()}
    here = {haid for haid, binding in bindings.items() if claims.bindings.living(haid)}
    found = []
    for haid in sorted(held.keys() | waits.keys() | here):
        binding, claim, wait = bindings.get(haid), held.get(haid), waits.get(haid)
        row: dict[str, Any] = {"haid": haid, "here": haid in here if binding else None}
        if binding is not None:
            row |= {
                "session": binding.key,
                "since": binding.fields.get("since", ""),
                "cwd": binding.fields.get("cwd", ""),
            }
            if haid not in here:
                row["not_connected_since"] = binding.seen
        if claim is not None:
            parts = [{"surface": text, **claim.part(text)} for text in claim.texts]
            row |= {"holds": parts, "expires_at": claim.expires_at}
        if wait is not None:
            row["waits"] = {name: wait[name] for name in ("surfaces", "task", "since", "holders")}
        row["waited_for_by"] = sorted(other["haid"] for other in waits.values() if haid in other["holders"])
        found.append(row)
    return found


def lines(found: list[dict[str, Any]]) -> list[str]:
    if not found:
        return ["(no one is here, and nothing is claimed)"]
    shown = []
    for row in found:
        place = f" in {row['cwd']}" if row.get("cwd") else ""
        state = {True: f"here since {row.get('since')}{place}", None: "no session known"}.get(
            row["here"], f"not connected since {row.get('not_connected_since')}"
        )
        shown.append(f"{row['haid']}  {state}")
        for part in row.get("holds", ()):
            shown.append(f"  holds {part['surface']} ({part['mode']}, task {part['task']}, since {part['since']})")
        if wait := row.get("waits"):
            shown.append(
                f"  waits for {' '.join(wait['surfaces'])} since {wait['since']}: {', '.join(wait['holders'])}"
            )
        if row["waited_for_by"]:
            shown.append(f"  waited for by {', '.join(row['waited_for_by'])}")
    return shown
