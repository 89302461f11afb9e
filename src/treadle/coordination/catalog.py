"""An index on disk of what claims cover and when they end, so that thousands of them need not be read each time.

The claims' files are authoritative, and the index is made from them. Each file has a number that changes with the file;
the index is valid while the sum of these numbers is the one that it was made for. Our own code updates the index when
it writes a claim. If another program creates, removes or replaces a file, the directory's modification time changes and
the sum is computed again. It is also computed every few seconds, in case another program writes into an existing file.
An unusable index is rebuilt. If there are few claims, they are read directly, which is faster.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from contextlib import closing

from treadle.coordination.index import literal_start
from treadle.io.reading import state_number, state_numbers
from treadle.light import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import sqlite3

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
