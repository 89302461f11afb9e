"""Terminals of orders."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.cli.fleet.commands import stored
from tests.fleet.conftest import (
    Start,
    bus,
    fleet,
    give,
    nothing_left,
    repository,
    start_node,
    until_state,
)
from tests.fleet.repositories import work
from tests.terminal.conftest import stage
from tests.terminal.support import Stage, until
from treadle.cli.fleet.terminals import _Carrier
from treadle.errors import LocalError, NotFound
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.fleet.run.terminals import OrderTerminals, place_of
from treadle.terminal.client import Client
from treadle.terminal.viewers.screen import snapshot
from treadle.wire.fleet.messages import RunReport
from treadle.wire.fleet.records import Attempt

__all__ = ["bus", "fleet", "nothing_left", "repository", "stage", "start_node"]


@pytest.mark.slow
async def test_attach_shows_the_terminal_of_an_order_and_a_key_leaves_it(
    stage: Stage, bus: Bus, start_node: Start, repository: Path
) -> None:
    await start_node()
    order = msgspec.structs.replace(
        work(repository, "any"), agent="acp:cat", terminal=True, task="hello loom", title="w"
    )
    await give(bus, order)
    await until_state(bus, order.id, "running")
    code = f"import sys; from treadle.cli.root import main; main(['fleet', 'attach', {order.id!r}])"
    place = await asyncio.to_thread(stage.start, "sh", "-c", f'until {sys.executable} -c "{code}"; do sleep 1; done')
    await asyncio.to_thread(until, lambda: any("hello loom" in line for line in snapshot(place)["lines"]))
    with Client(place.sock) as terminal:
        terminal.input(b"\x1c")
        assert list(terminal.output(60)) is not None and terminal.exit_code == 0
    await client.cancel(bus, order.id)


async def no_report(report: RunReport, number: str) -> None:
    raise AssertionError("only a shell is reported")


async def upper_echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(100):
        writer.write(data.upper())
    writer.close()


@pytest.mark.parametrize("where", [{"node": "n1", "state": "running"}, {"attempts": ("n0", "n1")}])
async def test_what_is_typed_is_carried_to_the_node_that_has_it_or_had_it_last(
    bus: Bus, tmp_path: Path, where: dict[str, Any]
) -> None:
    if "attempts" in where:
        where = {"attempts": tuple(Attempt(number=1, node=node, placed=1.0) for node in ("n0", "n1"))}
    await stored(bus, "order1", **where)
    place = place_of("order1", "agent")
    os.makedirs(os.path.dirname(place.sock), exist_ok=True)
    terminals = OrderTerminals("n1", no_report)
    listening = await terminals.serve(bus)
    async with await asyncio.start_unix_server(upper_echo, place.sock):
        carrier = _Carrier("ord", "agent", str(tmp_path / "sock"))
        carrier.start()
        await asyncio.to_thread(carrier.ready)
        assert carrier.daemon, "one who leaves does not wait for it"
        reader, writer = await asyncio.open_unix_connection(str(tmp_path / "sock"))
        writer.write(b"hello")
        assert await reader.read(100) == b"HELLO"
        writer.close()
        await asyncio.to_thread(carrier.end)
        assert not carrier.is_alive()
    await listening.unsubscribe()
    await terminals.close()


async def test_what_keeps_it_from_being_carried_is_said_before_anything_is_shown(bus: Bus, tmp_path: Path) -> None:
    await stored(bus, "order1", state="queued")
    for name, kind, said in (
        ("order1", LocalError, "the order order1 was on no node yet: it is queued"),
        ("other", NotFound, "there is no order 'other'"),
    ):
        carrier = _Carrier(name, "shell", str(tmp_path / "sock"))
        carrier.start()
        with pytest.raises(kind, match=said):
            await asyncio.to_thread(carrier.ready)
        await asyncio.to_thread(carrier.end)
