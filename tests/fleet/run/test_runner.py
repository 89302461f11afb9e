"""What a runner tells and what it keeps to itself."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from tests.fleet.conftest import Start, give, spec, until_state
from tests.fleet.repositories import DONE, bash, model, says, work
from treadle.fleet import client, node, up
from treadle.fleet.engine import places, server
from treadle.fleet.engine.bus import STATE, Bus
from treadle.io.process import table


async def test_keys_never_reach_the_engine_whatever_the_agent_prints(
    bus: Bus,
    start_node: Start,
    repository: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SHOP_API_KEY", 'k"ey-of-the-shop-77')
    await start_node()
    key = os.environ["SHOP_API_KEY"]
    prints = says(f"The key is {key}, and I ask.", bash(f"python3 -c 1 '{key}'"), turn=1)
    order = work(repository, model(tmp_path, prints, DONE), answer_seconds=0.2)
    await give(bus, order)
    ended = await client.wait(bus, order.id, 90)
    assert ended.state == "done", ended.why
    seen = [one async for one in client.events(bus, order.id)]
    assert any("[redacted]" in str(one.event) for one in seen)
    assert not any("ey-of-the-shop" in str(one.event) for one in seen)
    kept = await bus.named([f"order.{order.id}", f"receipt.{order.id}", f"ask.{order.id}.1"])
    assert len(kept) == 3 and not any(b"ey-of-the-shop" in entry.value for entry in kept.values())
    info = await bus.api(f"STREAM.INFO.{STATE}")
    assert info["state"]["messages"] and os.environ["SHOP_API_KEY"]


@pytest.mark.parametrize("agent", ["null:600:100000", "asks"])
async def test_a_runner_that_is_asked_to_end_does_so_though_its_engine_is_away(
    fleet: places.Fleet, bus: Bus, start_node: Start, repository: Path, tmp_path: Path, agent: str
) -> None:
    """At a shutdown the engine may end first. What it would have to be told is kept on disk."""
    if agent == "asks":
        order = work(repository, model(tmp_path, says("I ask.", bash("make it"), turn=1), DONE), answer_seconds=600)
    else:
        order = spec(agent)
    first = node.Node(fleet, node.NodeSettings(name="n1"))
    running = asyncio.create_task(first.run())
    await give(bus, order)
    await until_state(bus, order.id, "asking" if agent == "asks" else "running")
    ((_, _, note),) = up.live_runners()
    events = Path(places.root(), "runs", f"{order.id}.1", "events.jsonl")
    first.stop()
    await asyncio.wait_for(running, 60)
    server.stop()
    if agent != "asks":
        await until_held(events)
    os.kill(note.pid, signal.SIGTERM)
    async with asyncio.timeout(60):
        while table.look(note.pid) is not None:
            await asyncio.sleep(0.05)
    assert events.read_bytes()
    server.start(fleet)
    await start_node()
    async with asyncio.timeout(60):
        while (again := await client.get_order(bus, order.id)).attempt < 2:
            await asyncio.sleep(0.05)
    assert again.attempts[0].outcome == "lost", again.attempts[0]


async def until_held(events: Path) -> None:
    """Until the runner holds its agent back, which then says nothing more."""
    async with asyncio.timeout(60):
        size = -1
        while size != (size := events.stat().st_size):
            await asyncio.sleep(0.5)
