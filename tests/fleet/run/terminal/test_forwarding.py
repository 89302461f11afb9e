"""Terminals of orders over the engine: a shell in a worktree, and an agent kept in a terminal."""

import asyncio
import sys
from pathlib import Path

import pytest

from tests.fleet.conftest import Start, activity_of, give
from tests.fleet.repositories import DONE, bash, model, says, work
from tests.fleet.run.typed import carried, type_in, until_there
from treadle.errors import LocalError
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.fleet.run import runs
from treadle.fleet.run.terminal.forwarding import Carried, start
from treadle.io import sockets
from treadle.terminal.places import Place
from treadle.wire.fleet.messages import TerminalRead
from treadle.wire.fleet.orders import Spec


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


async def test_what_has_no_terminal_or_worktree_says_so(bus: Bus, start_node: Start) -> None:
    await start_node()
    (name,) = await give(bus, Spec(id="o1", task="x", agent="null"))
    await client.wait(bus, name, 60)
    for what, problem in (("agent", "no terminal here"), ("shell", "no worktree")):
        with pytest.raises(LocalError, match=problem):
            await Carried(bus, "n1", name, what, "ana").open()
    with pytest.raises(LocalError, match="not there any more"):
        await Carried(bus, "n1", name, "agent", "ana").ask(TerminalRead(id="gone"))


async def test_a_terminal_has_started_when_it_takes_connections_not_when_its_socket_is_made(tmp_path: Path) -> None:
    place = Place(str(tmp_path), "slow")
    slow = "import select, socket, sys; s = socket.socket(1); wait = lambda seconds: select.select([], [], [], seconds)"
    slow += "; s.bind(sys.argv[1]); wait(1); s.listen(); wait(60)"
    made = await start([sys.executable, "-c", slow, place.sock], place)
    sockets.connect(place.sock).close()
    await made.stop()
