"""Terminals of orders over the engine: a shell in a worktree, and an agent kept in a terminal."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from tests.fleet.conftest import Start, activity_of, give, until_state
from tests.fleet.repositories import DONE, bash, model, says, work
from treadle.errors import LocalError
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.fleet.run import runs
from treadle.fleet.run.interactive import command
from treadle.fleet.run.terminals import Carried, What, start
from treadle.io import sockets
from treadle.terminal.client import Client
from treadle.terminal.places import Place
from treadle.wire.fleet.messages import TerminalRead
from treadle.wire.fleet.orders import Spec


@asynccontextmanager
async def carried(bus: Bus, order: str, what: What, path: Path) -> AsyncIterator[None]:
    made = Carried(bus, "n1", order, what, "ana")
    serving = await asyncio.start_unix_server(made.carry, path)
    async with serving:
        yield


def type_in(path: Path, text: str) -> None:
    with Client(str(path), timeout=30.0) as terminal:
        terminal.input(text.encode())
        terminal.status()


async def until_there(path: Path) -> None:
    async with asyncio.timeout(60):
        while not path.exists():
            await asyncio.sleep(0.05)


async def test_a_shell_in_the_worktree_of_an_order_and_the_receipt_says_so(
    bus: Bus,
    start_node: Start,
    repository: Path,
    tmp_path: Path,
) -> None:
    await start_node()
    waits = says("I wait.", bash("while [ ! -e .env ]; do sleep 0.05; done"), turn=1)
    order = work(repository, model(tmp_path, waits, DONE), rules=("allow Bash",))
    await give(bus, order)
    tree = Path(runs.directory(order.id, 1)) / "work"
    async with asyncio.timeout(60):
        while not activity_of(await client.why(bus, order.id)).open_tools:
            await asyncio.sleep(0.05)
    async with carried(bus, order.id, "shell", tmp_path / "s"):
        await asyncio.to_thread(type_in, tmp_path / "s", "echo by hand > hand.txt; touch .env\n")
        await until_there(tree / ".env")
        ended = await client.wait(bus, order.id, 90)
    assert ended.result["changed"] == ["hand.txt"], ended
    receipt = await client.get_receipt(bus, order.id)
    assert receipt is not None
    assert [(note.by, note.what) for note in receipt.notes] == [("ana", "opened a shell in its worktree on n1")]


async def test_an_agent_in_a_terminal_is_typed_into_from_elsewhere_and_ends_with_its_program(
    bus: Bus,
    start_node: Start,
    repository: Path,
    tmp_path: Path,
) -> None:
    await start_node()
    order = msgspec.structs.replace(
        work(repository, "any"),
        agent="acp:sh",
        terminal=True,
        task="echo typed > task.txt; echo left > .env",
        setup="echo set >> .env",
        bring=(".env",),
        verify="test -e more.txt && test \"$(tr '\\n' ' ' < .env)\" = 'KEY=1 set ' && git diff --quiet HEAD -- a.txt",
    )
    await give(bus, order)
    await until_there(Path(runs.directory(order.id, 1)) / "work" / "task.txt")
    found = activity_of(await client.why(bus, order.id))
    assert found.doing.startswith(("terminal", "a terminal"))
    async with carried(bus, order.id, "agent", tmp_path / "s"):
        await asyncio.to_thread(type_in, tmp_path / "s", "echo more > more.txt; exit\n")
        ended = await client.wait(bus, order.id, 90)
    assert ended.state == "done" and ended.result["changed"] == ["more.txt", "task.txt"], ended
    assert ended.result["exit_code"] == 0 and ended.result["verified"] is True


async def test_an_order_in_a_terminal_is_cancelled_with_all_it_has_started(
    bus: Bus,
    start_node: Start,
    repository: Path,
) -> None:
    await start_node()
    order = msgspec.structs.replace(work(repository, "any"), agent="acp:cat", terminal=True)
    await give(bus, order)
    await until_state(bus, order.id, "running")
    await client.cancel(bus, order.id, by="ana")
    assert (await client.wait(bus, order.id, 90)).state == "cancelled"


async def test_what_has_no_terminal_or_worktree_says_so(bus: Bus, start_node: Start) -> None:
    await start_node()
    (name,) = await give(bus, Spec(id="o1", task="x", agent="null"))
    await client.wait(bus, name, 60)
    for what, problem in (("agent", "no terminal here"), ("shell", "no worktree")):
        with pytest.raises(LocalError, match=problem):
            await Carried(bus, "n1", name, what, "ana").open()
    with pytest.raises(LocalError, match="not there any more"):
        await Carried(bus, "n1", name, "agent", "ana").ask(TerminalRead(id="gone"))


def test_an_agent_for_a_person_is_its_program_alone() -> None:
    assert command("acp:my agent") == ["/bin/sh", "-c", "my agent"]
    assert "treadle.cli" in command("native")[3]


async def test_a_terminal_has_started_when_it_takes_connections_not_when_its_socket_is_made(tmp_path: Path) -> None:
    place = Place(str(tmp_path), "slow")
    slow = "import select, socket, sys; s = socket.socket(1); wait = lambda seconds: select.select([], [], [], seconds)"
    slow += "; s.bind(sys.argv[1]); wait(1); s.listen(); wait(60)"
    made = await start([sys.executable, "-c", slow, place.sock], place)
    sockets.connect(place.sock).close()
    await made.stop()
