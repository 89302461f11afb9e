"""Thousands of claims, found without reading each: an index on disk of what they cover and when they end.

The files of the claims are the truth. The index is made from them, is brought up to date by looking at their dates and
sizes, and is made anew when it cannot be used. Few claims are read as they are, which is faster.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator

from treadle.coordination.index import literal_start
from treadle.light import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3
    from typing import Any

FEW = 200
"""Up to so many claims there is no index."""
FORMAT = 1
_TABLES = f"""
create table files (name text primary key, seen integer, haid text, begins real, ends real, fence integer,
                    as_text text, as_json text);
create table surfaces (name text, start text);
create index by_start on surfaces (start);
create index by_name on surfaces (name);
create index by_end on files (ends);
pragma user_version = {FORMAT};
"""


class CatalogEntry:
    """What the index keeps of a claim: from when it counts and until when, its newest fence, and how it is listed."""

    def __init__(self, haid: str, begins: float, ends: float, fence: int, texts: list[str], shown: tuple[str, str]):
        self.haid = haid
        self.begins = begins
        self.ends = ends
        self.fence = fence
        self.texts = texts
        self.shown = shown


def entries_of(directory: str) -> dict[str, os.DirEntry[str]]:
    """The files of claims in a directory by name."""
    try:
        with os.scandir(directory) as found:
            return {entry.name: entry for entry in found if entry.name.endswith(".json")}
    except FileNotFoundError:
        return {}


class Catalog:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @classmethod
    def open(
        cls, path: str, files: dict[str, os.DirEntry[str]] | None, read: Callable[[str], CatalogEntry | None]
    ) -> Catalog | None:
        """The index at `path`, as these files are now; None where it cannot be, as on a read-only directory.

        `read` gives what a file holds, and None for what is no claim. Without files, it is taken as it is.
        """
        import sqlite3

        for _ in range(2):
            connection = None
            try:
                connection = sqlite3.connect(path, timeout=2.0)
                made = cls(connection)
                made._prepare()
                if files is not None:
                    made._follow(files, read)
                return made
            except sqlite3.OperationalError:
                _close(connection)
                return None
            except sqlite3.DatabaseError:  # it is damaged, or another version's: it is only an index
                _close(connection)
                try:
                    os.unlink(path)
                except OSError:
                    return None
        return None

    def __enter__(self) -> Catalog:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def _prepare(self) -> None:
        (version,) = self._connection.execute("pragma user_version").fetchone()
        self._connection.execute("pragma synchronous = off")
        if version == 0:
            self._connection.executescript(f"begin immediate;{_TABLES}commit;")
        elif version != FORMAT:
            import sqlite3

            raise sqlite3.DatabaseError("another format")

    def _follow(self, files: dict[str, os.DirEntry[str]], read: Callable[[str], CatalogEntry | None]) -> None:
        """Bring the index up to date with the files."""
        known = dict(self._connection.execute("select name, seen from files"))
        now = {name: _look(entry) for name, entry in files.items()}
        gone = known.keys() - now.keys()
        changed = [name for name, seen in now.items() if known.get(name) != seen]
        if not gone and not changed:
            return
        with self._connection:
            self._connection.execute("begin immediate")
            for name in (*gone, *changed):
                self._connection.execute("delete from files where name = ?", (name,))
                self._connection.execute("delete from surfaces where name = ?", (name,))
            for name in changed:
                self._add(name, now[name], read(files[name].path))

    def _add(self, name: str, seen: int, entry: CatalogEntry | None) -> None:
        row: tuple[Any, ...] = (name, seen, None, None, None, None, None, None)
        if entry is not None:
            row = (name, seen, entry.haid, entry.begins, entry.ends, entry.fence, *entry.shown)
            starts = {"/".join(literal_start(text)) for text in entry.texts}
            self._connection.executemany("insert into surfaces values (?, ?)", [(name, start) for start in starts])
        self._connection.execute("insert or replace into files values (?, ?, ?, ?, ?, ?, ?, ?)", row)

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

    def shown(self, now: float, *, as_json: bool) -> Iterator[tuple[str, str]]:
        """Name and listing of each claim that holds by its own time."""
        query = f"select name, {'as_json' if as_json else 'as_text'} from files where ends > ? and begins <= ?"
        yield from self._connection.execute(query, (now, now))


def _look(entry: os.DirEntry[str]) -> int:
    """What changes when the file does, as one number."""
    found = entry.stat()
    return hash((found.st_mtime_ns, found.st_size, found.st_ino))


def _close(connection: sqlite3.Connection | None) -> None:
    if connection is not None:
        connection.close()
