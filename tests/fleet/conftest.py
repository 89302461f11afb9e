"""A fleet for a test: a real engine on loopback, in a state directory of its own, and nothing of it left afterwards."""

import asyncio
import os
import shutil
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from treadle.fleet import client, keeper, node, up
from treadle.fleet.engine import layout, places, server
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import new_id
from treadle.io.process import table, warm
from treadle.serve import background
from treadle.wire.fleet.messages import RunActivity, Why
from treadle.wire.fleet.orders import Spec
from treadle.wire.fleet.records import Order


def end_late_runners(home: str, rounds: int) -> None:
    """A runner that was only being started when its node was killed has not said yet that it is there."""
    quiet, deadline = 0, time.monotonic() + 60
    while quiet < rounds and time.monotonic() < deadline:
        late = [one for one in table.processes() if any(home in word for word in table.command_line(one.pid))]
        for process in late:
            table.send(process, signal.SIGKILL)
        quiet = 0 if late else quiet + 1
        if quiet < rounds:
            time.sleep(0.02)


@pytest.fixture(autouse=True)
def nothing_left(state_home: Path) -> Iterator[None]:
    """Whatever a test started in its own state directory is gone when it has ended."""
    yield
    had_fleet = os.path.isdir(places.root())
    had_node = any(os.path.isdir(os.path.join(places.root(), part)) for part in ("nodes", "runs"))
    if had_fleet:
        keeper.stop()
    background.stop()
    for _, process in list(up.local_nodes()):
        if process is not None:
            table.send(process, signal.SIGKILL)
    for _, _, note in up.live_runners():
        if (found := table.look(note.pid)) is not None:
            table.send(found, signal.SIGKILL)
    if had_fleet:
        server.stop()
        shutil.rmtree(places.root(), ignore_errors=True)
    end_late_runners(str(state_home), rounds=3 if had_node else 1)
    warm.dismiss(node.RUNNERS)


def make_fleet(lease: float = 2.0, users: tuple[str, ...] = ("admin", "submit", "watch")) -> places.Fleet:
    made = places.Fleet(
        url=f"nats://127.0.0.1:{server.free_port()}",
        users={role: f"secret-{role}" for role in users},
        lease=lease,
        session_key=places.new(),
    )
    places.save(made)
    return made


@pytest.fixture
async def fleet(nothing_left: None) -> AsyncIterator[places.Fleet]:
    """An engine with its streams, and nobody on it."""
    made = make_fleet()
    server.start(made)
    bus = await server.await_ready(made)
    await layout.ensure(bus, lease=made.lease)
    await bus.close()
    yield made


@pytest.fixture
async def bus(fleet: places.Fleet) -> AsyncIterator[Bus]:
    made = await Bus.connect(fleet.address("admin"), name="test")
    yield made
    await made.close()


Start = Callable[..., Awaitable[node.Node]]


@pytest.fixture
async def start_node(fleet: places.Fleet, bus: Bus) -> AsyncIterator[Start]:
    """Nodes in the test's own process; their runners are processes of their own."""
    running: list[tuple[node.Node, asyncio.Task[None]]] = []

    async def start(name: str = "n1", **settings: object) -> node.Node:
        made = node.Node(fleet, node.NodeSettings(name=name, **settings))  # type: ignore[arg-type]
        running.append((made, asyncio.create_task(made.run())))
        await await_node(bus, name)
        return made

    yield start
    for made, task in running:
        made.stop()
        async with asyncio.timeout(60):
            await asyncio.gather(task, return_exceptions=True)


async def await_node(bus: Bus, name: str) -> None:
    async with asyncio.timeout(60):
        while not any(each.name == name and each.alive for each in await client.nodes(bus)):
            await asyncio.sleep(0.02)


async def until_offers(bus: Bus, name: str) -> None:
    """Until the node has said which agents it has, which it does a moment after its first beat."""
    async with asyncio.timeout(60):
        while not any(each.name == name and each.offers for each in await client.nodes(bus)):
            await asyncio.sleep(0.02)


def activity_of(why: Why) -> RunActivity:
    """What a runner reported last; all defaults while it has reported nothing."""
    return why.activity or RunActivity()


def spec(agent: str = "null", **fields: object) -> Spec:
    return Spec(id=str(fields.pop("id", "") or new_id()), task="do it", agent=agent, **fields)  # type: ignore[arg-type]


async def give(bus: Bus, *specs: Spec) -> list[str]:
    return [each.id for each in await client.submit(bus, specs)]


async def until_state(bus: Bus, name: str, *states: str) -> Order:
    """The order as soon as it is in one of these states."""
    async with asyncio.timeout(60):
        while (order := await client.get_order(bus, name)).state not in states:
            await asyncio.sleep(0.02)
    return order


def await_gone(pid: int) -> None:
    """Until a process that was killed is no more, with the store that it held."""
    deadline = time.monotonic() + 60
    while table.look(pid) is not None or server.is_up():
        assert time.monotonic() < deadline
        time.sleep(0.01)


async def runner_pid(name: str, attempt: int = 1) -> int:
    from treadle.fleet.run import runs

    async with asyncio.timeout(60):
        while (note := runs.runner_of(runs.directory(name, attempt))) is None:
            await asyncio.sleep(0.02)
    return note.pid


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    from tests.fleet.repositories import git

    place = tmp_path / "repo"
    place.mkdir()
    (place / "a.txt").write_text("one\n")
    (place / "b.txt").write_text("one\n")
    (place / ".gitignore").write_text(".env\n")
    (place / ".env").write_text("KEY=1\n")
    git(place, "init", "-q", "-b", "main")
    git(place, "add", "-A")
    git(place, "commit", "-qm", "start")
    return place
