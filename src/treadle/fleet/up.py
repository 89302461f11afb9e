"""The fleet of this machine: up, down, status, and joining another's. Each finds and joins what is there already."""

import asyncio
import contextlib
import os
import platform
import re
import secrets
import signal
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from treadle.errors import ConfigError, Denied, LocalError, NotFound, RemoteProtocolError, TreadleError
from treadle.fleet import keeper, node
from treadle.fleet.engine import layout, places, server
from treadle.fleet.engine.bus import Bus, Unreachable
from treadle.fleet.engine.places import shown
from treadle.fleet.join.invitations import Credentials, Invitation, read
from treadle.fleet.orders import encode
from treadle.fleet.run import runs
from treadle.io.files import is_locked, read_at_most, write_atomic
from treadle.io.process import table, warm
from treadle.io.process.tree import daemon
from treadle.wire.fleet.messages import EnrolAnswer, FleetStatus, Leave, NodeAnswer

Progress = Callable[[str], None]
ROLES = ("admin", "submit", "watch")
NODE = "treadle.fleet.node"
"""The module that is a node's process; one above may hand the scheduler passengers."""
_SERVER = re.compile(r"(nats|tls|wss?)://[^\s/]+/?|[^\s/:]+:\d+")
START_SECONDS = 60.0
STOP_SECONDS = 30.0


async def up(
    *,
    slots: int | None = None,
    labels: tuple[str, ...] = (),
    name: str = "",
    url: str = "",
    creds: str = "",
    ca: str = "",
    replicas: int = 1,
    lease: float = 0.0,
    sync: str = "",
    program: str = NODE,
    keep: bool = False,
    say: Progress = lambda text: None,
) -> FleetStatus | None:
    """Start the missing ones of engine, streams and nodes here, and wait until the fleet takes orders.

    Without a name, the nodes that were here before are started as they were. With `keep`, they are started again
    whenever they are gone, until `down`.
    """
    fleet = _fleet(url, creds, ca, replicas, lease)
    if fleet.joined:
        return await _up_as_worker(fleet, say, keep)
    keeper.forgive(["engine"])
    if fleet.private:
        started = await asyncio.to_thread(server.start, fleet, sync=sync)
        say(f"engine  {'started' if started else 'found'} at {shown(fleet.url)}")
    bus = await server.await_ready(fleet, "admin")
    try:
        await layout.ensure(bus, replicas=fleet.replicas, lease=fleet.lease)
        say("streams ready")
        for settings in _wanted_nodes(name, slots, labels):
            here, many = settings.name, "s" if settings.slots != 1 else ""
            began = start_node(settings, program)
            more = f"started, {settings.slots} slot{many}" if began else "found, with the slots it was started with"
            say(f"node    {here} {more}")
            status = await await_scheduler(bus, here)
            if keep:
                keep_node(here, program)
        say(f"ready   {status.scheduler} schedules")
        return status
    finally:
        await bus.close()


def _wanted_nodes(name: str, slots: int | None, labels: tuple[str, ...]) -> list[node.NodeSettings]:
    """The settings of the nodes to start here: as they were, but for what is given now."""
    names = [name] if name else [known for known, _ in local_nodes() if node.known_settings(known) is not None]
    found = []
    for each in names or [platform.node().partition(".")[0] or "node"]:
        before = node.known_settings(each) or node.NodeSettings(name=each)
        found.append(replace(before, slots=before.slots if slots is None else slots, labels=labels or before.labels))
    return found


async def _up_as_worker(fleet: places.Fleet, say: Progress, keep: bool) -> FleetStatus | None:
    bus = await server.await_ready(fleet, fleet.widest())
    try:
        status = None
        for role in fleet.users:
            if role.startswith("worker:"):
                here = role.partition(":")[2]
                began = start_node(node.load_settings(here))
                status = await await_scheduler(bus, here)
                if keep:
                    keep_node(here)
                say(f"node    {here} {'started' if began else 'found'}, a worker of the fleet at {shown(fleet.url)}")
        return status
    finally:
        await bus.close()


def _fleet(url: str, creds: str, ca: str, replicas: int, lease: float) -> places.Fleet:
    try:
        known = places.load()
        if not url or url == known.url:
            return known
        raise LocalError(
            f"this machine belongs to the fleet at {shown(known.url)}", hint="`treadle fleet down --forget` first"
        )
    except NotFound:
        pass
    if url:
        if not all(_SERVER.fullmatch(each) for each in url.split(",")):
            raise ConfigError(f"{shown(url)} is not the address of a NATS server", hint="such as nats://HOST:4222")
        # The node works in another directory than this one.
        creds, ca = (os.path.abspath(os.path.expanduser(path)) if path else "" for path in (creds, ca))
        made = places.Fleet(url=url, private=False, creds=creds, ca=ca, replicas=replicas, lease=lease or 15.0)
    else:
        users = {role: secrets.token_urlsafe(24) for role in ROLES}
        made = places.Fleet(url=f"nats://127.0.0.1:{server.free_port()}", users=users, lease=lease or 5.0)
    places.save(made)
    return made


def start_node(settings: node.NodeSettings, program: str = NODE) -> bool:
    """Start a node as a process of its own. False when there is one of that name."""
    here = node.directory_of(settings.name)
    if is_locked(os.path.join(here, "lock")):
        return False
    node.save_settings(settings)
    watched = _watched_node(settings.name, program)
    daemon(watched.argv, cwd=here, log=watched.log)  # no reaper: its runners go on without it
    return True


def _watched_node(name: str, program: str) -> keeper.WatchedProcess:
    here = node.directory_of(name)
    argv = (sys.executable, "-P", "-m", program, name)
    return keeper.WatchedProcess(
        argv=argv, cwd=here, log=os.path.join(here, "node.log"), lock=os.path.join(here, "lock")
    )


def keep_node(name: str, program: str = NODE) -> None:
    keeper.keep(f"node-{name}", _watched_node(name, program))


async def await_scheduler(bus: Bus, name: str) -> FleetStatus:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            nodes = await bus.ask("fleet.ask.nodes", list[NodeAnswer], timeout=1.0)
            if any(each.name == name and each.alive for each in nodes):
                return await bus.ask("fleet.ask.status", FleetStatus)
        except (Unreachable, RemoteProtocolError):
            pass
        if time.monotonic() > deadline:
            log = os.path.join(node.directory_of(name), "node.log")
            raise LocalError(f"no scheduler answers within {START_SECONDS:g} s", hint=f"see {log}")
        await asyncio.sleep(0.05)


# The processes of this machine.


def local_nodes() -> Iterator[tuple[str, table.Process | None]]:
    """The nodes that were started on this machine, with the process of each that lives."""
    root = os.path.join(places.root(), "nodes")
    for name in sorted(os.listdir(root)) if os.path.isdir(root) else []:
        here = os.path.join(root, name)
        process = None
        if is_locked(os.path.join(here, "lock")):
            try:
                process = table.look(int(read_at_most(os.path.join(here, "pid"), 64)))
            except (OSError, ValueError):
                process = None
        yield name, process


def live_runners() -> list[tuple[str, int, places.ProcessNote]]:
    return [
        (order, attempt, note)
        for order, attempt, directory in runs.all_here()
        if (note := runs.runner_of(directory)) is not None
    ]


async def status() -> dict[str, Any]:
    """What is up, where, since when, and how much disk it uses."""
    fleet = places.load()
    found: dict[str, Any] = {"url": shown(fleet.url), "private": fleet.private, "directory": places.root()}
    if fleet.private:
        engine = server.running() if server.is_up() else None
        found["engine"] = None if engine is None else msgspec.to_builtins(engine)
        found["disk_bytes"] = await asyncio.to_thread(server.disk_used)
        found["disk_free_bytes"] = node.free_disk(server.directory())
    found["nodes_here"] = [{"name": name, "pid": process.pid if process else None} for name, process in local_nodes()]
    found["runners_here"] = [
        {"order": order, "attempt": attempt, "pid": note.pid} for order, attempt, note in live_runners()
    ]
    found["restarts"] = {
        name: msgspec.to_builtins(known)
        for name in (*keeper.watched(), "engine")
        if (known := keeper.restarts(name)).total or known.failed
    }
    keeping = keeper.running()
    found["keeper"] = {"pid": keeping.pid if keeping else None} if keeper.watched() else None
    found["scheduler"] = None
    try:
        bus = await Bus.connect(fleet.address(fleet.widest()), name="treadle fleet status")
    except TreadleError as error:
        found["problem"] = str(error)
        return found
    try:
        found |= msgspec.to_builtins(await bus.ask("fleet.ask.status", FleetStatus, timeout=2.0))
        nodes = await bus.ask("fleet.ask.nodes", list[NodeAnswer], timeout=2.0)
        found["nodes"] = msgspec.to_builtins(nodes)
    except TreadleError as error:
        found["problem"] = f"no scheduler answers ({error.message})"
    finally:
        await bus.close()
    if found.get("disk_free_bytes", node.DISK_LEAST) < node.DISK_LEAST:
        found["problem"] = "the engine's disk is full: free some space, and it continues by itself"
    return found


# Down...


async def down(
    *, say: Progress = lambda text: None, forget: bool = False, stop_page: Callable[[], bool] = lambda: False
) -> dict[str, Any]:
    """Stop the fleet on this machine in order: its keeper, runners, which give their orders back, nodes, the engine.

    Returns what was stopped: how many runners and nodes, and whether the engine.
    """
    fleet = places.load()
    if await asyncio.to_thread(keeper.stop):
        say("keeper  stopped")
    if page := await asyncio.to_thread(stop_page):
        say("page    stopped")
    await _announce(fleet)
    runners = await _stop_runners(say)
    nodes = [process for _, process in local_nodes() if process is not None]
    for process in nodes:
        table.send_to(process.pid, process.start, signal.SIGTERM)
    await _gone([(process.pid, process.start) for process in nodes])
    say(f"nodes   {len(nodes)} stopped")
    runners += await _stop_runners(say)  # a node may have started one before it heard that it is to leave
    await asyncio.to_thread(warm.dismiss, node.RUNNERS)
    engine = fleet.private and await asyncio.to_thread(server.stop)
    if engine:
        say("engine  stopped")
    if forget:
        import shutil

        shutil.rmtree(places.root(), ignore_errors=True)
        say("all that was stored is removed")
    return {"runners": runners, "nodes": len(nodes), "engine": engine, "page": page}


async def _stop_runners(say: Progress) -> int:
    runners = live_runners()
    for _, _, note in runners:
        note.signal(signal.SIGTERM)
    await _gone([(note.pid, note.start) for _, _, note in runners])
    if runners:
        say(f"runners {len(runners)} stopped, their orders return to the queue")
    return len(runners)


async def _announce(fleet: places.Fleet) -> None:
    """Announce that nothing more may be placed here."""
    try:
        bus = await Bus.connect(fleet.address(fleet.widest()), name="treadle fleet down")
    except TreadleError:
        return
    try:
        for name, process in local_nodes():
            if process is not None:
                await bus.request(f"fleet.tell.{name}.node", encode(Leave(why="the fleet goes down")), timeout=2)
    except TreadleError:
        pass
    finally:
        await bus.close()


async def _gone(processes: list[tuple[int, int]]) -> None:
    """Wait for these to end; those that take too long are killed."""
    deadline = time.monotonic() + STOP_SECONDS
    while left := [each for each in processes if table.lives(*each)]:
        if time.monotonic() > deadline:
            for pid, start in left:
                table.send_to(pid, start, signal.SIGKILL)
            deadline = time.monotonic() + STOP_SECONDS
        await asyncio.sleep(0.02)


# Joining another's fleet as a worker, with a code that was made there (`invitations`).


async def join(
    code: str,
    *,
    slots: int = 4,
    labels: tuple[str, ...] = (),
    service: bool = False,
    ca: str = "",
    patience: float = 5.0,
) -> tuple[str, str]:
    """Join the code's fleet as a worker. Returns the node's name, once the scheduler knows it, and its keeper."""
    found = read(code)
    with contextlib.suppress(NotFound):
        known = places.load()
        if known.url != found.url:
            raise LocalError(
                f"this machine belongs to the fleet at {shown(known.url)}", hint="`treadle fleet down --forget`"
            )
    if found.ca and not ca:
        ca = os.path.join(places.inside(), "ca.pem")
        write_atomic(ca, found.ca.encode())
    given = await _ask_in(found, ca, patience)
    fleet = places.Fleet(url=found.url, private=False, lease=given.lease, ca=ca, users=given.users)
    places.save(fleet)
    bus = await server.await_ready(fleet, fleet.widest(), seconds=10)
    try:
        role = f"worker:{given.name}"
        settings = node.NodeSettings(name=given.name, slots=slots, labels=labels, role=role, schedule=False)
        if service := service and await asyncio.to_thread(keeper.systemd_available):
            await asyncio.to_thread(_start_by_systemd, settings)
        else:
            start_node(settings)
        await await_scheduler(bus, given.name)
        if not service:
            keep_node(given.name)
    finally:
        await bus.close()
    return given.name, UNIT.format(given.name) if service else "the keeper"


UNIT = "treadle-node-{}.service"


def _start_by_systemd(settings: node.NodeSettings) -> None:
    node.save_settings(settings)
    keeper.write_unit(UNIT.format(settings.name), keeper.node_unit(settings.name))
    keeper.enable_unit(UNIT.format(settings.name), now=True)


async def _ask_in(found: Invitation, ca: str, patience: float) -> Credentials:
    role = f"enrol:{found.id}"
    asking = places.Fleet(url=found.url, private=False, ca=ca, users={role: found.secret})
    deadline = time.monotonic() + patience
    while True:
        bus = await _reached(asking, role, patience)
        try:
            answer = await bus.ask(f"fleet.enrol.{found.id}", EnrolAnswer, timeout=10.0)
            break
        except Unreachable:  # also happens for a moment while the engine reads its new users
            if time.monotonic() > deadline:
                hint = "`treadle fleet up` on the machine that made the code"
                text = f"the engine at {shown(found.url)} is up, and no one there lets machines in"
                raise Unreachable(text, hint=hint) from None
        finally:
            await bus.close()
        await asyncio.sleep(0.2)
    if answer.error:
        raise Denied(answer.error)
    return Credentials(name=answer.name, lease=answer.lease, users=answer.users)


async def _reached(asking: places.Fleet, role: str, patience: float) -> Bus:
    """Wait for the engine: it may become reachable only now, for example over a tunnel that is being made."""
    deadline = time.monotonic() + patience
    while True:
        try:
            return await Bus.connect(asking.address(role), name="treadle fleet join", lasting=False)
        except Denied:
            hint = "`treadle fleet invite` makes another"
            raise Denied("this code was already used or has expired", hint=hint) from None
        except Unreachable:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.2)
