"""Terminals of orders over the engine: a shell in a worktree, and an agent kept in a terminal."""

import asyncio
import sys
from pathlib import Path

import msgspec
import pytest

from tests.fleet.conftest import Start, activity_of, give
from tests.fleet.repositories import DONE, bash, model, says, work
from tests.fleet.run.typed import carried, type_in, until_there
from treadle.errors import LocalError, NotFound
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus, Unreachable
from treadle.fleet.run import runs
from treadle.fleet.run import terminals as forwarding
from treadle.fleet.run.resumption import RunState
from treadle.fleet.run.terminals import Carried, start
from treadle.fleet.run.trees import WorkTree
from treadle.io import sockets
from treadle.terminal.places import Place
from treadle.wire.fleet.messages import TerminalClose, TerminalRead, TerminalWrite
from treadle.wire.fleet.orders import Spec
from treadle.wire.fleet.records import Order


@pytest.mark.slow
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
    with pytest.raises(LocalError, match="no longer exists"):
        await Carried(bus, "n1", name, "agent", "ana").ask(TerminalRead(id="gone"))


async def test_a_terminal_has_started_when_it_takes_connections_not_when_its_socket_is_made(tmp_path: Path) -> None:
    place = Place(str(tmp_path), "slow")
    slow = "import select, socket, sys; s = socket.socket(1); wait = lambda seconds: select.select([], [], [], seconds)"
    slow += "; s.bind(sys.argv[1]); wait(1); s.listen(); wait(60)"
    made = await start([sys.executable, "-c", slow, place.sock], place)
    sockets.connect(place.sock).close()
    await made.stop()


async def test_a_connection_is_opened_written_read_and_forgotten(
    bus: Bus, state_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forwarding, "WAIT_SECONDS", 0.05)
    monkeypatch.setattr(forwarding, "HELD_MAX", 4)
    place = forwarding.place_of("o1", "agent")
    Path(place.sock).parent.mkdir(parents=True, exist_ok=True)

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            if data == b"end":
                break
            writer.write(data.upper())
        writer.close()

    async def report(what: object, number: str) -> None:
        raise AssertionError("no shell is opened")

    terminals = forwarding.OrderTerminals("n9", report)
    listening = await terminals.serve(bus)
    line = Carried(bus, "n9", "o1", "agent", "ana")
    with pytest.raises(LocalError, match="the order o1 has no terminal here .only orders with --terminal have one."):
        await line.open()
    async with await asyncio.start_unix_server(echo, place.sock), asyncio.timeout(60):
        await line.try_once()
        name = await line.open()
        assert (await line.ask(TerminalRead(id=name))).data == b""
        for words in (b"abcdef", b"ghijkl"):
            await line.ask(TerminalWrite(id=name, data=words))
        heard = b""
        while len(heard) < 12:
            heard += (await line.ask(TerminalRead(id=name))).data
        assert heard == b"ABCDEFGHIJKL"
        await line.ask(TerminalWrite(id=name, data=b"end"))
        while not (await line.ask(TerminalRead(id=name))).ended:
            pass
        await line.ask(TerminalClose(id=name))
        for request in (TerminalRead(id=name), TerminalClose(id=name)):
            with pytest.raises(LocalError, match="no longer exists"):
                await line.ask(request)
        name = await line.open()
        monkeypatch.setattr(forwarding, "FORGET_SECONDS", -1.0)
        with pytest.raises(LocalError, match="no longer exists"):
            await line.ask(TerminalRead(id=name))
    await terminals.close()
    await listening.unsubscribe()
    with pytest.raises(Unreachable, match="the node of this order does not answer") as away:
        await line.open()
    assert away.value.hint == "`treadle fleet nodes`"


async def test_a_terminal_that_ends_at_once_says_what_it_said(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match="the terminal did not start: no such thing"):
        await start(["/bin/sh", "-c", "echo no such thing >&2; exit 1"], Place(str(tmp_path), "x"))
    with pytest.raises(LocalError, match="the terminal did not start: no output"):
        await start(["/bin/true"], Place(str(tmp_path), "x"))


def test_the_latest_worktree_that_is_still_there_is_the_one(state_home: Path, tmp_path: Path) -> None:
    for attempt, root in ((1, tmp_path), (2, tmp_path), (3, tmp_path / "gone")):
        directory = runs.prepare(
            runs.RunJob(
                spec=Spec(id="o1", task="t"),
                order=Order(id="o1", state="done", changed=1.0, attempt=attempt, node="n"),
                role="admin",
                lease=1.0,
            )
        )
        state = RunState(agent="null", tree=WorkTree(root=str(root)))
        Path(directory, "state.json").write_bytes(msgspec.json.encode(state))
    assert forwarding._worktree("o1") == (2, str(tmp_path))
    with pytest.raises(NotFound, match="there is no worktree of the order o2 on this machine") as refused:
        forwarding._worktree("o2")
    assert refused.value.hint == "its result: `treadle fleet diff`"
