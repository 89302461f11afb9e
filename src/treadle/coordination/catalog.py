"""Thousands of claims, found without reading each: an index on disk of what they cover and when they end.

The files of the claims are the truth. The index is made from them, and it is right as long as the sum over all files
of a number that changes with the file is the one that the index was made for. Whoever writes a claim tells the index.
What others make, remove or put in the place of a file changes the date of the directory, and then the sum is made
again. So it is every few seconds, for what others write into a file that stays the same file. An index that cannot be
used is made anew. Few claims are read as they are, which is faster.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from contextlib import closing

from treadle.coordination.index import literal_start
from treadle.io.reading import state_number, state_numbers
from treadle.light import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3
    from typing import Any

FEW = 200
"""Up to so many claims there is no index."""
ENDING = ".json"
FORMAT = 2
_TABLES = f"""
create table files (name text primary key, seen integer, haid text, begins real, ends real, fence integer)
    without rowid;
create table surfaces (name text, start text);
create index by_start on surfaces (start);
create index by_name on surfaces (name);
create table as_text (name text primary key, begins real, ends real, shown text) without rowid;
create table as_json (name text primary key, begins real, ends real, shown text) without rowid;
create table total (seen integer, dated integer, looked real);
insert into total values (0, 0, 0);
pragma user_version = {FORMAT};
"""
TRUSTED_SECONDS = 10.0
"""For so long after every file was looked at, the date of their directory tells whether one was changed."""
_UNSETTLED = 0
"""For what was looked at so soon after a change that the next one may have the same date: it is looked at again."""
_NO_DATE = -1
_SETTLED_SECONDS = 0.02
"""Longer than the clock stands still by which a kernel dates files."""
_MASK = (1 << 63) - 1


class CatalogEntry:
    """What the index keeps of a claim: from when it counts and until when, its newest fence, and how it is listed."""

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
        """`read` gives what the index keeps of a file, and None for what is no claim."""
        self._path = path
        self._directory = directory
        self._read = read

    def ask(self, question: Callable[[CatalogRows], Any], *, few: int = FEW, look: bool = True) -> Any:
        """The answer; None where claims are few, or where there can be no index, as where nothing can be written.

        Without `look`, the index is taken as it is.
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
            except sqlite3.DatabaseError:  # it is damaged, or another version's: it is only an index
                try:
                    os.unlink(self._path)
                except OSError:
                    return None
                look = True
        return None

    def tell(self, name: str, *, current: bool) -> None:
        """A file was written or removed by whoever holds the lock of the claims: the index, if any, follows at once.

        `current`: since it has the lock, it has asked, so that the index is right in all else. Where the index cannot
        follow, its sum is not right any more, and the next question mends that.
        """
        if os.path.exists(self._path):
            self.ask(lambda rows: rows.put(name, current=current), look=False)


class CatalogRows:
    """What is in the index, while it is open."""

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
        """Whether all files were looked at within this time, and none has come, gone or been replaced since."""
        dated, looked = self._connection.execute("select dated, looked from total").fetchone()
        return bool(0 <= time.time() - looked < seconds and dated == self.directory_date())

    def directory_date(self) -> int:
        try:
            return os.stat(self._directory).st_mtime_ns
        except FileNotFoundError:
            return _NO_DATE

    def follow(self, files: dict[str, int], dated: int) -> None:
        """Bring the index up to date with the files, which were looked at when their directory had this date."""
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
                settled = dated if abs(now - dated / 1e9) > _SETTLED_SECONDS else _UNSETTLED
                self._connection.execute("update total set dated = ?, looked = ?", (settled, now))
        except sqlite3.OperationalError:
            pass  # nothing can be written here: then all files are looked at each time

    def put(self, name: str, *, current: bool) -> None:
        """Follow one file."""
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
        """Gives the change of the sum, as `_replace` does."""
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
        starts = {"/".join(literal_start(text)) for text in entry.texts}
        self._connection.executemany("insert into surfaces values (?, ?)", [(name, start) for start in starts])
        return more

    # What is asked...

    def near(self, patterns: Iterable[str]) -> list[str]:
        """The names of the claims that may cover something of these."""
        found: dict[str, None] = {}
        for names in {tuple(literal_start(pattern)) for pattern in patterns}:
            above = ["/".join(names[:count]) for count in range(len(names) + 1)]
            marks = ",".join("?" * len(above))
            query, values = f"select name from surfaces where start in ({marks})", above
            if names:
                query += " or start >= ? and start < ?"
                values = [*above, f"{above[-1]}/", f"{above[-1]}0"]  # `0` follows `/`: the range of what lies below
            else:
                query, values = "select name from surfaces", []
            found |= dict.fromkeys(name for (name,) in self._connection.execute(query, values))
        return sorted(found)

    def over(self, now: float) -> list[str]:
        """The names of the claims that ended, and of those that a clock ahead of ours wrote."""
        query = "select name from files where ends <= ? or begins > ? order by name"
        return [name for (name,) in self._connection.execute(query, (now, now))]

    def broken(self) -> list[str]:
        return [name for (name,) in self._connection.execute("select name from files where haid is null order by name")]

    def fence(self) -> int:
        return int(self._connection.execute("select max(fence) from files").fetchone()[0] or 0)

    def shown(self, now: float, *, as_json: bool) -> dict[str, str]:
        """The listing of each claim that holds by its own time, by name and in the order of names."""
        table = "as_json" if as_json else "as_text"
        query = f"select name, shown from {table} where ends > ? and begins <= ? order by name"
        return dict(self._connection.execute(query, (now, now)))


def _settled(path: str, seen: int) -> int:
    """The number to keep for a file that is read now."""
    try:
        changed = os.stat(path).st_ctime
    except FileNotFoundError:
        return _UNSETTLED
    return _UNSETTLED if abs(time.time() - changed) < _SETTLED_SECONDS else seen
