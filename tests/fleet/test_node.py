"""A node: how it starts runners, and what it says when it cannot."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.conftest import need
from tests.fleet.conftest import Start, give, make_fleet, runner_pid, spec, until_state
from tests.fleet.engine.buses import StoringClient
from tests.fleet.engine.buses import pauses as pauses
from tests.waiting import stop
from treadle import __version__
from treadle.errors import Busy
from treadle.fleet import client, node
from treadle.fleet.engine import bus as engine
from treadle.fleet.engine import places, server
from treadle.fleet.engine.bus import Bus
from treadle.fleet.engine.server import BROKEN_LOOKS, SILENT_LOOKS
from treadle.fleet.join import machines
from treadle.fleet.orders import begun, encode
from treadle.fleet.run import runs
from treadle.io.files import locked
from treadle.io.process import warm
from treadle.wire.fleet import messages
from treadle.wire.fleet.connection import read_as
from treadle.wire.fleet.messages import NodeBeat
from treadle.wire.fleet.records import NodeRecord


async def test_runners_are_copies_of_a_warm_parent_that_ends_when_it_is_dismissed(
    bus: Bus, start_node: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREADLE_WARM", "60")
    await start_node()
    one, two = await give(bus, spec("null:60:60"), spec("null:60:60"))
    pids = [await runner_pid(one), await runner_pid(two)]
    parents = {int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]) for pid in pids}
    assert len(parents) == 1 and "treadle-warm" in Path(f"/proc/{parents.pop()}/comm").read_text()
    warm.dismiss(node.RUNNERS)
    await until_state(bus, one, "running")
    for name in (one, two):
        await client.cancel(bus, name)
        assert (await client.wait(bus, name, 60)).state == "cancelled"


async def test_a_node_says_whose_runners_it_sees_and_not_one_that_is_stopped(bus: Bus, start_node: Start) -> None:
    await start_node()
    beats: asyncio.Queue[NodeBeat] = asyncio.Queue()

    async def hear(subject: str, data: bytes) -> None:
        beats.put_nowait(read_as(NodeBeat, data, subject))

    async def until_seen(runs: list[tuple[str, int]]) -> None:
        async with asyncio.timeout(60):
            while (await beats.get()).runs != runs:
                pass

    listening = await bus.serve("fleet.beat.n1.node", hear)
    (name,) = await give(bus, spec("null:60:60"))
    pid = await runner_pid(name)
    await until_seen([(name, 1)])
    stop(pid)
    await until_seen([])
    os.kill(pid, signal.SIGCONT)
    await listening.unsubscribe()
    await client.cancel(bus, name)
    assert (await client.wait(bus, name, 60)).state == "cancelled"


@pytest.mark.slow
async def test_a_runner_outlives_the_warm_parent_it_came_from(
    bus: Bus, start_node: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREADLE_WARM", "60")
    await start_node()
    (name,) = await give(bus, spec("null:2:6"))
    await runner_pid(name)
    warm.dismiss(node.RUNNERS)
    order = await client.wait(bus, name, 60)
    assert order.state == "done" and order.attempt == 1


@pytest.mark.parametrize(("killed", "outcomes"), [(False, ["done"]), (True, ["lost", "done"])])
async def test_a_runner_that_comes_or_goes_while_its_node_looks_for_it_is_no_fault_of_the_node(
    bus: Bus, start_node: Start, monkeypatch: pytest.MonkeyPatch, killed: bool, outcomes: list[str]
) -> None:
    """It comes, or comes and is killed, when the node asks whether it has begun."""
    monkeypatch.setenv("TREADLE_WARM", "60")
    looks: list[str] = []
    exists = os.path.exists

    def late(path: str) -> bool:
        if os.path.basename(path) == "runner.json" and not (path in looks or looks and killed):
            looks.append(path)
            while (found := runs.runner_of(os.path.dirname(path))) is None:
                time.sleep(0.01)
            if killed:
                os.kill(found.pid, signal.SIGKILL)
                while runs.runner_of(os.path.dirname(path)) is not None:
                    time.sleep(0.01)
        return exists(path)

    monkeypatch.setattr(os.path, "exists", late)
    made = await start_node()
    (name,) = await give(bus, spec("null:1:2"))
    order = await client.wait(bus, name, 60)
    assert [each.outcome for each in order.attempts] == outcomes
    assert made._wrong == ""


async def test_a_node_that_cannot_start_a_runner_says_so_and_takes_nothing_more(
    bus: Bus, start_node: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    await start_node("bad", slots=4, labels=("here",))
    await start_node("good", slots=4)
    place = Path(runs.places.inside("runs"))
    place.rmdir()
    place.write_text("no directory")  # as good as a disk that takes nothing
    try:
        (name,) = await give(bus, spec("null:0.1:2", labels=("here",)))
        async with asyncio.timeout(60):
            while not any("could not start" in each.says for each in await client.nodes(bus)):
                await asyncio.sleep(0.05)
            while (tried := (await client.get_order(bus, name)).attempts[0]).outcome != "lost":
                await asyncio.sleep(0.05)  # the scheduler hears of it apart from the node's beats
        assert "could not be started there" in tried.why
    finally:
        place.unlink()
        os.mkdir(place, 0o700)


async def test_a_node_without_room_on_its_disk_takes_nothing(
    bus: Bus, start_node: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node, "DISK_LEAST", 1 << 62)
    await start_node()
    (name,) = await give(bus, spec())
    async with asyncio.timeout(60):
        while "disk is full" not in str((await client.why(bus, name)).nodes):
            await asyncio.sleep(0.05)


def test_what_is_known_of_a_runner_that_left_no_report(tmp_path: Path) -> None:
    assert node._how_it_ended(str(tmp_path)) == "its runner was ended, without a word"
    (tmp_path / "runner.log").write_text("first\nlast words\n")
    assert node._how_it_ended(str(tmp_path)) == "its runner was ended: last words"


FULL_DISK = """
import asyncio, os, sys
from treadle.errors import StorageError, TreadleError
from treadle.fleet import client, up
from treadle.fleet.engine import places
from treadle.fleet.orders import Spec, new_id

def order(name):
    return Spec(id=name, task="t", agent="null")

async def main():
    os.makedirs(places.root())
    assert os.system(f"mount -t tmpfs -o size=40m,mode=700 none {places.root()}") == 0
    await up.up(name="n1", lease=2.0)
    filler = os.path.join(places.root(), "filler")
    async with client.connected() as bus:
        given, said = [], ""
        with open(filler, "wb", buffering=0) as file:
            try:
                while file.write(bytes(4096)):
                    pass
            except OSError:
                pass
        while not said:
            try:
                given += [each.id for each in await client.submit(bus, [order(new_id())])]
            except StorageError as error:
                said = str(error)
        full = (await up.status())["problem"]
        os.unlink(filler)
        async with asyncio.timeout(120):
            for name in given:
                assert (await client.wait(bus, name)).state == "done", name
            while True:
                try:
                    (last,) = await client.submit(bus, [order(new_id())])
                    break
                except TreadleError:
                    pass
            assert (await client.wait(bus, last.id)).state == "done"
    await up.down()
    print("has stored nothing" in said, "disk is full" in full, flush=True)

asyncio.run(main())
"""


@pytest.mark.slow
def test_where_the_engines_disk_is_full_nothing_given_is_lost_and_all_goes_on_when_there_is_room() -> None:
    command = [need("unshare"), "-rm", sys.executable, "-c", FULL_DISK]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"no disk of our own can be mounted here: {done.stderr.strip()}")
    assert done.stdout.split() == ["True", "True"], done.stdout + done.stderr


@pytest.mark.slow
async def test_an_engine_that_only_hangs_for_a_while_is_not_started_again(
    bus: Bus, start_node: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "LOOK_SECONDS", (0.1, 0.1))
    made, before = await start_node(), server.running()
    assert before is not None
    stop(before.pid)
    try:
        for _ in range(2 * SILENT_LOOKS):
            await made._repair_store()
    finally:
        os.kill(before.pid, signal.SIGCONT)
    (given,) = await give(bus, spec())
    assert (await client.wait(bus, given, 60)).state == "done" and server.running() == before


async def test_a_node_says_how_busy_its_machine_is(bus: Bus, start_node: Start) -> None:
    await start_node()
    (found,) = await client.nodes(bus)
    seen = found.machine
    assert seen is not None and seen.cpus == os.cpu_count()
    assert 0 < seen.memory_free <= seen.memory and 0 < seen.disk_free <= seen.disk
    assert seen.cpu is None or 0.0 <= seen.cpu <= 1.0


def test_settings_are_kept_and_old_runs_are_forgotten_but_no_work_and_none_that_goes_on(
    state_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = node.NodeSettings(name="n1", slots=2, labels=("gpu",), agents=("null",), limits={"agent": 1})
    node.save_settings(settings)
    assert node.load_settings("n1") == settings and node.NodeSettings(name="n").schedule
    old, kept, goes_on, new = (Path(places.inside("runs", f"{name}.1")) for name in ("old", "kept", "goes-on", "new"))
    (kept / "work").mkdir()
    runs.note_runner(str(goes_on))
    for each in (old, kept, goes_on):
        os.utime(each, (1.0, 1.0))
    with locked(runs.lock_of(str(goes_on)), 0):
        os.utime(goes_on, (1.0, 1.0))
        node._forget_old_runs()
    assert [each.exists() for each in (old, kept, goes_on, new)] == [False, True, True, True]


async def test_a_second_node_of_a_name_is_refused(fleet: places.Fleet) -> None:
    here = node.directory_of("n1")
    with locked(os.path.join(here, "lock"), 0), pytest.raises(Busy):
        await node.serve(node.NodeSettings(name="n1"))


async def test_a_node_that_is_told_to_leave_says_why_and_what_runs(bus: Bus, start_node: Start) -> None:
    made = await start_node("n1", labels=("gpu",), limits={"agent": 2})
    reply = await bus.request("fleet.tell.n1.node", encode(messages.Leave(why="it restarts")), timeout=60)
    assert msgspec.json.decode(reply.data) == {} and made.leaving == "it restarts"
    (row,) = await client.nodes(bus)
    assert row.says == "it restarts" and row.machine is not None and row.machine.cpus == os.cpu_count()
    assert row.machine.memory > row.machine.memory_free > 0 and row.machine.disk > row.machine.disk_free > 0
    await bus.request("fleet.tell.n1.node", encode(messages.Leave()), timeout=60)
    assert made.leaving == "it goes down"
    async with asyncio.timeout(60):
        while (entry := await bus.get("node.n1")) is None:
            await asyncio.sleep(0.02)
    record = msgspec.json.decode(entry.value, type=NodeRecord)
    assert (record.name, record.slots, record.labels, record.pid) == ("n1", 4, ("gpu",), os.getpid())
    assert record.version == __version__ and record.heard > 1e9 and "native" in record.offers


# Without an engine: what it does about each order, and what it says...


@pytest.fixture
def there() -> StoringClient:
    return StoringClient()


def made(there: StoringClient, **settings: Any) -> node.Node:
    found = node.Node(make_fleet(), node.NodeSettings(name="n1", **settings))
    found.bus = there.bus()
    return found


async def test_an_engine_that_stores_nothing_is_started_again_unless_its_disk_is_full(
    there: StoringClient, fleet: places.Fleet, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    one = node.Node(fleet, node.NodeSettings(name="n1"))
    one.bus = there.bus()
    before = server.running()
    for _ in range(BROKEN_LOOKS - 1):
        await one._repair_store()
    assert one._engine.failing and server.running() == before, "it may be slow"
    with monkeypatch.context() as patch:
        patch.setattr(node, "DISK_LEAST", 1 << 62)
        await one._repair_store()
    assert server.is_up() and caplog.messages == ["the engine stores nothing: its disk is full"]
    other = node.Node(replace(fleet, private=False), node.NodeSettings(name="n1"))
    other.bus, other._engine = one.bus, one._engine
    await other._repair_store()
    assert server.is_up(), "that of others is not ours to restart"
    await one._repair_store()
    assert not server.is_up() and not one._engine.failing
    why = "it answers and stores nothing, though there is room"
    assert caplog.messages[1:] == [f"the engine is started again: {why}"]
    for _ in range(BROKEN_LOOKS):
        await one._repair_store()
    assert len(caplog.messages) == 2, "there is none to stop"


async def test_tunnels_are_kept_while_their_machines_are_known(
    there: StoringClient, state_home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    one = made(there)
    calls: list[tuple[str, tuple[str, ...]]] = []
    ended: list[str] = []

    async def keep(name: str, argv: tuple[str, ...]) -> None:
        calls.append((name, argv))
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(name)

    monkeypatch.setattr(one, "_keep_tunnel", keep)
    known = [[machines.Tunnel(name="a", argv=("ssh", "a")), machines.Tunnel(name="b", argv=("ssh", "b"))], []]
    known[1] = known[0][1:]
    place, sleep, turns = Path(places.inside(), "tunnels.json"), asyncio.sleep, list[float]()
    place.write_bytes(msgspec.json.encode(known[0]))

    async def pause(seconds: float) -> None:
        turns.append(seconds)
        for _ in range(3):
            await sleep(0)
        place.write_bytes(msgspec.json.encode(known[1] if len(turns) > 1 else known[0]))
        if len(turns) == 4:
            raise asyncio.CancelledError

    monkeypatch.setattr(asyncio, "sleep", pause)
    with pytest.raises(asyncio.CancelledError):
        await one._keep_tunnels()
    assert calls == [("a", ("ssh", "a")), ("b", ("ssh", "b"))] and ended == ["a", "b"] and set(turns) == {2.0}


async def test_only_what_is_placed_here_now_is_started(there: StoringClient, state_home: Path) -> None:
    one, given = made(there), spec("native", id="a")
    order = replace(begun(given, 1.0), state="placed", node="n1", attempt=2)
    for more in ({"attempt": 3}, {"node": "n2"}, {"state": "cancelled"}):
        await one.bus.put("order.a", encode(replace(order, **more)))
        await one.bus.put("spec.a", encode(given))
        await one._take("a", 2)
    assert not os.path.exists(runs.directory("a", 2))
