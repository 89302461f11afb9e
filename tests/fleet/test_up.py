"""The fleet of this machine: started, found again, looked at and stopped."""

import asyncio
import signal
from collections.abc import AsyncIterator

import pytest

from tests.fleet.conftest import activity_of, give, runner_pid, spec, until_state
from tests.fleet.conftest import nothing_left as nothing_left
from treadle.errors import LocalError, NotFound
from treadle.fleet import client, up
from treadle.fleet.engine import places, server
from treadle.io.process import table


@pytest.fixture
async def running(nothing_left: None) -> AsyncIterator[list[str]]:
    told: list[str] = []
    await up.up(name="n1", slots=1, lease=2.0, say=told.append)
    yield told
    await up.down()


async def test_it_tells_each_step_and_joins_what_is_there(running: list[str]) -> None:
    assert [line.split()[0] for line in running] == ["engine", "streams", "node", "ready"]
    again: list[str] = []
    await up.up(name="n1", say=again.append)
    assert "found" in again[0] and "found" in again[2]
    with pytest.raises(LocalError, match="belongs to the fleet at"):
        await up.up(url="nats://127.0.0.1:1")


async def test_what_is_up_is_told_and_after_down_nothing_is(running: list[str]) -> None:
    found = await up.status()
    assert found["scheduler"] == "n1" and found["engine"]["version"] and found["disk_bytes"] > 0
    assert [each["name"] for each in found["nodes_here"]] == ["n1"] and found["runners_here"] == []
    told: list[str] = []
    await up.down(say=told.append, forget=True)
    assert not server.is_up() and told[-1] == "all that was stored is removed"
    with pytest.raises(NotFound, match="belongs to no fleet"):
        await up.status()
    await up.up(name="n1", slots=1, lease=2.0)


async def test_down_without_an_engine_still_ends_the_nodes(running: list[str]) -> None:
    (process,) = [process for _, process in up.local_nodes()]
    assert process is not None
    await asyncio.to_thread(server.stop)
    await up.down()
    assert not table.lives(process.pid, process.start) and not server.is_up()
    assert places.load().private


async def test_a_runner_goes_on_when_its_node_is_killed_and_the_next_one_adopts_it(
    nothing_left: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREADLE_WARM", "60")  # as on a person's machine
    await up.up(name="n1", slots=1, lease=5.0)
    try:
        async with client.connected() as bus:
            (name,) = await give(bus, spec("null:300:300"))
            pid = await runner_pid(name)
            await until_state(bus, name, "running")
            (process,) = [process for _, process in up.local_nodes()]
            assert process is not None and table.send(process, signal.SIGKILL)
            await up._gone([(process.pid, process.start)])
            await up.up(name="n1", slots=1)
            async with asyncio.timeout(60):
                while not activity_of(await client.why(bus, name)).pid == pid:
                    await asyncio.sleep(0.05)
            assert (await client.get_order(bus, name)).attempt == 1
            await client.cancel(bus, name)
            assert (await client.wait(bus, name, 60)).state == "cancelled"
    finally:
        await up.down()
