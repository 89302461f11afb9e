"""The identity of each agent session, the same whether it acts through MCP, a hook, a command in its shell or git.

A seat is a file that says which agent process and which session an identity belongs to, with a lock that the MCP server
holds while its client is connected. If the server dies, the kernel frees the lock. Two live sessions of one program
have two identities; one session has one identity everywhere.
"""

import os
from collections.abc import Callable, Iterable, Sequence

from treadle.coordination import origin
from treadle.coordination.identity import root_of, slug
from treadle.coordination.planning import Planning, make_dirs, read_text, timestamp, write_text
from treadle.errors import Busy, LimitReached, StorageError
from treadle.io.files import is_locked, locked
from treadle.io.process import table
from treadle.light import Any
from treadle.wire.common.jsontext import dumps, loads

MAX_SEATS = 256
GONE_SECONDS = 7 * 24 * 3600
"""A session that ended and holds nothing is remembered for this long."""


class Seat:
    __slots__ = ("fields", "haid", "key", "name", "of", "path", "process")

    def __init__(self, fields: dict[str, Any], path: str) -> None:
        self.fields = fields
        self.path = path
        self.haid = str(fields["haid"])
        self.name = str(fields.get("name", ""))
        self.key = str(fields.get("session", ""))
        """The session, as `claude:ID`; empty if the program does not name one."""
        self.of = str(fields.get("of", ""))
        """For a sub-agent, the identity of the session it belongs to."""
        pid, start = fields.get("pid"), fields.get("start")
        self.process = (pid, start) if isinstance(pid, int) and isinstance(start, int) else None

    @property
    def seen(self) -> str:
        return str(self.fields.get("left") or self.fields.get("seen") or "")


class Seats:
    """The register, and the seats that this connection has taken, by the name that the client gave."""

    def __init__(self, planning: Planning, root: str, *, remote: bool = False) -> None:
        """`remote`: the client did not start us, so our parent and our environment say nothing about it."""
        self.planning = planning
        self.root = root_of(root)
        self.remote = remote
        self.directory = planning.live_path("seats")
        self._taken: dict[str, tuple[str, locked | None]] = {}

    # One connection...

    def haid(self, client: str, key: str = "", of: str = "") -> str:
        """The identity for this name: `{root}/cursor`, or `{root}/cursor-2` while another live client has that.

        `key` is the session that the call comes from; `of` is the identity that this one is a sub-agent of.
        """
        name = slug(client) or "mcp-client"
        place = f"{key} {name}" if key else name
        if place not in self._taken:
            if key and (known := self.find_key(key)) and not of:
                self._taken[place] = known.haid, None
            elif key and not of and (name in self._taken) and self._bind(self._taken[name][0], key):
                self._taken[place] = self._taken[name][0], None
            else:
                self._taken[place] = self._record_seat(name, key, of)
        return self._taken[place][0]

    def leave(self) -> None:
        """The client is gone: free its identities for the next client of its name."""
        for haid, seat in self._taken.values():
            if seat is not None:
                self._forget_process(haid)
                seat.__exit__(None, None, None)
        self._taken.clear()

    def taken(self) -> list[str]:
        return list(dict.fromkeys(haid for haid, _ in self._taken.values()))

    def _record_seat(self, name: str, key: str, of: str) -> tuple[str, locked | None]:
        try:
            with self.planning.lock("seats"):
                return self._take(name, key, of)
        except StorageError:
            return f"{self.root}/{name}", None  # nothing can be written here, so the seat cannot be recorded

    def _take(self, name: str, key: str, of: str) -> tuple[str, locked | None]:
        known = {seat.haid: seat for seat in self.all()}
        self._prune(known.values())
        process = None if self.remote else origin.starter()
        keys = [key] if key else [] if self.remote else origin.session_keys(os.environ)
        mine = None if of else self._mine(list(known.values()), name, keys, process)
        if mine is not None:
            lock = self._lock(mine.haid)
            if lock is not None or mine.key:
                self._write(mine.haid, name, mine.key or _own(keys, name), process, "")
                return mine.haid, lock
        for number in range(1, MAX_SEATS + 1):
            haid = self._numbered(name, number)
            seat = known.get(haid)
            if seat is not None and (self._is_anothers(seat, keys) or self.alive(seat) and not of):
                continue
            lock = self._lock(haid)
            if lock is not None:
                self._write(haid, name, "" if of else _own(keys, name), process, of)
                return haid, lock
        raise LimitReached(f"{MAX_SEATS} clients named {name} are connected already")

    def _mine(self, known: list[Seat], name: str, keys: Sequence[str], process: origin.Key | None) -> Seat | None:
        for seat in known:
            if seat.key and seat.key in keys and seat.name == name and not seat.of:
                return seat
        same = [seat for seat in known if process and seat.process == process and seat.name == name and not seat.of]
        same = [seat for seat in same if not seat.key or not keys]
        return same[0] if len(same) == 1 else None

    def _is_anothers(self, seat: Seat, keys: Sequence[str]) -> bool:
        """Whether the seat belongs to a session that has ended but still holds a claim: no one else may take it."""
        return bool(seat.key) and seat.key not in keys and os.path.exists(self._claim_file(seat.haid))

    def _lock(self, haid: str) -> locked | None:
        lock = locked(self._lock_path(haid), 0)
        try:
            return lock.__enter__()
        except Busy:
            return None

    # The register...

    def all(self) -> list[Seat]:
        try:
            names = sorted(os.listdir(self.directory))
        except OSError:
            return []
        found = [self._load(os.path.join(self.directory, name)) for name in names if name.endswith(".json")]
        return [seat for seat in found if seat is not None]

    def names(self) -> set[str]:
        """The names of the register's files, which equal those of the claims of the same identities."""
        try:
            return set(os.listdir(self.directory))
        except OSError:
            return set()

    def of(self, haid: str) -> Seat | None:
        return self._load(self._path(haid))

    def find_key(self, key: str) -> Seat | None:
        return next((seat for seat in self.all() if seat.key == key and not seat.of), None)

    def alive(self, seat: Seat) -> bool:
        """Whether its session is alive: its MCP server is connected, or its process runs."""
        if seat.process is not None and table.lives(*seat.process):
            return True
        try:
            return is_locked(self._lock_path(seat.haid))
        except StorageError:
            return False

    def living(self, haid: str) -> bool:
        seat = self.of(haid)
        return seat is not None and (self.alive(seat) or bool(seat.of) and self.living(seat.of))

    def gone_since(self, haid: str) -> str:
        """Since when the session behind an identity has been gone; empty while it is alive, or if none is known."""
        seat = self.of(haid)
        return "" if seat is None or self.living(haid) else seat.seen

    def recognise(self, keys: Sequence[str], processes: Iterable[origin.Key]) -> Seat | None:
        """The seat of the session that we are in: by the innermost process of a known agent, else by session id."""
        known = [seat for seat in self.all() if not seat.of]
        if not known:
            return None
        by_process: dict[origin.Key, list[Seat]] = {}
        for seat in known:
            if seat.process is not None:
                by_process.setdefault(seat.process, []).append(seat)
        named = [seat for seat in known if seat.key and seat.key in keys]
        for process in processes:
            near = by_process.get(process, [])
            mine = [seat for seat in near if seat in named] or [seat for seat in near if not keys or not seat.key]
            if len(mine) == 1:
                return mine[0]
        return max(named, key=lambda seat: str(seat.fields.get("since", "")), default=None)

    def enter(self, program: str, key: str, process: origin.Key | None) -> str:
        """The identity of this session, for its hooks and commands; it gets a seat if it has none."""
        name = slug(origin.client_name(program))
        if (known := self.find_key(key)) and (known.process or not process):
            return known.haid
        with self.planning.lock("seats"):
            seats = self.all()
            self._prune(seats)
            mine = self._mine(seats, name, [key], process)
            haid = mine.haid if mine else self._free(name, key, {seat.haid: seat for seat in seats})
            self._write(haid, name, key, process or (mine.process if mine else None), "")
        return haid

    def _free(self, name: str, key: str, taken: dict[str, Seat]) -> str:
        for number in range(1, MAX_SEATS + 1):
            haid = self._numbered(name, number)
            seat = taken.get(haid)
            used = self.alive(seat) or self._is_anothers(seat, [key]) if seat else is_locked(self._lock_path(haid))
            if not used:
                return haid
        raise LimitReached(f"{MAX_SEATS} sessions named {name} are open already")

    def _numbered(self, name: str, number: int) -> str:
        return f"{self.root}/{name}" if number == 1 else f"{self.root}/{name}-{number}"

    def note(self, haid: str, process: origin.Key) -> None:
        """Record in the register that this identity belongs to a process."""
        known = self.of(haid)
        if known is None or known.process != process:
            with self.planning.lock("seats"):
                self._write(haid, haid.partition("/")[2], "", process, "")

    def family(self, haid: str) -> set[str]:
        """The identities of one session: its own, and those of its sub-agents that have named themselves."""
        seat = self.of(haid)
        head = seat.of if seat and seat.of else haid
        return {haid, *(seat.haid for seat in self.all() if seat.of == head)} | ({head} if head != haid else set())

    def _bind(self, haid: str, key: str) -> bool:
        """Record which session a seat belongs to; False when it already has another one."""
        with self.planning.lock("seats"):
            seat = self.of(haid)
            if seat is None or seat.key not in ("", key):
                return False
            self._update(haid, lambda fields: fields.update(session=key))
        return True

    def _prune(self, known: Iterable[Seat]) -> None:
        """Remove the seats of sessions that ended long ago and hold nothing."""
        long_ago = timestamp(self.planning.clock() - GONE_SECONDS)
        for seat in known:
            if seat.seen < long_ago and not self.alive(seat) and not os.path.exists(self._claim_file(seat.haid)):
                try:
                    os.unlink(seat.path)
                except OSError:
                    pass  # another process was first

    def _write(self, haid: str, name: str, key: str, process: origin.Key | None, of: str) -> None:
        now = self.planning.now()
        old = self.of(haid)
        since = old.fields.get("since", now) if old is not None and old.key == key else now
        fields: dict[str, Any] = {"haid": haid, "name": name, "session": key, "since": since, "seen": now}
        if process is not None:
            fields |= {"pid": process[0], "start": process[1]}
        fields |= {"cwd": self.planning.project} | ({"of": of} if of else {})
        make_dirs(self.directory)
        write_text(self._path(haid), dumps(fields, 2) + "\n")

    def _forget_process(self, haid: str) -> None:
        """The client has disconnected: other programs of its starter are not this client."""
        try:
            with self.planning.lock("seats"):
                self._update(haid, _left(self.planning.now()))
        except (StorageError, Busy):
            pass

    def _update(self, haid: str, edit: Callable[[dict[str, Any]], Any]) -> None:
        seat = self.of(haid)
        if seat is not None:
            edit(seat.fields)
            write_text(seat.path, dumps(seat.fields, 2) + "\n")

    def _load(self, path: str) -> Seat | None:
        try:
            text = read_text(path)
            return None if text is None else Seat(loads(text), path)
        except (ValueError, KeyError, TypeError, StorageError):
            return None

    def _path(self, haid: str) -> str:
        return os.path.join(self.directory, file_name(haid) + ".json")

    def _lock_path(self, haid: str) -> str:
        return self.planning.live_path(".locks", f"seats-{file_name(haid)}")

    def _claim_file(self, haid: str) -> str:
        return self.planning.live_path("ledger", "claims", file_name(haid) + ".json")


def file_name(haid: str) -> str:
    return haid.replace("/", "_").replace(":", "_")


def _own(keys: Sequence[str], name: str) -> str:
    """The session among those in the environment that belongs to this client."""
    return next((key for key in keys if origin.client_name(key.partition(":")[0]) == name), "")


def _left(now: str) -> Callable[[dict[str, Any]], None]:
    def edit(fields: dict[str, Any]) -> None:
        fields.pop("pid", None)
        fields.pop("start", None)
        fields["left"] = now

    return edit
