"""The scheduler: what it decides together is stored together."""

import asyncio
import time

import msgspec
import pytest

from tests.fleet.conftest import Start, give, spec, until_state
from treadle.fleet import client
from treadle.fleet.engine import layout, places, tasks
from treadle.fleet.engine.bus import INBOX, STATE, Bus
from treadle.fleet.schedule import scheduler
from treadle.fleet.schedule.book import Book


async def sequence(bus: Bus) -> int:
    return int((await bus.api(f"STREAM.INFO.{STATE}"))["state"]["last_seq"])


async def test_many_orders_cost_few_batches(bus: Bus, start_node: Start) -> None:
    """A batch costs the engine several syncs, whatever is in it. Each holds one write of the lease, so that the writes
    that are not an order's say how many there were."""
    orders = [spec() for _ in range(200)]
    await give(bus, *orders)
    before = await sequence(bus)
    await start_node(slots=200)
    for order in orders:
        assert (await client.wait(bus, order.id)).state == "done"
    # Taken in: the order, and that it is active. Placed: the order and its work, or both in one stroke. Ended: the
    # order, its receipt, and two keys purged.
    batches = await sequence(bus) - before - 200 * (2 + 2 + 4)
    assert batches < 100, f"{batches} batches for 200 orders that were taken in, placed and ended"


async def test_a_scheduler_that_stood_still_blames_no_runner_for_it(bus: Bus, start_node: Start) -> None:
    """On a machine that is overloaded, or was paused: what the runners said meanwhile is still on its way to us."""
    node = await start_node()
    (name,) = await give(bus, spec("null:5:50"))
    await until_state(bus, name, "running")
    time.sleep(1.5 * node.fleet.lease)  # the node's process, which is this one, and not the runner's
    order = await client.wait(bus, name, 60)
    assert (order.state, order.attempt) == ("done", 1), order.attempts


async def test_a_lease_that_the_engine_has_forgotten_to_end_is_taken_over(
    bus: Bus, start_node: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a kill of the engine: what it knows of when keys end is written behind what it stores."""
    monkeypatch.setattr(scheduler, "OVERDUE", 0.5)
    await bus.put(scheduler.LEASE, b'{"name": "gone", "since": 1.0, "at": 1.0}', expect=0)
    await start_node("n1")
    (name,) = await give(bus, spec())
    assert (await client.wait(bus, name, 60)).state == "done"


class Long(scheduler.Scheduler):
    """One that takes longer than its lease to load all orders, as with very many of them."""

    async def _load(self) -> Book:
        seen = {0}
        while len(seen) < 4:
            entry = await self.bus.get(scheduler.LEASE, latest=True)
            assert entry is None or msgspec.json.decode(entry.value)["since"] == self.since, "from its first moment"
            seen.add(entry.revision if entry is not None else 0)
            await asyncio.sleep(0.02)
        return await super()._load()


async def test_the_lease_is_held_while_all_orders_are_loaded_however_long_that_takes(bus: Bus) -> None:
    (given,) = await give(bus, spec())
    made = Long(bus, "n1", 1.0)
    leading = asyncio.create_task(made.run())
    try:
        await asyncio.wait_for(made.leading.wait(), 60)
        assert (await until_state(bus, given, "queued")).state == "queued"
        held = await bus.get(scheduler.LEASE, latest=True)
        assert held is not None and msgspec.json.decode(held.value)["since"] == made.since, "it led only once"
    finally:
        await tasks.end((leading,))


async def test_what_waits_for_orders_that_ended_and_what_asks_is_known_to_the_next_scheduler(
    bus: Bus, start_node: Start
) -> None:
    first = await start_node("n1")
    (good,) = await give(bus, spec())
    await client.wait(bus, good, 60)
    (asks,) = await give(bus, spec("person"))
    (after,) = await give(bus, spec(after=(good, asks)))
    await until_state(bus, asks, "asking")
    async with asyncio.timeout(60):  # one that no scheduler has taken in yet counts as queued, too
        while await bus.get(f"active.{after}") is None:
            await asyncio.sleep(0.02)
    first.stop()
    book = await scheduler.Scheduler(bus, "n2", 2.0)._load()
    assert set(book.rows) == {asks, after}
    assert book.fate == {good: "done"}
    assert [ask.text for ask in book.rows[asks].asks.values()] == ["do it"]


class Stuck(scheduler.Scheduler):
    """One that is stopped after it was given an order and before it has stored what it decided about it."""

    async def _commit(self) -> None:
        if self.book.units:
            await asyncio.Event().wait()
        await super()._commit()


async def test_the_next_scheduler_takes_over_at_once_from_one_that_was_stopped(fleet: places.Fleet) -> None:
    """Neither the lease nor what was given to the first has to end by time, which here are ten minutes."""
    async with client.connected("admin") as bus:
        for name in ("intake", "inbox"):
            await bus.api(f"CONSUMER.DELETE.{STATE if name == 'intake' else INBOX}.{name}")
        await layout.ensure(bus, lease=600.0)
        first, second = Stuck(bus, "n1", 600.0), scheduler.Scheduler(bus, "n2", 600.0)
        leading = asyncio.create_task(first.run())
        async with asyncio.timeout(60):
            await first.leading.wait()
            (given,) = await give(bus, spec())
            while not first.book.units:
                await asyncio.sleep(0.01)
        await tasks.end((leading,))
        await first.resign()
        assert await bus.get(scheduler.LEASE) is None
        taking_over = asyncio.create_task(second.run())
        try:
            async with asyncio.timeout(60):
                while await bus.get(f"active.{given}") is None:
                    await asyncio.sleep(0.02)
        finally:
            await tasks.end((taking_over,))
