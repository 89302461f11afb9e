"""`treadle top`: what it prints, and the same on a real terminal with keys."""

import asyncio
import sys
from pathlib import Path

import msgspec
from click.testing import CliRunner

from tests.fleet.conftest import (
    Start,
    bus,
    fleet,
    give,
    make_fleet,
    nothing_left,
    repository,
    spec,
    start_node,
    until_state,
)
from tests.fleet.repositories import work
from tests.terminal.conftest import stage
from tests.terminal.support import Stage, until
from treadle.cli.top import lines, top
from treadle.fleet import client
from treadle.fleet.engine import layout, server
from treadle.fleet.engine.bus import Bus
from treadle.fleet.glance import Glance, GlanceRow
from treadle.terminal.client import Client
from treadle.terminal.screen import snapshot

__all__ = ["bus", "fleet", "nothing_left", "repository", "stage", "start_node"]


def test_a_line_shows_state_age_and_what_it_does_and_obeys_nothing() -> None:
    row = GlanceRow(id="abc", word="asks", title="evil \x1b[31m\u202e", changed=0.0, now="rm -rf x\ny")
    found = lines(Glance(head="", sections=[("Needs you", [row])]), 200)
    assert found[0][0] == "Needs you (1)" and found[1][1] == "abc"
    assert "rm -rf x y" in found[1][0] and "\x1b" not in found[1][0] and "\u202e" not in found[1][0]


def test_without_a_fleet_it_says_what_to_do(state_home: Path) -> None:
    result = CliRunner().invoke(top, ["--once"])
    assert result.exit_code and "belongs to no fleet" in str(result.exception)


def test_on_a_terminal_it_is_drawn_and_q_leaves_it(stage: Stage, state_home: Path) -> None:
    fleet = make_fleet()
    server.start(fleet)
    try:

        async def ready() -> None:
            bus = await server.await_ready(fleet)
            await layout.ensure(bus, lease=fleet.lease)
            await bus.close()

        asyncio.run(ready())
        code = "import sys; from treadle.cli.root import main; main(['top'])"
        place = stage.start(sys.executable, "-c", code)
        until(lambda: any("Needs you (0)" in line for line in snapshot(place)["lines"]))
        with Client(place.sock) as client:
            client.input(b"q")
            assert list(client.output(60)) is not None and client.exit_code == 0
    finally:
        server.stop()


async def test_a_key_leads_to_the_terminal_of_an_order_and_another_back(
    stage: Stage, bus: Bus, start_node: Start, repository: Path
) -> None:
    await start_node()
    order = msgspec.structs.replace(
        work(repository, "any"), agent="acp:cat", terminal=True, task="hello loom", title="w"
    )
    await give(bus, order)
    await until_state(bus, order.id, "running")
    code = "import sys; from treadle.cli.root import main; main(['top'])"
    place = await asyncio.to_thread(stage.start, sys.executable, "-c", code)

    async def press_until(key: bytes, wanted: str) -> None:
        """Also again: the order's terminal may still be starting, which is told at the bottom."""
        async with asyncio.timeout(60):
            while not any(wanted in line for line in (await asyncio.to_thread(snapshot, place))["lines"]):
                with Client(place.sock) as terminal:
                    terminal.input(key)
                await asyncio.sleep(0.5)

    await press_until(b"", "Working (1)")
    await press_until(b"t", "hello loom")
    with Client(place.sock) as terminal:
        terminal.input(b"\x1c")
    await press_until(b"", "Working (1)")
    await client.cancel(bus, order.id)


async def test_a_script_gets_the_same_as_json(bus: Bus, start_node: Start, repository: Path, tmp_path: Path) -> None:
    await start_node()
    (name,) = await give(bus, spec())
    await client.wait(bus, name, 60)
    result = await asyncio.to_thread(CliRunner().invoke, top, ["--json"])
    found = msgspec.json.decode(result.output)
    assert set(found["sections"]) == {"Needs you", "Working", "Waiting", "Done"}, result.output
    assert any(row["id"] == name for rows in found["sections"].values() for row in rows)
