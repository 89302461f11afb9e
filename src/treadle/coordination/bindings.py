"""The identity of each agent session, the same whether it acts through MCP, a hook, a command in its shell or git."""

import os
from collections.abc import Callable, Iterable, Sequence

from treadle.coordination import identity
from treadle.coordination.identity import checked, root, root_of, slug
from treadle.coordination.planning import Planning, digest, make_dirs, read_text, seconds_of, timestamp, write_text
from treadle.coordination.record import ClaimStore, file_name
from treadle.errors import Busy, Denied, LimitReached, StorageError
from treadle.io.files import is_locked, locked, try_remove
from treadle.io.paths import private_dir, state_dir
from treadle.io.process import table
from treadle.light import Any
from treadle.wire.common.jsontext import dumps, loads

# A binding is a file that says which agent process and which session an identity belongs to, with a lock that the MCP
# server holds while its client is connected. If the server dies, the kernel frees the lock. Two live sessions of one
# program have two identities; one session has one identity everywhere.

MOST_BINDINGS = 256
REGISTER = "seats"
"""The name of the directory and of its lock. Every version that shares a repository uses it."""
GONE_SECONDS = 7 * 24 * 3600
"""A session that ended and holds nothing is remembered for this long."""


class IdentityBinding:
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


class IdentityBindings:
    """The register, and the bindings that this connection has taken, by the name that the client gave."""

    def __init__(self, planning: Planning, root: str, *, remote: bool = False) -> None:
        """`remote`: the client did not start us, so our parent and our environment say nothing about it."""
        self.planning = planning
        self.root = root_of(root)
        self.remote = remote
        self.directory = planning.private_path(REGISTER)
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
                self._taken[place] = self._record(name, key, of)
        return self._taken[place][0]

    def leave(self) -> None:
        """The client is gone: free its identities for the next client of its name."""
        for haid, lock in self._taken.values():
            if lock is not None:
                self._forget_process(haid)
                lock.__exit__(None, None, None)
        self._taken.clear()

    def taken(self) -> list[str]:
        return list(dict.fromkeys(haid for haid, _ in self._taken.values()))

    def _record(self, name: str, key: str, of: str) -> tuple[str, locked | None]:
        try:
            with self.planning.lock(REGISTER):
                return self._take(name, key, of)
        except StorageError:
            return f"{self.root}/{name}", None  # nothing can be written here, so the binding cannot be recorded

    def _take(self, name: str, key: str, of: str) -> tuple[str, locked | None]:
        known = {binding.haid: binding for binding in self.all()}
        self._prune(known.values())
        process = None if self.remote else identity.starter()
        keys = [key] if key else [] if self.remote else identity.session_keys(os.environ)
        above = None if self.remote or of else self.recognise([], identity.ancestors())
        mine = None if of else self._mine(list(known.values()), name, keys, process)
        if mine is not None:
            lock = self._lock(mine.haid)
            if lock is not None or mine.key:
                self._write(mine.haid, name, mine.key or _own(keys, name), process, "")
                return mine.haid, lock
        for number in range(1, MOST_BINDINGS + 1):
            haid = self._numbered(name, number)
            binding = known.get(haid)
            if self._holds(haid) and (binding is None or above is not None and above.name != name):
                continue  # what a person, or another session that may come back, has claimed under this name
            if binding is not None and (self._is_anothers(binding, keys) or self.alive(binding) and not of):
                continue
            lock = self._lock(haid)
            if lock is not None:
                self._write(haid, name, "" if of else _own(keys, name), process, of)
                return haid, lock
        raise LimitReached(f"{MOST_BINDINGS} clients named {name} are connected already")

    def _mine(
        self, known: list[IdentityBinding], name: str, keys: Sequence[str], process: identity.Key | None
    ) -> IdentityBinding | None:
        for binding in known:
            if binding.key and binding.key in keys and binding.name == name and not binding.of:
                return binding
        same = [
            binding
            for binding in known
            if process and binding.process == process and binding.name == name and not binding.of
        ]
        same = [binding for binding in same if not binding.key or not keys]
        return same[0] if len(same) == 1 else None

    def _is_anothers(self, binding: IdentityBinding, keys: Sequence[str]) -> bool:
        """Whether another session still holds a claim under this identity, though it may have ended: no one else may
        take it."""
        return bool(binding.key) and binding.key not in keys and self._holds(binding.haid)

    def _lock(self, haid: str) -> locked | None:
        make_dirs(os.path.dirname(self._lock_path(haid)))
        lock = locked(self._lock_path(haid), 0)
        try:
            return lock.__enter__()
        except Busy:
            return None

    # The register...

    def all(self) -> list[IdentityBinding]:
        try:
            names = sorted(os.listdir(self.directory))
        except OSError:
            return []
        found = [self._load(os.path.join(self.directory, name)) for name in names if name.endswith(".json")]
        return [binding for binding in found if binding is not None]

    def names(self) -> set[str]:
        """The names of the register's files, which equal those of the claims of the same identities."""
        try:
            return set(os.listdir(self.directory))
        except OSError:
            return set()

    def of(self, haid: str) -> IdentityBinding | None:
        return self._load(self._path(haid))

    def find_key(self, key: str) -> IdentityBinding | None:
        return next((binding for binding in self.all() if binding.key == key and not binding.of), None)

    def alive(self, binding: IdentityBinding) -> bool:
        """Whether its session is alive: its MCP server is connected, or its process runs."""
        if binding.process is not None and table.lives(*binding.process):
            return True
        try:
            return is_locked(self._lock_path(binding.haid))
        except StorageError:
            return False

    def living(self, haid: str) -> bool:
        binding = self.of(haid)
        return binding is not None and (self.alive(binding) or bool(binding.of) and self.living(binding.of))

    def gone_since(self, haid: str) -> str:
        """Since when the session behind an identity has been gone; empty while it is alive, or if none is known."""
        binding = self.of(haid)
        return "" if binding is None or self.living(haid) else binding.seen

    def recognise(self, keys: Sequence[str], processes: Iterable[identity.Key]) -> IdentityBinding | None:
        """The binding of the session that we are in: by the innermost process of a known agent, else by session id.

        A session id is only text. It counts if its session's process is not known, is over, or cannot be seen here.
        """
        processes = list(processes)
        known = [binding for binding in self.all() if not binding.of]
        if not known:
            return None
        by_process: dict[identity.Key, list[IdentityBinding]] = {}
        for binding in known:
            if binding.process is not None:
                by_process.setdefault(binding.process, []).append(binding)
        named = [binding for binding in known if binding.key and binding.key in keys]
        for process in processes:
            near = by_process.get(process, [])
            mine = [binding for binding in near if binding in named] or [
                binding for binding in near if not keys or not binding.key
            ]
            if len(mine) == 1:
                return mine[0]
        hidden = table.space()
        named = [
            binding
            for binding in named
            if binding.process is None
            or binding.process in processes
            or binding.fields.get("space", "") not in ("", hidden)
            or not table.lives(*binding.process)
        ]
        return max(named, key=lambda binding: str(binding.fields.get("since", "")), default=None)

    def enter(self, program: str, key: str, process: identity.Key | None) -> str:
        """The identity of this session, for its hooks and commands; it gets a binding if it has none."""
        name = slug(identity.client_name(program))
        if (known := self.find_key(key)) and (known.process or not process):
            return known.haid
        with self.planning.lock(REGISTER):
            bindings = self.all()
            self._prune(bindings)
            mine = self._mine(bindings, name, [key], process)
            haid = mine.haid if mine else self._free(name, key, {binding.haid: binding for binding in bindings})
            self._write(haid, name, key, process or (mine.process if mine else None), "")
        return haid

    def _free(self, name: str, key: str, taken: dict[str, IdentityBinding]) -> str:
        for number in range(1, MOST_BINDINGS + 1):
            haid = self._numbered(name, number)
            binding = taken.get(haid)
            used = (
                self.alive(binding) or self._is_anothers(binding, [key])
                if binding
                else is_locked(self._lock_path(haid))
            )
            if not used:
                return haid
        raise LimitReached(f"{MOST_BINDINGS} sessions named {name} are open already")

    def _numbered(self, name: str, number: int) -> str:
        return f"{self.root}/{name}" if number == 1 else f"{self.root}/{name}-{number}"

    def note(self, haid: str, process: identity.Key) -> None:
        """Record in the register that this identity belongs to a process."""
        known = self.of(haid)
        if known is None or known.process != process:
            with self.planning.lock(REGISTER):
                self._write(haid, haid.partition("/")[2], "", process, "")

    def family(self, haid: str) -> set[str]:
        """The identities of one session: its own, and those of its sub-agents that have named themselves."""
        binding = self.of(haid)
        head = binding.of if binding and binding.of else haid
        return {haid, *(binding.haid for binding in self.all() if binding.of == head)} | (
            {head} if head != haid else set()
        )

    def _bind(self, haid: str, key: str) -> bool:
        """Record which session an identity belongs to; False when it already has another one."""
        with self.planning.lock(REGISTER):
            binding = self.of(haid)
            if binding is None or binding.key not in ("", key):
                return False
            self._update(haid, lambda fields: fields.update(session=key))
        return True

    def _prune(self, known: Iterable[IdentityBinding]) -> None:
        """Remove the bindings of sessions that ended long ago and hold nothing."""
        long_ago = timestamp(self.planning.clock() - GONE_SECONDS)
        for binding in known:
            if binding.seen < long_ago and not self.alive(binding) and not self._holds(binding.haid):
                try_remove(binding.path)

    def _write(self, haid: str, name: str, key: str, process: identity.Key | None, of: str) -> None:
        now = self.planning.now()
        old = self.of(haid)
        since = old.fields.get("since", now) if old is not None and old.key == key else now
        fields: dict[str, Any] = {"haid": haid, "name": name, "session": key, "since": since, "seen": now}
        if process is not None:
            fields |= {"pid": process[0], "start": process[1], "space": table.space()}
        fields |= {"cwd": self.planning.project} | ({"of": of} if of else {})
        make_dirs(self.directory)
        write_text(self._path(haid), dumps(fields, 2) + "\n")

    def _forget_process(self, haid: str) -> None:
        """The client has disconnected: other programs of its starter are not this client."""
        try:
            with self.planning.lock(REGISTER):
                self._update(haid, _left(self.planning.now()))
        except (StorageError, Busy):
            pass

    def _update(self, haid: str, edit: Callable[[dict[str, Any]], Any]) -> None:
        binding = self.of(haid)
        if binding is not None:
            edit(binding.fields)
            write_text(binding.path, dumps(binding.fields, 2) + "\n")

    def _load(self, path: str) -> IdentityBinding | None:
        try:
            text = read_text(path)
            return None if text is None else IdentityBinding(loads(text), path)
        except (ValueError, KeyError, TypeError, StorageError):
            return None

    def _path(self, haid: str) -> str:
        return os.path.join(self.directory, file_name(haid) + ".json")

    def _lock_path(self, haid: str) -> str:
        return os.path.join(self.directory, ".locks", file_name(haid))

    def _holds(self, haid: str) -> bool:
        return _made_by(self.planning, haid) is not None


def _own(keys: Sequence[str], name: str) -> str:
    """The session among those in the environment that belongs to this client."""
    return next((key for key in keys if identity.client_name(key.partition(":")[0]) == name), "")


def _left(now: str) -> Callable[[dict[str, Any]], None]:
    def edit(fields: dict[str, Any]) -> None:
        fields.pop("pid", None)
        fields.pop("start", None)
        fields["left"] = now

    return edit


# A person's permission for an agent to act against another's claim, once: `treadle coord allow` makes it.
#
# It is kept in our state directory, which no sandbox shows. An agent that runs without one could make its own: then
# this is advice.

VARIABLE = "HEIMDALL_ALLOW"
HINT = "a person can allow it once, outside of the session; ask them, or work on something else"


def grant(planning: Planning, minutes: int) -> str:
    """Keep a new permission; returns its code."""
    if in_session(planning) or identity.is_orphan():
        raise Denied("only a person can allow this, in a terminal that no agent has started")
    code = os.urandom(8).hex()
    write_text(_path(code, make=True), timestamp(planning.clock() + minutes * 60) + "\n")
    return code


def require(planning: Planning, what: str) -> None:
    """Raises Denied in an agent's session, or if it cannot be seen who started us, unless a permission was given,
    which is then used up."""
    seen = not in_session(planning) and not identity.is_orphan()
    if not seen and not _spend(planning, os.environ.get(VARIABLE, "")):
        raise Denied(f"an agent may not {what}", hint=HINT)


def in_session(planning: Planning) -> bool:
    """Whether an agent's session started us, as far as that can be seen."""
    keys = identity.session_keys(os.environ)
    if keys or identity.given_process(os.environ):
        return True
    return IdentityBindings(planning, "").recognise([], identity.ancestors()) is not None


def _spend(planning: Planning, code: str) -> bool:
    path = _path(code)
    until = seconds_of((read_text(path) or "").strip()) if code else None
    if until is None:
        return False
    try:
        os.unlink(path)  # of two that use it at once, one succeeds
    except FileNotFoundError:
        return False
    return planning.clock() < until


def _path(code: str, *, make: bool = False) -> str:
    place = os.path.join(state_dir(), "allowed")
    return os.path.join(private_dir(place) if make else place, digest(code))


# Who acts here: the identity in `HEIMDALL_HAID`, else that of the agent session we are in, else the checkout's.


def acting(planning: Planning, *, enter: bool = False) -> str:
    """The acting identity. With `enter`, a new session gets an identity of its own, so that it can hold claims."""
    bindings = IdentityBindings(planning, "")
    if declared := os.environ.get("HEIMDALL_HAID"):
        check_own(planning, checked(declared))
        process = identity.given_process(os.environ)
        if enter and process:
            bindings.note(checked(declared), process)  # its claims then last as long as that process runs
        return checked(declared)
    keys = identity.session_keys(os.environ)
    if found := bindings.recognise(keys, identity.ancestors()):
        return found.haid
    bindings.root = root(planning.project)
    if not keys:
        return bindings.root
    program = keys[0].partition(":")[0]
    if enter:
        process = identity.declared_process(os.environ, program)
        return bindings.enter(program, keys[0], process if process in list(identity.ancestors()) else None)

    # It holds nothing yet, so any unused name will do.
    return f"{bindings.root}/{identity.client_name(program)}-{digest(keys[0])[:8]}"


def session(planning: Planning) -> str:
    """The identity of the agent's session that we are in; empty for a person."""
    found = IdentityBindings(planning, "").recognise(identity.session_keys(os.environ), identity.ancestors())
    return found.haid if found else ""


def check_own(planning: Planning, haid: str) -> None:
    """Refuse to act as an identity that another living session has, or for which another session has claimed
    something. A variable proves nothing: who we are is who started us."""
    bindings = IdentityBindings(planning, "")
    theirs, maker = bindings.of(haid), _made_by(planning, haid)
    living = theirs is not None and not theirs.of and bindings.alive(theirs)
    if not living and maker is None:
        return
    mine = session(planning)
    if mine:
        own = maker == mine or haid in bindings.family(mine)
    else:  # a session that is named, but is not above us, is no person either
        own = not (living or maker) or not in_session(planning) and not identity.is_orphan()
    if not own:
        require(planning, f"act as {haid}")


def _made_by(planning: Planning, haid: str) -> str | None:
    return ClaimStore(planning).maker(haid)
