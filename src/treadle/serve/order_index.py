"""All orders, in a form that can be filtered and counted, and where the events of their runs are.

A SQLite file beside the fleet's other files, fed from the engine's two streams. It is only a copy: a file that is
lost, damaged, or of another fleet or format is rebuilt from the first message on.

    index = OrderIndex(path, fleet="the identity of its streams")
    index.take_state(entries)                      # each with the position that the next reader continues from
    found = index.orders(OrderFilter(states=("failed",)), count=50)
"""

import os
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from treadle.errors import StorageError
from treadle.fleet.engine.bus import EVENTS, STATE, Bus, Entry
from treadle.fleet.orders import begun, encode, read_answer, read_order, read_spec
from treadle.serve.order_rows import Chunk, Listed, OrderFilter, OrderRow, row_of
from treadle.wire.fleet import keys
from treadle.wire.fleet.records import AnswerRecord, AskRecord


def is_error(event: dict[str, Any]) -> bool:
    kind = event.get("type")
    return (
        kind == "failed"
        or (kind == "tool_ended" and event.get("ok", True) is False)
        or (kind == "command_run" and event.get("exit_code") not in (0, None))
        or (kind == "turn_ended" and event.get("outcome") == "failed")
    )


FORMAT = 7
LATEST = 2000
"""How many orders are looked at for values to choose from."""
FACETS = ("state", "agent", "project", "node", "needs")
FILTERED = ("words", "state", "agent", "project", "place", "node", "needs", "labels")
"""Columns by which orders are filtered. They are all in one index, so that looking for a text, which must look at every
order, reads that and not the orders themselves."""
COUNTED = FACETS
"""Columns by which orders are counted as they change, so that counting need not read all of them."""


SUMMED = ("tokens", "usd", "retries", "lost", "waited", "started", "ran", "runs")
"""Columns that are summed as they change, over all orders; and what they used, by the hour of their last change."""


def _count(which: str, step: int) -> str:
    values = ", ".join(f"{which}.{name}" for name in COUNTED)
    sums = ", ".join(f"{name} = {name} + {step} * {which}.{name}" for name in SUMMED)
    hour = f"CAST({which}.changed / 3600 AS INTEGER)"
    return f"""INSERT INTO counts VALUES ({values}, {step}) ON CONFLICT DO UPDATE SET n = n + {step};
      UPDATE sums SET {sums};
      INSERT INTO hours VALUES ({hour}, {step} * {which}.usd, {step} * {which}.tokens, {step}) ON CONFLICT DO UPDATE
        SET usd = usd + excluded.usd, tokens = tokens + excluded.tokens, n = n + {step};"""


_SCHEMA = f"""
CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE orders (id TEXT PRIMARY KEY, revision INTEGER, state TEXT, agent TEXT, project TEXT, place TEXT,
  node TEXT, title TEXT, labels TEXT, needs TEXT, changed REAL, words TEXT, row BLOB,
  {", ".join(SUMMED)}) WITHOUT ROWID;
CREATE INDEX orders_by_revision ON orders (revision, {", ".join(FILTERED)});
CREATE INDEX orders_by_state ON orders (state, revision);
CREATE TABLE counts ({", ".join(COUNTED)}, n INTEGER, PRIMARY KEY ({", ".join(COUNTED)})) WITHOUT ROWID;
CREATE TABLE sums ({", ".join(SUMMED)});
INSERT INTO sums VALUES ({", ".join("0" * len(SUMMED))});
CREATE TABLE hours (hour INTEGER PRIMARY KEY, usd, tokens, n INTEGER);
CREATE TRIGGER orders_added AFTER INSERT ON orders BEGIN {_count("new", 1)} END;
CREATE TRIGGER orders_changed AFTER UPDATE ON orders BEGIN {_count("old", -1)} {_count("new", 1)} END;
CREATE TRIGGER orders_removed AFTER DELETE ON orders BEGIN {_count("old", -1)} END;
CREATE INDEX orders_by_needs ON orders (needs, revision) WHERE needs != '';
CREATE TABLE asks (key TEXT PRIMARY KEY, body BLOB, answer BLOB) WITHOUT ROWID;
CREATE TABLE chunks (seq INTEGER PRIMARY KEY, of TEXT, attempt INTEGER, first INTEGER, count INTEGER);
CREATE INDEX chunks_by_order ON chunks (of, seq);
CREATE TABLE errors (of TEXT, seq INTEGER, n INTEGER, PRIMARY KEY (of, seq, n)) WITHOUT ROWID;
"""


_rows = msgspec.json.Decoder(OrderRow)


class OrderIndex:
    def __init__(self, path: str, fleet: str) -> None:
        self.path = path
        self._lock = threading.Lock()
        """One connection for all threads: a transaction must not get another thread's statements in between."""
        self._db = self._open(fleet)

    def _open(self, fleet: str) -> sqlite3.Connection:
        for anew in (False, True):
            if anew:
                _forget(self.path)
            with suppress(sqlite3.DatabaseError), ExitStack() as unusable:
                db = sqlite3.connect(self.path, timeout=10.0, isolation_level=None, check_same_thread=False)
                unusable.callback(db.close)
                if self.path != ":memory:":
                    os.chmod(self.path, 0o600)
                db.execute("PRAGMA journal_mode = WAL")
                db.execute("PRAGMA synchronous = OFF")  # a power cut may damage the file; then it is rebuilt
                if _belongs(db, fleet):
                    unusable.pop_all()
                    return db
        raise StorageError(f"the index {self.path} cannot be made", hint="is the disk full?")

    def close(self) -> None:
        with self._lock:
            self._db.close()

    # Feeding it...

    @property
    def state_at(self) -> int:
        """The revision from which the state must be read."""
        return int(self._meta("state_at", 1))

    @property
    def events_at(self) -> int:
        return int(self._meta("events_at", 1))

    def take_state(self, entries: Sequence[Entry]) -> list[OrderRow]:
        """Take in changes of `order.*`, `spec.*`, `ask.>` and `answer.>`, and return the rows that they changed.

        An entry without a value means that the key was removed; removing a `spec` removes the whole order.
        """
        changed: dict[str, OrderRow] = {}
        removed: list[str] = []
        with self._writing() as db:
            at = self._cursor(db, "state_at")
            for entry in entries:
                if entry.revision < at:
                    continue
                kind, _, name = entry.key.partition(".")
                if not entry.value:
                    removed += [name] if kind == "spec" else []
                elif kind == "order":
                    row = row_of(read_order(entry), entry.revision)
                    changed[row.id] = row
                    _put(db, row)
                elif kind == "spec":
                    if (new := _take_spec(db, entry, name)) is not None:
                        changed[new.id] = new
                elif kind == "ask":
                    db.execute(
                        "INSERT INTO asks (key, body) VALUES (?, ?) "
                        "ON CONFLICT (key) DO UPDATE SET body = excluded.body",
                        (name, entry.value),
                    )
                elif kind == "answer":
                    db.execute(
                        "INSERT INTO asks (key, answer) VALUES (?, ?) "
                        "ON CONFLICT (key) DO UPDATE SET answer = excluded.answer",
                        (name, entry.value),
                    )
            _remove(db, removed)
            if entries:
                _set(db, "state_at", max(at, entries[-1].revision + 1))
        return [row for name, row in changed.items() if name not in removed]

    def take_events(self, messages: Iterable[tuple[str, int, bytes]]) -> None:
        """Take in messages of the event stream: subject, sequence, body."""
        with self._writing() as db:
            at = self._cursor(db, "events_at")
            last = at - 1
            for subject, seq, data in messages:
                if seq < at:
                    continue
                last = seq
                _, _, order, attempt, _ = subject.split(".", 4)
                body = msgspec.json.decode(data)
                events = body.get("events", [])
                db.execute(
                    "INSERT OR REPLACE INTO chunks VALUES (?, ?, ?, ?, ?)",
                    (seq, order, int(attempt), body.get("n", 0), len(events)),
                )
                for number, event in enumerate(events, body.get("n", 1)):
                    if is_error(event):
                        db.execute("INSERT OR IGNORE INTO errors VALUES (?, ?, ?)", (order, seq, number))
            _set(db, "events_at", last + 1)

    # Asking it...

    def orders(self, wanted: OrderFilter, *, count: int, before: int | None = None, facets: bool = False) -> Listed:
        where, values = _where(wanted)
        with self._reading() as db:
            table = _counts(db, wanted)
            total = _total(db, table, wanted)
            more = where + (" AND " if where else "WHERE ") + "revision < ?" if before is not None else where
            bound = [*values, before] if before is not None else values
            found = db.execute(_rows_at(more), [*bound, count + 1, 0]).fetchall() if total else []
            rest = 0
            rows = [_rows.decode(data) for (data,) in found[:count]]
            if len(found) > count and before is None:
                rest = total - count
            elif len(found) > count:
                last = rows[-1].revision
                tail = where + (" AND " if where else "WHERE ") + "revision < ?"
                (rest,) = db.execute(f"SELECT count(*) FROM orders {tail}", [*values, last]).fetchone()
            counts = {name: _facet(db, table, wanted, name) for name in FACETS} if facets else {}
        return Listed(
            orders=rows, total=total, left_out=rest, next=rows[-1].revision if rest and rows else None, facets=counts
        )

    def window(self, wanted: OrderFilter, offset: int, count: int) -> list[OrderRow]:
        """Rows by their position in the list, for a table that is scrolled."""
        where, values = _where(wanted)
        with self._reading() as db:
            return [_rows.decode(data) for (data,) in db.execute(_rows_at(where), [*values, count, offset])]

    def values(self, column: Literal["place", "project"], most: int) -> list[str]:
        """What orders have in this column, the values of the latest orders first."""
        # Among the latest orders only: to find every value, each order would be read.
        latest = f"SELECT {column} AS value, revision FROM orders ORDER BY revision DESC LIMIT {LATEST}"
        query = f"SELECT value FROM ({latest}) WHERE value != '' GROUP BY 1 ORDER BY max(revision) DESC LIMIT ?"
        with self._reading() as db:
            return [value for (value,) in db.execute(query, (most,))]

    def counts(self) -> dict[str, int]:
        with self._reading() as db:
            return dict(db.execute("SELECT state, sum(n) FROM counts GROUP BY state HAVING sum(n) > 0"))

    def spent(self, hours: int = 168) -> list[dict[str, Any]]:
        """What orders used, by the hour in which they last changed."""
        query = "SELECT hour * 3600.0, usd, tokens, n FROM hours WHERE hour > ? AND n > 0 ORDER BY hour"
        with self._reading() as db:
            found = db.execute(query, (time.time() / 3600 - hours,)).fetchall()
        return [{"hour": hour, "usd": usd, "tokens": tokens, "orders": count} for hour, usd, tokens, count in found]

    def totals(self) -> dict[str, float]:
        """Sums over all orders, for figures that only grow."""
        with self._reading() as db:
            found = db.execute(f"SELECT {', '.join(SUMMED)} FROM sums").fetchone()
        return {name: float(value) for name, value in zip(SUMMED, found, strict=True)}

    def row(self, name: str) -> OrderRow | None:
        with self._reading() as db:
            found = db.execute("SELECT row FROM orders WHERE id = ?", (name,)).fetchone()
        return _rows.decode(found[0]) if found else None

    def ask(self, key: str) -> tuple[AskRecord, AnswerRecord | None] | None:
        """A question, with its answer if it has one."""
        with self._reading() as db:
            found = db.execute("SELECT body, answer FROM asks WHERE key = ?", (key,)).fetchone()
        if not found or found[0] is None:
            return None
        answer: AnswerRecord | None = None if found[1] is None else read_answer(found[1], keys.ANSWER(key))
        given = answer if answer is not None and answer.stands else None
        return keys.ASK.read(found[0], keys.ASK(key)), given

    def chunks(self, order: str, *, before: int | None = None, after: int = 0, most: int = 100) -> list[Chunk]:
        """Where an order's events are: the last chunks before a position, or the first after one; earliest first."""
        with self._reading() as db:
            if before is not None or not after:
                query = (
                    "SELECT seq, attempt, first, count FROM chunks WHERE of = ? AND seq < ? ORDER BY seq DESC LIMIT ?"
                )
                limit = 1 << 62 if before is None else before
                found = db.execute(query, (order, limit, most)).fetchall()[::-1]
            else:
                query = "SELECT seq, attempt, first, count FROM chunks WHERE of = ? AND seq > ? ORDER BY seq LIMIT ?"
                found = db.execute(query, (order, after, most)).fetchall()
        return [Chunk(seq=seq, attempt=attempt, first=first, count=count) for seq, attempt, first, count in found]

    def event_count(self, order: str) -> int:
        with self._reading() as db:
            return int(db.execute("SELECT coalesce(sum(count), 0) FROM chunks WHERE of = ?", (order,)).fetchone()[0])

    def first_error(self, order: str) -> tuple[int, int] | None:
        with self._reading() as db:
            found = db.execute("SELECT seq, n FROM errors WHERE of = ? ORDER BY seq, n LIMIT 1", (order,)).fetchone()
        return (found[0], found[1]) if found else None

    def _meta(self, name: str, default: int) -> Any:
        with self._reading() as db:
            return self._cursor(db, name, default)

    def _cursor(self, db: sqlite3.Connection, name: str, default: int = 1) -> int:
        found = db.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return int(found[0]) if found else default

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                yield self._db
            except sqlite3.Error as error:
                raise StorageError(f"the index {self.path} cannot be read: {error}") from error

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction, also across processes, since a command may feed the same file."""
        with self._reading() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
            except BaseException:
                db.execute("ROLLBACK")
                raise
            db.execute("COMMIT")


# The index's file.


def _belongs(db: sqlite3.Connection, fleet: str) -> bool:
    tables = db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if not tables:
        db.executescript("BEGIN;" + _SCHEMA + "COMMIT;")
        _set(db, "fleet", f"{FORMAT} {fleet}")
    found = db.execute("SELECT value FROM meta WHERE name = 'fleet'").fetchone()
    return bool(found) and found[0] == f"{FORMAT} {fleet}"


def _forget(path: str) -> None:
    for end in ("", "-wal", "-shm"):
        try:
            os.unlink(path + end)
        except FileNotFoundError:
            pass


def _set(db: sqlite3.Connection, name: str, value: Any) -> None:
    db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))


def _remove(db: sqlite3.Connection, names: list[str]) -> None:
    if not names:
        return
    every = msgspec.json.encode(names).decode()
    for table, column in (("orders", "id"), ("chunks", "of"), ("errors", "of")):
        db.execute(f"DELETE FROM {table} WHERE {column} IN (SELECT value FROM json_each(?))", (every,))
    for name in names:
        db.execute("DELETE FROM asks WHERE key >= ? AND key < ?", (f"{name}.", f"{name}/"))


def _put(db: sqlite3.Connection, row: OrderRow) -> None:
    values = {
        **{
            name: getattr(row, name)
            for name in "id revision state agent project place node title needs changed".split()
        },
        **{name: getattr(row, name) for name in ("tokens", "lost", "ran", "runs")},
        "labels": "".join(f"\n{label}\n" for label in row.labels),
        "words": f"{row.title} {row.id}".lower(),
        "row": encode(row),
        "usd": row.usd or 0.0,
        "retries": max(0, row.attempt - 1),
        "waited": max(0.0, row.started - row.created) if row.started else 0.0,
        "started": int(row.started > 0),
    }
    places, changed = ", ".join("?" * len(values)), ", ".join(f"{name} = excluded.{name}" for name in values)
    query = f"INSERT INTO orders ({', '.join(values)}) VALUES ({places}) ON CONFLICT (id) DO UPDATE SET {changed}"
    db.execute(query, tuple(values.values()))


def _take_spec(db: sqlite3.Connection, entry: Entry, name: str) -> OrderRow | None:
    try:
        spec = read_spec(entry.value)
    except StorageError:
        return None  # the scheduler says so in the order
    if db.execute("SELECT 1 FROM orders WHERE id = ?", (name,)).fetchone():
        return None
    row = row_of(begun(spec, time.time()), entry.revision)
    _put(db, row)
    return row


def _rows_at(where: str) -> str:
    """Rows by their position, latest first: found and skipped in the narrow index, and only then read whole."""
    place = f"SELECT id FROM orders {where} ORDER BY revision DESC LIMIT ? OFFSET ?"
    return f"SELECT row FROM orders WHERE id IN ({place}) ORDER BY revision DESC"


def _where(wanted: OrderFilter) -> tuple[str, list[Any]]:
    parts: list[str] = []
    values: list[Any] = []
    named = [
        (name, value) for name in ("agent", "project", "place", "node", "needs") if (value := getattr(wanted, name))
    ]
    if wanted.states:
        # The index by state finds all of a state first, perhaps every order. With a `+` it is not used.
        alone = "" if not (named or wanted.label or wanted.text) else "+"
        parts.append(f"{alone}state IN ({', '.join('?' * len(wanted.states))})")
        values += wanted.states
    for name, value in named:
        parts.append(f"{name} = ?")
        values.append(value)
    if wanted.needs:
        parts.append("needs != ''")  # so that SQLite sees that the index of those fits
    if wanted.label:
        parts.append("instr(labels, ?) > 0")
        values.append(f"\n{wanted.label}\n")
    if wanted.text:
        parts.append("instr(words, ?) > 0")
        values.append(wanted.text.lower())
    return ("WHERE " + " AND ".join(parts) if parts else ""), values


def _counts(db: sqlite3.Connection, wanted: OrderFilter) -> str:
    """The table of counts by combination. Reads every order only when a filter makes it necessary."""
    if not (wanted.place or wanted.label or wanted.text):
        return "counts"
    names = ", ".join(COUNTED)
    where, values = _where(OrderFilter(place=wanted.place, label=wanted.label, text=wanted.text))
    # Counted here: SQLite would sort them all first, which takes many times as long.
    found = Counter(db.execute(f"SELECT {names} FROM orders INDEXED BY orders_by_revision {where}", values))
    db.execute("DROP TABLE IF EXISTS temp.narrowed")
    db.execute(f"CREATE TEMP TABLE narrowed ({names}, n INTEGER)")
    db.executemany(f"INSERT INTO temp.narrowed VALUES ({'?, ' * len(COUNTED)}?)", [(*of, n) for of, n in found.items()])
    return "temp.narrowed"


def _total(db: sqlite3.Connection, table: str, wanted: OrderFilter) -> int:
    where, values = _where(replace(wanted, place="", label="", text=""))
    return int(db.execute(f"SELECT coalesce(sum(n), 0) FROM {table} {where}", values).fetchone()[0])


def _facet(db: sqlite3.Connection, table: str, wanted: OrderFilter, name: str) -> dict[str, int]:
    """How many orders each value would give without this filter, most first."""
    field: dict[str, Any] = {"states": ()} if name == "state" else {name: ""}
    where, values = _where(replace(wanted, place="", label="", text="", **field))
    query = f"""SELECT {name}, sum(n) AS many FROM {table} {where}
                GROUP BY {name} HAVING many > 0 ORDER BY many DESC LIMIT 50"""
    return {str(value): count for value, count in db.execute(query, values)}


async def streams_of(bus: Bus) -> str:
    """Identifies the streams of a fleet; streams that were removed and made again get another identity."""
    parts = []
    for stream in (STATE, EVENTS):
        info = await bus.api(f"STREAM.INFO.{stream}")
        parts.append(str(info.get("created", "")))
    return " ".join(parts)


def value_of(message: Any) -> bytes:
    """The value that a message of the state stream gives its key; empty when the key was removed."""
    removed = (message.headers or {}).get("KV-Operation")
    return b"" if removed else bytes(message.data)
