"""The fleet at a glance: everybody is in one section, and who needs a person comes first."""

import asyncio
from pathlib import Path

from tests.fleet.conftest import Start, give, spec, until_state
from tests.fleet.repositories import edits, work
from treadle.fleet import client, glance
from treadle.fleet.engine.bus import Bus


async def test_who_asks_comes_first_and_everybody_is_shown_once(
    bus: Bus, start_node: Start, repository: Path, tmp_path: Path
) -> None:
    await start_node(slots=2)
    order = work(repository, edits(tmp_path, "x", "a.txt", "two", "install /dev/null asked.txt"))
    busy, waits = spec("null:60:600"), spec(labels=("gpu",))
    await give(bus, order, busy, waits)
    await until_state(bus, order.id, "asking")
    await until_state(bus, busy.id, "running")
    async with asyncio.timeout(60):
        while len((found := dict((await glance.look(bus)).sections))["Working"]) != 1:
            await asyncio.sleep(0.05)
    (asks,) = found["Needs you"]
    assert asks.id == order.id and asks.now == "install /dev/null asked.txt" and asks.ask and asks.ask.number == 1
    assert [row.id for row in found["Working"]] == [busy.id] and [row.id for row in found["Waiting"]] == [waits.id]
    await client.cancel(bus, busy.id)
    await client.wait(bus, busy.id, 60)
    await client.answer(bus, order.id, "deny")
    await client.wait(bus, order.id, 90)
    ended = dict((await glance.look(bus)).sections)
    assert busy.id in [row.id for row in ended["Done"]]
