"""What an order uses, measured while it runs: at its limit it stops and asks."""

import asyncio
from pathlib import Path

from tests.fleet.conftest import Start, give
from tests.fleet.repositories import model, says, work, write
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.wire.fleet.orders import OrderLimits
from treadle.wire.fleet.records import AskRecord


def uses(tokens: int) -> dict[str, int]:
    return {"input": tokens, "output": 0}


async def asked(bus: Bus, count: int) -> dict[str, AskRecord]:
    """What is asked, by order, as soon as there are so many."""
    async with asyncio.timeout(90):
        while len(asks := await client.approvals(bus)) < count:
            await asyncio.sleep(0.05)
    return {ask.order: ask for ask in asks}


async def test_at_its_limit_an_order_stops_and_asks_and_goes_on_only_with_more(
    bus: Bus, start_node: Start, repository: Path, tmp_path: Path
) -> None:
    await start_node(slots=4)
    costly = model(
        tmp_path,
        says("I go on.", write("late.txt"), when="You were interrupted", usage=uses(10)),
        says("I write.", write("early.txt"), turn=1, usage=uses(80)),
        says("Done.", times="always", usage=uses(1)),
        name="costly",
    )
    growing = model(
        tmp_path,
        says("I write.", write("early.txt"), turn=1, usage=uses(40)),
        says("Done.", times="always", usage=uses(40)),
        name="growing",
    )
    passed = work(repository, costly, limits=OrderLimits(tokens=70))
    unpriced = work(repository, costly, limits=OrderLimits(usd=5.0))
    tight = work(repository, growing, limits=OrderLimits(tokens=70))
    wide = work(repository, growing, limits=OrderLimits(tokens=80))
    await give(bus, passed, unpriced, tight, wide)
    asks = await asked(bus, 3)

    assert asks[passed.id].kind == "budget" and "used 80 of 70 tokens" in asks[passed.id].text
    await client.answer(bus, passed.id, "allow", by="ana")
    ended = await client.wait(bus, passed.id, 90)
    assert ended.state == "done" and ended.limits.tokens == 140 and ended.attempts[1].resumed == "session", ended
    assert "late.txt" in ended.result["changed"] and ended.used.tokens > 80
    assert [note.by for note in ended.notes] == ["ana"] and "70 tokens -> 140 tokens" in ended.notes[0].what

    assert "no one knows the price of its 80 tokens" in asks[unpriced.id].text, "an unknown price is not zero"
    await client.answer(bus, unpriced.id, "deny", by="ben")
    ended = await client.wait(bus, unpriced.id, 90)
    assert ended.state == "failed" and "refused by ben" in ended.why

    assert "it has used 40 of 70 tokens, and its last call took 40" in asks[tight.id].text
    assert (await client.get_order(bus, tight.id)).used.tokens == 40, "there is no room for a call like the last"
    await client.cancel(bus, tight.id)
    ended = await client.wait(bus, wide.id, 90)
    assert ended.state == "done" and ended.used.tokens == 80
