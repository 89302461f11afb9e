"""The private NATS server of a fleet on one machine: how it is found, started, joined and stopped; whether it is broken
or only slow; and what each role may do on it.

The server holds a lock beside its store for as long as it lives: two servers on one store lose acknowledged messages,
and the server itself does not check. Its port is chosen once and kept, since clients reconnect only to an address that
they know.
"""

import asyncio
import os
import secrets
import shutil
import signal
import socket
import sys
import time
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from treadle.errors import Busy, ConfigError, LocalError, NotFound, StorageError, TreadleError
from treadle.fleet.engine import places
from treadle.fleet.engine.bus import EVENTS, STATE, Bus
from treadle.fleet.engine.layout import OBJECTS, consumers
from treadle.io.files import (
    is_locked,
    locked,
    opened,
    read,
    write_atomic,
)
from treadle.io.process import table
from treadle.io.process.programs import run_program
from treadle.io.process.tree import detach
from treadle.io.records import FileRecord
from treadle.policy.environment import reduced
from treadle.wire.fleet import keys

# Tells an engine that is broken from one that is only slow, by what it stores and answers.

BROKEN_LOOKS = 3
"""Looks in a row in which it answered that nothing had been stored, neither what we gave it nor anything else."""
SILENT_LOOKS = 6
SILENT_SECONDS = 120.0
"""Looks and seconds without any answer after which it counts as broken. A busy machine takes seconds, not minutes."""


class EngineHealth:
    """What is known of an engine since it last stored something that was given to it."""

    def __init__(self, now: float) -> None:
        self.stored(now)

    def stored(self, now: float) -> None:
        self.failing = False
        self._last = -1
        self._same = self._silent = 0
        self._answered = now

    def not_stored(self, last: int | None, now: float) -> str:
        """It did not acknowledge what it was given; then asked for its last revision, it said this, or nothing (None).
        Returns why it is broken, or an empty string while it may be slow."""
        self.failing = True
        if last is None:
            self._silent += 1
            silent = now - self._answered
            hung = self._silent >= SILENT_LOOKS and silent > SILENT_SECONDS
            return f"it has answered nothing for {silent:.0f} s" if hung else ""
        self._silent, self._answered = 0, now
        self._same = self._same + 1 if last == self._last else 1
        self._last = last
        return "it answers and stores nothing, though there is room" if self._same >= BROKEN_LOOKS else ""


# Who may do what on the engine: the roles of a fleet as permissions of the server.
#
#     admin   everything; kept on the machine that started the fleet
#     submit  give orders, requests (cancel, pause...) and answers, merge, and look at everything
#     watch   look at everything
#     node:NAME    be a node of this name: take its work, tell what became of it, be the scheduler
#     worker:NAME  the same without being the scheduler
#     enrol:ID     ask once to be made a worker
#
# A node can be elected scheduler, so it can write the state of every order. A worker can not: it may report only as
# itself, on what was placed on it. Who looks makes readers with names of their own; the consumers that the scheduler
# takes its work from are denied to all others by name, and only who is asked something may send replies, because a
# reply to a message of a consumer is what takes it off.

_LOOK = [
    f"$JS.API.STREAM.INFO.{STATE}",
    f"$JS.API.STREAM.INFO.{EVENTS}",
    f"$JS.API.STREAM.INFO.{OBJECTS}",
    f"$JS.API.STREAM.MSG.GET.{STATE}",  # the latest of a key, from the leader of a cluster
    f"$JS.API.DIRECT.GET.{STATE}",
    f"$JS.API.DIRECT.GET.{STATE}.>",
    f"$JS.API.DIRECT.GET.{EVENTS}",
    f"$JS.API.DIRECT.GET.{EVENTS}.>",
    f"$JS.API.DIRECT.GET.{OBJECTS}.>",
    *(
        f"$JS.API.CONSUMER.{verb}.{stream}.>"
        for stream in (STATE, EVENTS, OBJECTS)
        for verb in ("CREATE", "INFO", "DELETE", "MSG.NEXT")
    ),
    "$JS.API.INFO",
    "fleet.ask.>",
]
_SCHEDULERS = [
    subject
    for stream, config in consumers(lease=0.0)
    for name in [f"{stream}.{config['durable_name']}"]
    for subject in (f"$JS.API.CONSUMER.*.{name}", f"$JS.API.CONSUMER.*.{name}.>", f"$JS.API.CONSUMER.*.*.{name}")
]
"""Every request about a consumer of the scheduler's: to make, change, pause, delete or pull from it."""
_SUBMIT = [
    *keys.writable("submit"),
    "fleet.in.wish.>",
    "fleet.term.>",
    "$O.fleet.C.*",
    "$O.fleet.M.*",
]


def permissions(role: str) -> dict[str, list[str]] | None:
    """What a role may publish and subscribe to; None means everything."""
    kind, _, name = role.partition(":")
    inbox = f"_INBOX_{role.replace(':', '_')}.>"
    if kind in ("admin", "node"):
        return None
    if kind == "watch":
        return {"publish": _LOOK, "subscribe": [inbox]}
    if kind == "submit":
        return {"publish": [*_LOOK, *_SUBMIT], "subscribe": [inbox]}
    if kind == "worker":
        mine = [
            *keys.writable("worker", name),
            f"fleet.in.node.{name}.>",
            f"fleet.beat.{name}.>",
            f"fleet.ev.*.*.{name}",
            f"$O.fleet.C.{name}.*",
            f"$O.fleet.M.{name}.*",
        ]
        return {"publish": [*_LOOK, *mine], "subscribe": [inbox, f"fleet.tell.{name}.>", f"fleet.term.{name}.>"]}
    if kind == "enrol":
        return {"publish": [f"fleet.enrol.{name}"], "subscribe": [inbox]}
    raise ValueError(f"there is no role {role!r}")


def authorization(users: Mapping[str, str]) -> str:
    """The part of a server's settings that says who may connect and do what."""
    rows = []
    for role, password in users.items():
        allowed = permissions(role)
        rights = ""
        if allowed is not None:
            publish = f"{{allow: {_list(allowed['publish'])}, deny: {_list(_SCHEDULERS)}}}"
            replies = ", allow_responses: true" if role.startswith("worker:") else ""
            rights = f", permissions: {{publish: {publish}, subscribe: {_list(allowed['subscribe'])}{replies}}}"
        rows.append(f'    {{user: "{role.replace(":", "_")}", password: "{password}"{rights}}}')
    return "authorization {\n  users: [\n" + "\n".join(rows) + "\n  ]\n}"


def _list(subjects: list[str]) -> str:
    return "[" + ", ".join(f'"{subject}"' for subject in subjects) + "]"


VERSION = (2, 12)
"""The oldest server with atomic batches and message expiry."""
START_SECONDS = 30.0
STOP_SECONDS = 20.0
FIRST_PORT = 10_000
"""Ports below it are those of services with a name."""


class Program(NamedTuple):
    path: str
    version: str
    source: str
    """`PATH`, or `wheel` for the one that was installed with us."""


class RunningServer(places.ProcessNote, frozen=True, kw_only=True):
    """What we note about the server that we started."""

    started: float
    version: str = ""


def find_program() -> Program:
    """The server on PATH, else the one from the wheel; one that is too old is refused."""
    beside = os.path.join(os.path.dirname(sys.executable), "nats-server")
    found = shutil.which("nats-server")
    for path, source in ((found, "PATH"), (beside, "wheel")):
        if path and os.access(path, os.X_OK):
            if os.path.realpath(path) == os.path.realpath(beside):
                source = "wheel"
            output = run_program([path, "--version"], timeout=20).stdout.decode(errors="replace")
            version = output.strip().rpartition("v")[2]
            numbers = version.split(".")
            try:
                new_enough = (int(numbers[0]), int(numbers[1])) >= VERSION
            except (ValueError, IndexError):
                new_enough = False
            if new_enough:
                return Program(path, version, source)
            if source == "wheel":
                raise ConfigError(f"{path} says it is {output.strip()!r}; {VERSION[0]}.{VERSION[1]} or newer is needed")
    raise NotFound("there is no nats-server on this machine", hint="pip install 'treadle[fleet]' brings one")


def directory() -> str:
    return places.inside("engine")


SERVER = FileRecord(RunningServer)


def log_path() -> str:
    return os.path.join(directory(), "server.log")


def lock_path() -> str:
    return os.path.join(directory(), "lock")


def is_up() -> bool:
    """Whether a server holds the store, ready or not."""
    return is_locked(lock_path())


def running() -> RunningServer | None:
    """The server of this store, if it lives."""
    noted = SERVER.load_whole(os.path.join(directory(), "server.json"))
    return noted if noted is not None and noted.alive else None


def free_port() -> int:
    """A port for a server that is started later, and again for as long as the fleet lives: below those that the kernel
    hands out, or any program that connects somewhere could hold it while our server does not."""
    try:
        end = int(read("/proc/sys/net/ipv4/ip_local_port_range").split()[0])
    except (StorageError, ValueError, IndexError):
        end = 32768
    for _ in range(1000):
        port = FIRST_PORT + secrets.randbelow(end - FIRST_PORT) if end > FIRST_PORT else 0
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue  # it is taken
            return int(probe.getsockname()[1])
    raise LocalError("no port is free on this machine")


def configure(fleet: places.Fleet, *, sync: str = "") -> str:
    """Write the server's settings and return their path. With sync "always" every write also survives a power cut."""
    here = directory()
    port = fleet.url.rpartition(":")[2]
    text = f"""# Written by treadle; changed by it again at each start.
server_name: "treadle-{fleet.name}-{port}"
listen: "127.0.0.1:{port}"
max_payload: 8MB
max_connections: 8192
max_pending: 128MB
ping_interval: "10s"
logfile: "{log_path()}"
logfile_size_limit: 16MB
jetstream {{
  store_dir: "{here}/js"
  max_file_store: 64GB
  max_memory_store: 256MB
  {f'sync_interval: "{sync}"' if sync else ""}
}}
{authorization(fleet.users)}
"""
    path = os.path.join(here, "server.conf")
    write_atomic(path, text.encode())
    return path


def start(fleet: places.Fleet, *, sync: str = "") -> bool:
    """Start the server unless one holds the store. False when there was one."""
    config = configure(fleet, sync=sync)
    program = find_program()
    try:
        holding = locked(lock_path(), 0).__enter__()
    except Busy:
        return False
    try:
        # The lock belongs to the open file, so the server holds it as soon as it inherits that.
        log = os.path.join(directory(), "start.log")
        env = reduced(os.environ)  # it needs no key, and runs for weeks
        pid = detach([program.path, "-c", config], cwd=directory(), env=env, log=log, fds=(holding.fd,))
    finally:
        os.close(holding.fd)
    note = RunningServer(pid=pid, start=table.start_time(pid), started=time.time(), version=program.version)
    SERVER.save(os.path.join(directory(), "server.json"), note)
    return True


async def await_ready(fleet: places.Fleet, role: str = "admin", seconds: float = START_SECONDS) -> Bus:
    """Connect to the server as soon as it answers."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            bus = await Bus.connect(fleet.address(role), name="treadle fleet")
            try:
                await bus.api("INFO")
                return bus
            except TreadleError:
                await bus.close()
                raise
        except TreadleError as error:
            if time.monotonic() > deadline or (fleet.private and not is_up()):
                raise LocalError(f"the engine does not start: {_complaint() or error}") from error
            await asyncio.sleep(0.05)


def _complaint() -> str:
    for name in ("start.log", "server.log"):
        try:
            with opened(os.path.join(directory(), name)) as file:
                lines = [line.decode(errors="replace").strip() for line in file.readlines()[-20:]]
        except OSError:
            continue
        wrong = [line for line in lines if "[FTL]" in line or "[ERR]" in line or name == "start.log" and line]
        if wrong:
            return wrong[-1]
    return ""


def reload() -> None:
    """Have the server read its users again; connections stay open."""
    found = running()
    if found is not None:
        found.signal(signal.SIGHUP)


def await_user(fleet: places.Fleet, role: str, seconds: float = 10.0) -> None:
    """Wait until the private server has read its users again and lets this one in. Blocks."""
    deadline = time.monotonic() + seconds
    while not _accepts_user(fleet, role):
        if time.monotonic() > deadline:
            raise LocalError("the engine does not accept its new users", hint=f"see {directory()}/server.log")
        time.sleep(0.02)


def _accepts_user(fleet: places.Fleet, role: str) -> bool:
    address = fleet.address(role)
    host, _, port = address.url.rpartition("//")[2].rpartition(":")
    words = {"user": address.user, "pass": address.password, "verbose": False, "pedantic": False, "lang": "python"}
    try:
        with socket.create_connection((host, int(port)), timeout=2.0) as connection:
            connection.sendall(b"CONNECT " + msgspec.json.encode(words) + b"\r\nPING\r\n")
            answer = b""
            while b"PONG" not in answer and b"-ERR" not in answer and (more := connection.recv(4096)):
                answer += more
            return b"PONG" in answer
    except OSError:
        return False


def stop(seconds: float = STOP_SECONDS) -> bool:
    """End the server of this store and wait for it. False when there was none."""
    found = running()
    if found is None:
        return False
    found.signal(signal.SIGTERM)
    deadline = time.monotonic() + seconds
    while (now := running()) == found or (now is None and is_up()):  # another one: a node has restarted it
        if time.monotonic() > deadline:
            found.signal(signal.SIGKILL)
            deadline = time.monotonic() + seconds
        time.sleep(0.02)
    return True


def disk_used() -> int:
    """Bytes that the store takes on disk."""
    total = 0
    for here, _, files in os.walk(os.path.join(directory(), "js")):
        for name in files:
            try:
                total += os.lstat(os.path.join(here, name)).st_blocks * 512
            except OSError:
                continue  # compacted away just now
    return total
