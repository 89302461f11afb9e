"""Goals whose orders are done by stand-ins for agents."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import reduce

from treadle.fleet import client
from treadle.fleet.engine import tasks
from treadle.fleet.engine.bus import Bus
from treadle.goals import commands, store
from treadle.goals.foreman import Foreman
from treadle.landing.train import Conductor
from treadle.wire.goal.records import AnyGoalEvent, GoalRecord


def replayed(name: str, events: Iterable[AnyGoalEvent]) -> GoalRecord:
    return reduce(store.applied, events, GoalRecord(id=name))


async def over(bus: Bus, name: str) -> GoalRecord:
    """The goal's last record."""
    async with asyncio.timeout(300):
        return [record async for record in commands.follow(bus, name)][-1]


@asynccontextmanager
async def carried(bus: Bus, foremen: int = 1) -> AsyncIterator[None]:
    riding = [asyncio.create_task(each.ride(bus)) for each in (Conductor(), *(Foreman() for _ in range(foremen)))]
    try:
        yield
    finally:
        await tasks.end(riding)


async def answering(bus: Bus, decision: str = "allow") -> None:
    """A person who answers all that is asked, for as long as this runs."""
    while True:
        for ask in await client.approvals(bus):
            if await bus.get(f"answer.{ask.order}.{ask.number}") is None:
                await client.answer(bus, ask.order, decision, number=ask.number, by="ana")
        await asyncio.sleep(0.05)


async def placed(bus: Bus, name: str, step: str, times: int) -> GoalRecord:
    """The goal once the fleet has so many orders of this step. Placing one is no change of the record: it is asked."""
    async with asyncio.timeout(60):
        while True:
            record, _ = await store.load(bus, name)
            orders = record.steps[step].orders
            if len(orders) == times and await bus.get(f"spec.{orders[-1]}") is not None:
                return record
            await asyncio.sleep(0.02)
