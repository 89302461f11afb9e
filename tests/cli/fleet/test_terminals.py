"""Terminals of orders."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from tests.cli.fleet.commands import stored
from tests.fleet.conftest import (
    bus,
    fleet,
    nothing_left,
    repository,
    start_node,
)
from tests.terminal.conftest import stage
from treadle.cli.fleet.steering import _Carrier
from treadle.errors import LocalError, NotFound
from treadle.fleet.engine.bus import Bus
from treadle.fleet.run.terminals import OrderTerminals, place_of
from treadle.wire.fleet.messages import RunReport
from treadle.wire.fleet.records import Attempt

__all__ = ["bus", "fleet", "nothing_left", "repository", "stage", "start_node"]


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
        ("order1", LocalError, "the order order1 has not run on a node yet: it is queued"),
        ("other", NotFound, "there is no order 'other'"),
    ):
        carrier = _Carrier(name, "shell", str(tmp_path / "sock"))
        carrier.start()
        with pytest.raises(kind, match=said):
            await asyncio.to_thread(carrier.ready)
        await asyncio.to_thread(carrier.end)
