"""Claims: who may change what, for how long. One file per identity; all checks and changes happen under one lock.

A claim that is not renewed expires. Each has a fence, a number that only grows: one who accepts work under a claim
can refuse it if the holder's fence is no longer the newest for that surface.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import islice

from treadle.coordination.bindings import IdentityBindings, file_name
from treadle.coordination.claim import (
    DEFAULT_TTL_MINUTES as DEFAULT_TTL_MINUTES,
)
from treadle.coordination.claim import (
    MAX_TTL_MINUTES as MAX_TTL_MINUTES,
)
from treadle.coordination.claim import (
    MOST_SHOWN,
    Leases,
    Waits,
    inside,
    owns,
    summed,
)
from treadle.coordination.claim import (
    Claim as Claim,
)
from treadle.coordination.claim import (
    Collision as Collision,
)
from treadle.coordination.claim import (
    Held as Held,
)
from treadle.coordination.claim import (
    Overlap as Overlap,
)
from treadle.coordination.claim import (
    Released as Released,
)
from treadle.coordination.identity import Agents, human_of
from treadle.coordination.planning import Planning, read_text, seconds_of, write_text
from treadle.coordination.surfaces import Surface, literal_start, matches_any, resolved
from treadle.errors import ConfigError, Denied, NotFound, TreadleError
from treadle.io.files import state_number, state_numbers, storage_error
from treadle.light import TYPE_CHECKING, Any
from treadle.policy import patterns
from treadle.wire.common.jsontext import dumps, loads

if TYPE_CHECKING:
    import sqlite3

    from treadle.io.files import locked


# An index on disk of what claims cover and when they end, so that thousands of them need not be read each time.
#
# The claims' files are authoritative, and the index is made from them. Each file has a number that changes with the
# file; the index is valid while the sum of these numbers is the one that it was made for. Our own code updates the
# index when it writes a claim. If another program creates, removes or replaces a file, the directory's modification
# time changes and the sum is computed again. It is also computed every few seconds, in case another program writes
# into an existing file. An unusable index is rebuilt. If there are few claims, they are read directly, which is
# faster.

FEW = 200
"""Up to this many claims, there is no index."""
ENDING = ".json"
FORMAT = 3
_TABLES = f"""
create table files (name text primary key, seen integer, haid text, begins real, ends real, fence integer)
    without rowid;
create table surfaces (name text, start text, text text);
create index by_start on surfaces (start);
create index by_name on surfaces (name);
create table as_text (name text primary key, begins real, ends real, shown text) without rowid;
create table as_json (name text primary key, begins real, ends real, shown text) without rowid;
create table total (seen integer, dated integer, looked real);
insert into total values (0, 0, 0);
pragma user_version = {FORMAT};
"""
_SURFACES = "select name, case when start = text then text end from surfaces"
"""Each claim's surfaces: the text if that is just a path."""
TRUSTED_SECONDS = 10.0
"""For this many seconds after all files were checked, the directory's mtime tells whether any has changed."""
_UNSETTLED = 0
"""Marks what was read so soon after a change that the next change may have the same timestamp: it is read again."""
_NO_DATE = -1
SETTLED_SECONDS = 0.02
"""Longer than the interval at which the kernel's file timestamps advance."""
_MASK = (1 << 63) - 1
"""SQLite's integers are signed and have 64 bits: the sum of numbers is kept within them."""


class CatalogEntry:
    """What the index stores about a claim: from when until when it counts, its newest fence, and how it is listed."""

    def __init__(self, haid: str, begins: float, ends: float, fence: int, texts: list[str], shown: tuple[str, str]):
        self.haid = haid
        self.begins = begins
        self.ends = ends
        self.fence = fence
        self.texts = texts
        self.shown = shown


class Catalog:
    """The index of the claims in one directory."""

    trusted = TRUSTED_SECONDS

    def __init__(self, path: str, directory: str, read: Callable[[str], CatalogEntry | None]) -> None:
        """`read` returns what the index stores about a file, or None if it is not a claim."""
        self._path = path
        self._directory = directory
        self._read = read

    def ask(self, question: Callable[[CatalogRows], Any], *, few: int = FEW, look: bool = True) -> Any:
        """The answer; None when there are few claims, or when no index can be written.

        Without `look`, the index is used without checking the files.
        """
        if not os.path.exists(self._path) and len(state_numbers(self._directory, ENDING)) <= few:
            return None
        import sqlite3

        for _ in range(2):
            try:
                with closing(sqlite3.connect(self._path, timeout=2.0)) as connection:
                    rows = CatalogRows(connection, self._directory, self._read)
                    if look and not rows.is_fresh(self.trusted):
                        dated, files = rows.directory_date(), state_numbers(self._directory, ENDING)
                        if len(files) <= few:
                            return None
                        rows.follow(files, dated)
                    return question(rows)
            except sqlite3.OperationalError:
                return None
            except sqlite3.DatabaseError:  # it is damaged or of another version, and can simply be rebuilt
                try:
                    os.unlink(self._path)
                except OSError:
                    return None
                look = True
        return None

    def tell(self, name: str, *, current: bool) -> None:
        """Update the index, if any, after the holder of the claims' lock has written or removed a file.

        `current`: the index was used since the lock was taken, so everything else in it is right. If the update fails,
        the sum no longer matches, and the next use repairs that.
        """
        if os.path.exists(self._path):
            self.ask(lambda rows: rows.put(name, current=current), look=False)


class CatalogRows:
    """The content of the index, while it is open."""

    def __init__(
        self, connection: sqlite3.Connection, directory: str, read: Callable[[str], CatalogEntry | None]
    ) -> None:
        self._connection = connection
        self._directory = directory
        self._read = read
        self._prepare()

    def _prepare(self) -> None:
        (version,) = self._connection.execute("pragma user_version").fetchone()
        self._connection.execute("pragma synchronous = off")
        if version == 0:
            self._connection.executescript(f"begin immediate;{_TABLES}commit;")
        elif version != FORMAT:
            import sqlite3

            raise sqlite3.DatabaseError("another format")

    def is_fresh(self, seconds: float) -> bool:
        """Whether all files were checked within this time, and none was added, removed or replaced since."""
        dated, looked = self._connection.execute("select dated, looked from total").fetchone()
        return bool(0 <= time.time() - looked < seconds and dated == self.directory_date())

    def directory_date(self) -> int:
        try:
            return os.stat(self._directory).st_mtime_ns
        except FileNotFoundError:
            return _NO_DATE

    def follow(self, files: dict[str, int], dated: int) -> None:
        """Bring the index up to date with the files, which were checked when their directory had this timestamp."""
        if self._total() != sum(files.values()) & _MASK:
            known = dict(self._connection.execute("select name, seen from files"))
            changed = [name for name in sorted(files) if known.get(name) != files[name]]
            with self._connection:
                self._connection.execute("begin immediate")
                more = sum(self._drop(name) for name in known.keys() - files.keys())
                more += sum(self._replace(name, _settled(self._path(name), files[name])) for name in changed)
                self._count(more)
        import sqlite3

        now = time.time()
        try:
            with self._connection:
                settled = dated if abs(now - dated / 1e9) > SETTLED_SECONDS else _UNSETTLED
                self._connection.execute("update total set dated = ?, looked = ?", (settled, now))
        except sqlite3.OperationalError:
            pass  # read-only: all files are checked each time

    def put(self, name: str, *, current: bool) -> None:
        """Update the index for one file."""
        try:
            seen = state_number(self._path(name))
        except FileNotFoundError:
            seen = None
        with self._connection:
            self._connection.execute("begin immediate")
            self._count(self._drop(name) if seen is None else self._replace(name, seen))
            self._connection.execute("update total set dated = ?", (self.directory_date() if current else _UNSETTLED,))

    def _path(self, name: str) -> str:
        return os.path.join(self._directory, name)

    def _total(self) -> int:
        return int(self._connection.execute("select seen from total").fetchone()[0])

    def _count(self, seen: int) -> None:
        self._connection.execute("update total set seen = ?", ((self._total() + seen) & _MASK,))

    def _drop(self, name: str) -> int:
        """Returns the change of the sum, like `_replace`."""
        known = self._connection.execute("select seen from files where name = ?", (name,)).fetchone()
        if known is None:
            return 0
        for table in ("files", "surfaces", "as_text", "as_json"):
            self._connection.execute(f"delete from {table} where name = ?", (name,))
        return -int(known[0])

    def _replace(self, name: str, seen: int) -> int:
        more = self._drop(name) + seen
        entry = self._read(self._path(name))
        insert = self._connection.execute
        if entry is None:
            insert("insert into files values (?, ?, null, null, null, null)", (name, seen))
            return more
        row = (name, seen, entry.haid, entry.begins, entry.ends, entry.fence)
        insert("insert into files values (?, ?, ?, ?, ?, ?)", row)
        for table, shown in zip(("as_text", "as_json"), entry.shown, strict=True):
            insert(f"insert into {table} values (?, ?, ?, ?)", (name, entry.begins, entry.ends, shown))
        starts = [(name, "/".join(literal_start(text)), text) for text in entry.texts]
        self._connection.executemany("insert into surfaces values (?, ?, ?)", starts)
        return more

    # Queries...

    def near(self, patterns: Iterable[str], free: Callable[[str], bool] = lambda path: False) -> list[str]:
        """The names of the claims that may cover something that these patterns cover.

        `free`: whether a claim of just this path certainly covers nothing of them.
        """
        found: dict[str, None] = {}
        for names in {tuple(literal_start(pattern)) for pattern in patterns}:
            above = ["/".join(names[:count]) for count in range(len(names) + 1)]
            marks = ",".join("?" * len(above))
            query, values = f"{_SURFACES} where start in ({marks})", above
            if names:
                query += " or start >= ? and start < ?"
                values = [*above, f"{above[-1]}/", f"{above[-1]}0"]  # `0` follows `/`: the range of what lies below
            else:
                query, values = _SURFACES, []
            rows = self._connection.execute(query, values)
            found |= dict.fromkeys(name for name, path in rows if path is None or not free(path))
        return sorted(found)

    def over(self, now: float) -> list[str]:
        """The names of the claims that have ended, and of those written by a clock ahead of ours."""
        query = "select name from files where ends <= ? or begins > ? order by name"
        return [name for (name,) in self._connection.execute(query, (now, now))]

    def broken(self) -> list[str]:
        return [name for (name,) in self._connection.execute("select name from files where haid is null order by name")]

    def fence(self) -> int:
        return int(self._connection.execute("select max(fence) from files").fetchone()[0] or 0)

    def shown(self, now: float, *, as_json: bool) -> dict[str, str]:
        """How each claim that is valid by its own times is listed, by name, in the order of names."""
        table = "as_json" if as_json else "as_text"
        query = f"select name, shown from {table} where ends > ? and begins <= ? order by name"
        return dict(self._connection.execute(query, (now, now)))


def _settled(path: str, seen: int) -> int:
    """The number to store for a file that is read now."""
    try:
        changed = os.stat(path).st_ctime
    except FileNotFoundError:
        return _UNSETTLED
    return _UNSETTLED if abs(time.time() - changed) < SETTLED_SECONDS else seen


FEW_WANTED = 8
"""For more surfaces than this, it costs less to look at each claim nearby."""
KEEP_SECONDS = 300.0
"""The claim of a holder that is seen at work is renewed at most this often."""


class Claims:
    few = FEW
    """Up to this many claims are read directly; for more there is an index."""

    def __init__(self, planning: Planning, top: str = "", *, once: bool = False) -> None:
        """`once`: for a command that asks several things and then ends: it reads the files only once."""
        self.planning = planning
        self._once = once
        self._many: bool | None = None
        """Whether there are many claims; known after the index was used under the current lock."""
        self.top = top or os.path.dirname(planning.root)
        """The directory that surfaces are relative to, to tell files from directories."""
        self.directory = planning.claims
        self.catalog = Catalog(planning.live_path("claims.index"), self.directory, self._entry)
        self.agents = Agents(planning)
        self.bindings = IdentityBindings(planning, "")
        self.waits = Waits(planning)
        self.leases = Leases(planning, self.top)

    def lock(self) -> locked:
        """Held around every check that something depends on, and around writes that a claim allows."""
        self._many = None
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
        # The check is made before the lock is taken, and again under it only if a claim has changed since.
        self.agents.require(haid)
        dated = self._dated()
        free = self._check_free(haid, wanted, task, shared)
        with self.lock():
            self.agents.require(haid)
            unchanged = dated is not None and dated == self._dated()
            self._reap()
            if not (free and unchanged):
                self._check_free(haid, wanted, task, shared, reaped=True)
            texts = [surface.text for surface in wanted]
            claim = self._write(self._with_surfaces(self.of(haid), haid, texts, task, ttl, shared, self._next_fence()))
            self.waits.drop(haid)
        self.planning.log("claim", "claim", f"{haid} task={task} {' '.join(texts)}")
        return claim

    def _check_free(self, haid: str, wanted: list[Surface], task: str, shared: bool, *, reaped: bool = False) -> bool:
        """Raises Collision. False if the claim of a living holder has to be renewed first, which `reaped` has done."""
        found = self.overlaps(haid, wanted, shared=shared, most=MOST_SHOWN)
        if not found and not shared and self.bindings.of(haid) is not None:  # a person's claim is stronger than a lease
            found, reaped = self.leases.overlaps(self.bindings.family(haid), wanted, None), True
        if not found:
            return True
        now = self.planning.clock()
        if not reaped and any(overlap.claim.ends <= now for overlap in found):
            return False
        texts = [surface.text for surface in wanted]
        self.waits.put(haid, texts, task, [overlap.claim.haid for overlap in found])
        self.planning.log("claim", "collision", f"{haid} {' '.join(texts)}")
        raise Collision(found)

    def _dated(self) -> int | None:
        """When a claim was last added, replaced or removed; None if the next such change may get the same date."""
        try:
            dated = os.stat(self.directory).st_mtime_ns
        except FileNotFoundError:
            return None
        return dated if abs(time.time() - dated / 1e9) > SETTLED_SECONDS else None

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
            claim = self._load(self._path(haid))
            if claim is not None and not owns(caller, haid):
                if not force or not reason.strip():
                    raise Denied(
                        f"the claim of {haid} is not {caller}'s to release",
                        hint="ask its holder, or wait until it ends (a person: heimdall-claim --help)",
                    )
                from treadle.coordination import capsules

                capsules.append(
                    self.planning,
                    f"forced release of {haid}",
                    f"`{caller}` released the claim of `{haid}` (task `{claim.task}`): {reason.strip()}",
                )
            self.waits.drop(haid)
            if not surfaces:
                self.leases.drop(haid)
            given = self._given(claim, surfaces) if claim else []
            left = [text for text in claim.texts if text not in given] if claim else []
            if claim is not None and left:
                self._write({**claim.fields, **summed({text: claim.part(text) for text in left})})
            elif claim is not None:
                self._remove(claim)
                self.catalog.tell(os.path.basename(claim.path), current=self._many is True)
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
                raise NotFound(f"{claim.haid} does not hold {text}", hint=f"it holds {' '.join(claim.texts)}")
            given += same
        return given

    def heartbeat(self, caller: str, haid: str = "") -> Claim:
        """Renew a claim. One that has expired is taken again, with a new fence, if no one else has taken it since."""
        haid = haid or caller
        with self.lock():
            self.agents.require(caller)
            claim = self._load(self._path(haid))
            if claim is None:
                raise NotFound(f"{haid} holds no claim", hint="it ended or was released: claim again")
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

    def keep(self, haid: str) -> None:
        """Renew this identity's claim if part of its time has passed, because its holder was just seen at work."""
        claim = self._load(self._path(haid))
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

    def near(self, wanted: Sequence[Surface]) -> Iterator[Claim]:
        """The active claims that may cover something of these, each read when it is asked for."""
        names = self._ask(lambda rows: rows.near([one.pattern for one in wanted], self._free(wanted)))
        found = self._all() if names is None else (self._load(os.path.join(self.directory, name)) for name in names)
        yield from (claim for claim in found if claim is not None and self.is_active(claim))

    def _free(self, wanted: Sequence[Surface]) -> Callable[[str], bool]:
        """Whether none of these can cover a held path or, unless it is a file, anything under it."""
        if len(wanted) > FEW_WANTED:
            return lambda path: False
        asked = [(one.pattern, patterns.parse(one.pattern).regex.fullmatch) for one in wanted]

        def free(path: str) -> bool:
            if any(covers(path) for _, covers in asked):
                return False
            return os.path.isfile(f"{self.top}/{path}") or not any(
                patterns.meets_path(pattern, path) for pattern, _ in asked
            )

        return free

    def listed(self, *, as_json: bool = False) -> list[str]:
        """How each active claim is shown in a list, including since when its holder has been gone."""
        now = self.planning.clock()
        found = self._ask(lambda rows: (rows.shown(now, as_json=as_json), rows.over(now)))
        if found is None:
            return [self._shown(claim)[as_json] for claim in self.active()]
        shown, over = found
        unsure = {*(self.bindings.names() & shown.keys()), *over}
        for name in unsure:
            claim = self._load(os.path.join(self.directory, name))
            shown[name] = self._shown(claim)[as_json] if claim is not None and self.is_active(claim) else ""
        return [shown[name] for name in sorted(shown) if shown[name]] if unsure else list(shown.values())

    def _shown(self, claim: Claim) -> tuple[str, str]:
        return claim.listed(self.bindings.gone_since(claim.haid)), dumps(claim.as_json(), 2)

    def of(self, haid: str) -> Claim | None:
        """The active claim of an identity."""
        claim = self._load(self._path(haid))
        return claim if claim is not None and self.is_active(claim) else None

    def holds(self, haid: str) -> bool:
        """Whether it has a claim, even an expired one that can still be renewed."""
        return self._load(self._path(haid)) is not None

    def is_active(self, claim: Claim) -> bool:
        """Whether it is still valid: until it expires, and beyond that while its holder's session is alive."""
        return self.planning.clock() < claim.ends or self.bindings.living(claim.haid)

    def unseen(self) -> list[str]:
        """Why others' claims cannot be seen, or not all of them; empty when they can."""
        found = [why] if (why := self.planning.blind()) else []
        return [*found, *(f"{path} is not a claim that can be read" for path in self.broken())]

    def broken(self) -> list[str]:
        """Files in the claims directory that cannot be read as claims, so that what they cover is unknown."""
        names = self._ask(CatalogRows.broken)
        if names is None:
            return [path for path in self._paths() if self._load(path) is None and os.path.exists(path)]
        return [os.path.join(self.directory, name) for name in names]

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
        surfaces = list(wanted)
        others = (claim for claim in self.near(surfaces) if claim.haid not in own)
        found: list[Overlap] = []
        while (most is None or len(found) < most) and (some := list(islice(others, most))):
            found += self.without_neighbours(own, Held(some, shared=shared).overlaps(surfaces))
        return self.met(found[:most])

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
            if inside.split("/")[0] == ".." or place.startswith(self.planning.root + "/"):
                continue
            try:
                found.append(Surface(inside, self.top) if glob else Surface.of(inside, self.top))
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
        if mine is None or self.held_by_others(own, surfaces) or self.leases.overlaps(own, surfaces, None):
            return []
        return [str(text) for text in mine["surfaces"]]

    # Under the lock...

    def _reap(self) -> list[Claim]:
        """Remove expired claims. Renew those whose holder is still alive, and those with a time far in the future."""
        ended: list[Claim] = []
        now = self.planning.clock()
        for claim in self._expired_or_early(now):
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
            self._remove(claim)
        if ended:
            self._many = None  # the index will catch up with all of them at once
        return ended

    def _expired_or_early(self, now: float) -> list[Claim]:
        """The claims that have expired or not begun yet; all claims if they are few."""
        names = self._ask(lambda rows: rows.over(now))
        if names is None:
            return self._all()
        return [c for name in names if (c := self._load(os.path.join(self.directory, name))) is not None]

    def _ask(self, question: Callable[[CatalogRows], Any]) -> Any:
        """What the index of many claims answers; None if they are few, or if there can be no index."""
        if self._once and self._many is False:
            return None
        found = self.catalog.ask(question, few=self.few, look=not self._once or self._many is None)
        self._many = found is not None
        return found

    def _entry(self, path: str) -> CatalogEntry | None:
        claim = self._load(path)
        if claim is None:
            return None
        begins = seconds_of(claim.fields.get("heartbeat")) or 0.0
        shown = (claim.listed(), dumps(claim.as_json(), 2))
        return CatalogEntry(claim.haid, begins, claim.ends, claim.fence, claim.texts, shown)

    def _renew(self, claim: Claim, forward: bool = True) -> Claim:
        """With `forward`, a clock that is behind shortens no claim. Without it, a time far ahead becomes now."""
        now = self.planning.now()
        old = claim.fields.get("heartbeat", "")
        return self._write({**claim.fields, "heartbeat": max(now, old) if forward and seconds_of(old) else now})

    def _next_fence(self) -> int:
        path = self.planning.live_path("ledger", "fence")
        text = (read_text(path) or "").strip()
        # The file may be lost, or restored from an older copy: the next fence must exceed all that are held.
        held: int | None = self._ask(CatalogRows.fence)
        if held is None:
            held = max((claim.fence for claim in self._all()), default=0)
        last = max(int(text) if text.isdecimal() else 0, held)
        write_text(path, f"{last + 1}\n")
        return last + 1

    def _write(self, fields: dict[str, Any]) -> Claim:
        claim = Claim(fields, self.top, self._path(fields["haid"]), self.planning.clock())
        fields["expires_at"] = claim.expires_at
        write_text(claim.path, dumps(fields, 2) + "\n")
        self.catalog.tell(os.path.basename(claim.path), current=self._many is True)
        return claim

    def _remove(self, claim: Claim) -> None:
        try:
            os.unlink(claim.path)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise storage_error(error, claim.path, "remove") from error

    def _path(self, haid: str) -> str:
        return os.path.join(self.directory, file_name(haid) + ENDING)

    def _paths(self) -> list[str]:
        try:
            names = sorted(os.listdir(self.directory))
        except FileNotFoundError:
            return []
        return [os.path.join(self.directory, name) for name in names if name.endswith(ENDING)]

    def _all(self) -> list[Claim]:
        found = [self._load(path) for path in self._paths()]
        return [claim for claim in found if claim is not None]

    def _load(self, path: str) -> Claim | None:
        """The claim in a file; None when there is no file, or it cannot be read as a claim."""
        try:
            text = read_text(path)
            return None if text is None else Claim(loads(text), self.top, path, self._latest(path))
        except (ValueError, FileNotFoundError):
            return None

    def _latest(self, path: str) -> float:
        """The latest time at which a claim can have been renewed, which is when its file was last written."""
        now = self.planning.clock()
        return min(now, os.stat(path).st_mtime + 1) if self.planning.clock is time.time else now


def _is_same(claim: Claim, text: str, asked: Surface) -> bool:
    held = claim.surface(text)
    return text == asked.text or held is not None and held.is_same(asked)


def _symbol_of(overlap: Overlap) -> str:
    """The symbol that is held, if a whole file was asked for."""
    held = overlap.claim.surface(overlap.held)
    return held.symbol if held is not None and "#" not in overlap.asked else ""
