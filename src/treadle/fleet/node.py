"""A node: starts a runner for each order that is placed on it, reports which agents are installed, and can be the
scheduler.

Orders placed on a node are stored under `work.NODE.ORDER` until they have ended. A node that was restarted reads them
again, finds the runners it had started before, and lets them work on. Where the engine is a private server on this
machine, the node also keeps that running.
"""

import asyncio
import contextlib
import logging
import os
import platform
import shutil
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from functools import cache

import msgspec

from treadle import __version__, agents
from treadle.agent.offered_models import MOST, own_models
from treadle.drivers.card import cards, launch_of
from treadle.errors import RemoteProtocolError, StorageError, TreadleError
from treadle.fleet import keeper
from treadle.fleet.engine import layout, places, server, tasks
from treadle.fleet.engine.bus import STATE, Bus, Unreachable
from treadle.fleet.engine.server import EngineHealth
from treadle.fleet.engine.streams import Pull
from treadle.fleet.join import invitations, machines
from treadle.fleet.orders import NULL, encode, read_order, read_spec
from treadle.fleet.run import runs
from treadle.fleet.run.terminals import OrderTerminals
from treadle.fleet.schedule.scheduler import RidesAlong, Scheduler
from treadle.io import files
from treadle.io.files import locked, read, write_atomic
from treadle.io.process import child, table, warm
from treadle.io.process.loop import hold_secrets, on_signals, run_async
from treadle.io.process.tree import detach
from treadle.io.records import FileRecord
from treadle.io.tasks import start_held
from treadle.settings import config
from treadle.settings.config import AgentSettings
from treadle.wire.fleet import keys, messages
from treadle.wire.fleet.connection import read as read_message
from treadle.wire.fleet.records import NodeRecord, WorkRecord

# What a node can put to work: the agents that are installed on its machine, and the models of each that are known
# without asking any service. For people who choose; whether an order really fits is decided when it is placed.


def of_machine(env: Mapping[str, str] | None = None) -> dict[str, tuple[str, ...]]:
    """Agent -> models that it takes here. Settings that cannot be read leave our own agent."""
    env = os.environ if env is None else env
    try:
        settings = config.load(os.path.expanduser("~"), env).settings
        return {"native": own_models(settings, env), **_outside(settings.agents)}
    except TreadleError:
        return {"native": ()}


def _outside(settings: Mapping[str, AgentSettings]) -> dict[str, tuple[str, ...]]:
    found = {}
    for name in (*(card.name for card in cards().values() if not card.prefix), *settings):
        try:
            card, _ = agents.find_card(name, settings)
            launch = launch_of(card, settings.get(name))
        except TreadleError:
            continue
        if shutil.which(launch.argv[0]) is not None:
            found[name] = tuple(dict.fromkeys(each for each in (launch.model, *launch.models) if each))[:MOST]
    return found


log = logging.getLogger(__name__)

FORMAT = 1
RECORD_SECONDS = 15.0
DISK_LEAST = 16 * 1024 * 1024
"""How many bytes must be free where runs are kept, before anything is placed here."""
WARM = ("treadle.fleet.run.runner", "nats", "nats.js", "ssl")
"""What a warm parent of runners has loaded."""
RUNNERS = "runners"
COPY_SECONDS = 20.0
"""How long a copy of the warm parent has to report, before a separate program is started instead."""
WRONG_SECONDS = 30.0
"""How long a node that could not start a runner takes no orders."""
KEEP_SECONDS = 7 * 86400.0
"""How long the files of a run are kept on this machine."""


class NodeSettings(msgspec.Struct, frozen=True, kw_only=True):
    format: int = FORMAT
    name: str
    slots: int = 4
    labels: tuple[str, ...] = ()
    agents: tuple[str, ...] | None = None
    limits: dict[str, int] = {}
    role: str = "admin"
    schedule: bool = True
    """Whether it stands for election as the scheduler."""


SETTINGS = FileRecord(NodeSettings, format=FORMAT)


class Node:
    def __init__(self, fleet: places.Fleet, settings: NodeSettings, passengers: Sequence[RidesAlong] = ()) -> None:
        self._passengers = passengers
        self.fleet = fleet
        self.settings = settings
        self.name = settings.name
        self.leaving = ""
        self.stopping = asyncio.Event()
        self.bus: Bus
        self._runs: dict[tuple[str, int], int] = {}
        """Order and attempt -> a handle on its runner."""
        self._pids: dict[tuple[str, int], int] = {}
        self._taking: set[tuple[str, int]] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._reports: set[asyncio.Task[None]] = set()
        self.terminals = OrderTerminals(self.name, self.report)
        self._looking = MachineLook()
        self._wrong = ""
        self._wrong_until = 0.0
        self._refused = ""
        """Why the scheduler gives this node nothing to do."""
        self._engine = EngineHealth(time.monotonic())

    async def run(self) -> None:
        """Run until told to stop. Runners are left at work."""
        if self.fleet.private:
            self._tasks.append(asyncio.create_task(self._keep_engine()))
        self.bus = await self._connect()
        if self.settings.schedule:  # a worker may not
            await layout.ensure(self.bus, replicas=self.fleet.replicas, lease=self.fleet.lease)
        subscription = await self.bus.serve(f"fleet.tell.{self.name}.node", self._on_message)
        await self.terminals.serve(self.bus)
        if self.fleet.private:
            await invitations.serve(self.bus)
            self._tasks.append(asyncio.create_task(self._keep_tunnels()))
        key = await asyncio.to_thread(places.session_key) if self.settings.schedule else ""
        scheduler = Scheduler(self.bus, self.name, self.fleet.lease, self._passengers, key)
        if self.settings.schedule:
            self._tasks.append(asyncio.create_task(scheduler.run()))
        self._tasks += [asyncio.create_task(task) for task in (self._beat(), self._take_work(), self._record())]
        stopping = asyncio.create_task(self.stopping.wait())
        try:
            await asyncio.wait([stopping, *self._tasks], return_when=asyncio.FIRST_COMPLETED)
            for task in self._tasks:
                if task.done():
                    task.result()
        finally:
            stopping.cancel()
            self.leaving = self.leaving or "it was stopped"
            await self._beat_once()
            await tasks.end([*self._tasks, *self._reports])
            await self.terminals.close()
            await scheduler.resign()
            for handle in self._runs.values():
                asyncio.get_running_loop().remove_reader(handle)
                os.close(handle)
            with contextlib.suppress(Exception):
                await subscription.unsubscribe()
            await self.bus.close()

    def stop(self) -> None:
        self.stopping.set()

    # The engine...

    async def _connect(self) -> Bus:
        while True:
            try:
                return await Bus.connect(self.fleet.address(self.settings.role), name=f"node {self.name}")
            except Unreachable as error:
                log.info("%s", error)
                await asyncio.sleep(0.2)

    async def _keep_engine(self) -> None:
        """Start the private server when there is none: it was killed, or the machine was restarted."""
        while True:
            if not server.is_up():
                try:
                    await asyncio.to_thread(self._restart_engine)
                except (TreadleError, OSError) as error:
                    log.error("the engine cannot be started: %s", error)
            await asyncio.sleep(0.5)

    def _restart_engine(self) -> None:
        if not keeper.watched() or keeper.may_start("engine", server.log_path()):
            # Read the settings again: machines may have joined since we started.
            if server.start(places.load()):
                keeper.started("engine")

    async def _keep_tunnels(self) -> None:
        """One tunnel for each machine added over SSH: restarted when it ends, ended when the machine is removed."""
        running: dict[machines.Tunnel, asyncio.Task[None]] = {}
        try:
            while True:
                wanted = await asyncio.to_thread(machines.tunnels)
                for tunnel in [each for each in running if each not in wanted]:
                    await tasks.end([running.pop(tunnel)])
                for tunnel in wanted:
                    if tunnel not in running:
                        running[tunnel] = asyncio.create_task(self._keep_tunnel(tunnel.name, tunnel.argv))
                await asyncio.sleep(2.0)
        finally:
            await tasks.end(running.values())

    async def _keep_tunnel(self, name: str, argv: tuple[str, ...]) -> None:
        while True:
            try:
                async with await child.start(argv, stdout=None) as tunnel:
                    await tunnel.wait()
                    log.warning("the tunnel to %s ended: %s", name, (await tunnel.last_words()).strip()[-300:])
            except TreadleError as error:
                log.warning("the tunnel to %s cannot be made: %s", name, error)
            await asyncio.sleep(1.0)

    async def _on_message(self, subject: str, data: bytes) -> bytes | None:
        if isinstance(message := read_message(subject, data), messages.Leave):
            self.leaving = message.why or "it goes down"
            await self._beat_once()
        return encode(messages.NodeRuns(runs=list(self._runs)))

    # Being heard...

    async def _beat(self) -> None:
        while True:
            await self._beat_once()
            await asyncio.sleep(self.fleet.lease / 5)

    async def _beat_once(self) -> None:
        settings = self.settings
        beat = messages.NodeBeat(
            format=messages.FLEET_FORMAT,
            slots=settings.slots,
            labels=settings.labels,
            agents=settings.agents,
            limits=settings.limits,
            leaving=self.leaving or self._trouble(),
            version=__version__,
            runs=[key for key, pid in self._pids.items() if _works(pid)],
            machine=self._machine(),
        )
        subject, patience = f"fleet.beat.{self.name}.node", self.fleet.lease / 3
        with contextlib.suppress(Unreachable, RemoteProtocolError):
            answer = await self.bus.ask(subject, messages.NodeBeatAnswer, beat, timeout=patience)
            if answer.refused and answer.refused != self._refused:
                log.error("the scheduler gives this node nothing to do: %s", answer.refused)
            self._refused = answer.refused

    def _machine(self) -> messages.MachineSeen:
        (memory_free, memory), (disk_free, disk) = memory_of_machine(), disk_of(places.inside())
        return messages.MachineSeen(
            cpus=os.cpu_count() or 0,
            cpu=self._looking.cpu(),
            memory_free=memory_free,
            memory=memory,
            disk_free=disk_free,
            disk=disk,
        )

    def _trouble(self) -> str:
        """Why nothing should be placed here now; empty when something may."""
        if free_disk(places.inside()) < DISK_LEAST:
            return "its disk is full"
        return self._wrong if time.monotonic() < self._wrong_until else ""

    async def _record(self) -> None:
        """What the fleet knows of this node even when it is gone."""
        while True:
            record = NodeRecord(
                format=FORMAT,
                name=self.name,
                host=platform.node(),
                pid=os.getpid(),
                slots=self.settings.slots,
                labels=self.settings.labels,
                agents=self.settings.agents,
                offers=await asyncio.to_thread(of_machine),
                version=__version__,
                heard=time.time(),
            )
            try:
                async with asyncio.timeout(self.fleet.lease):
                    await self.bus.put(keys.NODE(self.name), encode(record))
                self._engine.stored(time.monotonic())
            except (TimeoutError, Unreachable, StorageError):
                await self._repair_store()
            with contextlib.suppress(OSError, TreadleError):
                await asyncio.to_thread(_forget_old_runs)
                await asyncio.to_thread(keeper.ensure)  # it keeps us, and we it
            await asyncio.sleep(
                self.fleet.lease / 2 if self._engine.failing else min(RECORD_SECONDS, 3 * self.fleet.lease)
            )

    async def _repair_store(self) -> None:
        """After its disk was full, a server stores nothing until it is restarted, even when there is room again."""
        try:
            last: int | None = await self.bus.last_revision()
        except Unreachable:
            last = None
        why = self._engine.not_stored(last, time.monotonic())
        found = server.running() if self.fleet.private and why else None
        if found is None or not _works(found.pid):  # one that a person has stopped goes on when they let it
            return
        if free_disk(server.directory()) < DISK_LEAST:
            log.error("the engine stores nothing: its disk is full")
        elif await asyncio.to_thread(server.stop):
            log.warning("the engine is started again: %s", why)
            self._engine.stored(time.monotonic())

    async def report(self, report: messages.RunReport, number: str = "") -> None:
        headers = {"Nats-Msg-Id": f"{report.order}.{report.attempt}.{report.KIND}.node.{number}"}
        while True:
            try:
                await self.bus.publish(f"fleet.in.node.{self.name}.{report.KIND}", encode(report), headers)
                return
            except Unreachable:
                await asyncio.sleep(0.2)

    def _report_later(self, report: messages.RunReport) -> None:
        start_held(self._reports, self.report(report))

    # Work...

    async def _take_work(self) -> None:
        # Read from the first message on, so that what is already placed here comes again.
        pull = Pull(self.bus, STATE, filters=(keys.WORK.subject(self.name),))
        try:
            while True:
                work = [
                    keys.WORK.read(message.data, message.subject)
                    for message in await pull.next(5.0)
                    if not (message.headers or {}).get("KV-Operation")
                ]
                await asyncio.gather(*(self._take_one(each) for each in work))
        finally:
            await pull.close()

    async def _take_one(self, work: WorkRecord) -> None:
        key = (work.order, work.attempt)
        if key in self._runs or key in self._taking:
            return
        self._taking.add(key)
        try:
            await self._try(work)
        except (TreadleError, OSError) as error:
            log.error("%s.%d cannot be started here: %s", *key, error)
            self._wrong, self._wrong_until = f"it could not start an order: {error}", time.monotonic() + WRONG_SECONDS
            why = f"it could not be started there: {error}"
            self._report_later(messages.RunLost(order=work.order, attempt=work.attempt, why=why))
            await self._beat_once()
        finally:
            self._taking.discard(key)

    async def _try(self, work: WorkRecord) -> None:
        if work.agent == NULL and not work.commands:  # there is nothing to do, so no runner is needed
            self._report_later(messages.RunEnded(order=work.order, attempt=work.attempt, outcome="done"))
        else:
            await self._take(work.order, work.attempt)

    async def _take(self, order: str, attempt: int) -> None:
        directory = runs.directory(order, attempt)
        if os.path.isdir(directory):
            return self._find_runner(order, attempt, directory)
        entry, spec = await self.bus.get(keys.ORDER(order)), await self.bus.get(keys.SPEC(order))
        if entry is None or spec is None:
            return
        known, given = read_order(entry), read_spec(spec.value)
        if known.attempt != attempt or known.node != self.name or known.ended:
            return  # it has moved on
        job = runs.RunJob(
            spec=given.by_agent(known.agent),
            order=known,
            role=self.settings.role,
            lease=self.fleet.lease,
        )
        directory = runs.prepare(job)
        if (pid := await asyncio.to_thread(_start_runner, directory)) is not None:
            return self._watch(order, attempt, pid, directory)
        self._report_later(messages.RunLost(order=order, attempt=attempt, why=_how_it_ended(directory)))

    def _find_runner(self, order: str, attempt: int, directory: str) -> None:
        """Find the runner of a run that began before this node: it is alive and goes on, or it is gone."""
        runner = runs.runner_of(directory)
        if runner is not None:
            log.info("%s.%d is adopted: its runner is %d", order, attempt, runner.pid)
            self._watch(order, attempt, runner.pid, directory)
        else:
            why = "its runner was gone when the node came back"
            self._report_later(messages.RunLost(order=order, attempt=attempt, why=why))

    def _watch(self, order: str, attempt: int, pid: int, directory: str) -> None:
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            return self._report_later(messages.RunLost(order=order, attempt=attempt, why="its runner ended at once"))
        self._runs[order, attempt], self._pids[order, attempt] = handle, pid
        loop = asyncio.get_running_loop()

        def gone() -> None:
            loop.remove_reader(handle)
            os.close(handle)
            self._runs.pop((order, attempt), None)
            self._pids.pop((order, attempt), None)
            # If the runner has reported its end, that report counts and this one does not.
            self._report_later(messages.RunLost(order=order, attempt=attempt, why=_how_it_ended(directory)))

        loop.add_reader(handle, gone)


def _works(pid: int) -> bool:
    """Whether a process is alive and not stopped."""
    found = table.look(pid)
    return found is not None and found.state not in "TtZX"


def _start_runner(directory: str) -> int | None:
    """Start a runner as a copy of a warm parent, which is fast and shares memory, else as a program. Either way a
    keeper ends what it leaves. Returns its pid; None when it has begun and is gone, as when it was killed at once."""
    log = os.path.join(directory, "runner.log")
    with contextlib.ExitStack() as stack:
        fd = files.open_append(log)
        stack.callback(os.close, fd)
        if warm.spawn(
            "treadle.fleet.run.runner", "forked", [directory], [fd], start=WARM, name=f"{RUNNERS}-{_stamp()}"
        ):
            deadline = time.monotonic() + COPY_SECONDS
            while time.monotonic() < deadline:
                # Asked first: a runner that begins between the two is not taken for one that is gone.
                has_begun = os.path.exists(os.path.join(directory, "runner.json"))
                if (found := runs.runner_of(directory)) is not None:
                    return found.pid
                if has_begun:
                    return None
                time.sleep(0.01)
    return detach([sys.executable, "-P", "-m", "treadle.fleet.run.runner", directory], cwd=directory, log=log)


@cache
def _stamp() -> str:
    """Changes with the program, so that no copy runs an older version."""
    top = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    times = [os.stat(os.path.join(here, name)).st_mtime_ns for here, _, names in os.walk(top) for name in names]
    return f"{max(times, default=0) // 1000 & 0xFFFFFFFF:08x}"


# How busy this machine is.

PROC = "/proc"


class MachineLook:
    """Looks now and then. How busy the processors are is measured over the time since the look before."""

    def __init__(self) -> None:
        self._busy, self._all = _processor_times()

    def cpu(self) -> float | None:
        """The share of all processors that was used, from 0 to 1; None where the system does not tell."""
        busy, everything = _processor_times()
        used, time = busy - self._busy, everything - self._all
        self._busy, self._all = busy, everything
        return min(1.0, max(0.0, used / time)) if time > 0 else None


def memory_of_machine() -> tuple[int, int]:
    """Bytes of memory that programs could still get, and all of it; zeros where the system does not tell."""
    try:
        rows = dict(line.split(":", 1) for line in read(f"{PROC}/meminfo").decode().splitlines() if ":" in line)
        free, whole = (int(rows[name].split()[0]) * 1024 for name in ("MemAvailable", "MemTotal"))
        return free, whole
    except (StorageError, KeyError, ValueError, IndexError):
        return 0, 0


def disk_of(directory: str) -> tuple[int, int]:
    """Bytes of a directory's file system that are free for us, and all of it."""
    found = os.statvfs(directory)
    return found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize


def _processor_times() -> tuple[int, int]:
    try:
        ticks = [int(each) for each in read(f"{PROC}/stat").split(b"\n", 1)[0].split()[1:9]]
    except (StorageError, ValueError):
        return 0, 0
    return sum(ticks) - sum(ticks[3:5]), sum(ticks)  # idle, and waiting for a disk, is not used


def free_disk(directory: str) -> int:
    return disk_of(directory)[0]


def _how_it_ended(directory: str) -> str:
    """What is known about the end of a runner that did not report it."""
    try:
        lines = read(os.path.join(directory, "runner.log"))[-2000:].decode(errors="replace").strip().splitlines()
    except StorageError:
        lines = []
    return "its runner was ended" + (f": {lines[-1]}" if lines else ", without a word")


def _forget_old_runs() -> None:
    """Remove the files of runs that ended long ago, but never a worktree: that may hold a person's work."""
    for _, _, directory in runs.all_here():
        try:
            age = time.time() - os.stat(directory).st_mtime
        except OSError:
            continue
        if age > KEEP_SECONDS and not os.path.exists(os.path.join(directory, "work")):
            if runs.runner_of(directory) is None:
                shutil.rmtree(directory, ignore_errors=True)


def directory_of(name: str) -> str:
    return places.inside("nodes", name)


def save_settings(settings: NodeSettings) -> None:
    SETTINGS.save(os.path.join(directory_of(settings.name), "node.json"), settings)


def known_settings(name: str) -> NodeSettings | None:
    return SETTINGS.load(os.path.join(directory_of(name), "node.json"))


def load_settings(name: str) -> NodeSettings:
    return SETTINGS.get(os.path.join(directory_of(name), "node.json"))


async def serve(settings: NodeSettings, passengers: Sequence[RidesAlong] = ()) -> None:
    """Be a node until SIGTERM or SIGINT. Only one node of a name runs on a machine: a second one raises Busy."""
    here = directory_of(settings.name)
    with locked(os.path.join(here, "lock"), 0):
        write_atomic(os.path.join(here, "pid"), str(os.getpid()).encode(), sync=False)
        node = Node(places.load(), settings, passengers)
        on_signals(lambda _: node.stop(), (signal.SIGTERM, signal.SIGINT))
        await node.run()


def start(passengers: Sequence[RidesAlong] = ()) -> None:
    """`python -m treadle.fleet.node NAME`, with the settings in its directory."""
    hold_secrets()
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(name)s %(message)s")
    try:
        run_async(serve(load_settings(sys.argv[1]), passengers))
    except TreadleError as error:
        print(f"treadle: {error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    start()
