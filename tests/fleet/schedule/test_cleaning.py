"""What is removed of orders that ended, and what is never."""

import asyncio
import time

import pytest

from tests.fleet.conftest import Start, give, spec
from tests.fleet.schedule.test_book import book_with
from tests.fleet.schedule.test_book import spec as plain_spec
from treadle.errors import NotFound
from treadle.fleet import client
from treadle.fleet.engine.bus import STATE, Bus
from treadle.fleet.orders import encode
from treadle.fleet.schedule import cleaning


async def until_gone(bus: Bus, name: str) -> None:
    async with asyncio.timeout(60):
        while await bus.get(f"order.{name}") is not None:
            await asyncio.sleep(0.02)


async def test_all_of_an_old_order_goes_but_its_key_stays_used(bus: Bus, start_node: Start) -> None:
    await start_node()
    await give(bus, spec(id="old"), spec(id="parent", agent="nobody", attempts=1))
    for name in ("old", "parent"):
        await client.wait(bus, name, 60)
    await give(bus, spec(id="child", after=("parent",)), spec(id="waits", not_before=1e10))
    await bus.put("say.old.1", encode({"text": "x"}))
    await bus.put("answer.old.1", encode({}))
    assert {order.id async for order, _ in cleaning.ended_before(bus, time.time() + 9)} == {"old", "parent"}
    assert [order async for order, _ in cleaning.ended_before(bus, time.time() - 900)] == []
    assert set(await cleaning.records(bus, "old")) == {
        "spec.old",
        "order.old",
        "receipt.old",
        "say.old.1",
        "answer.old.1",
    }
    await client.clean(bus, ["old", "parent", "waits", "never-was"])
    await until_gone(bus, "old")
    assert await cleaning.records(bus, "old") == {}
    with pytest.raises(NotFound):
        await client.resolve(bus, "ol")
    (again,) = await client.submit(bus, [spec(id="old")])
    assert not again.new
    assert (await client.get_order(bus, "parent")).state == "failed", "an order that another waits for stays"
    assert (await client.get_order(bus, "waits")).state == "queued"


async def test_the_scheduler_removes_by_age_and_earlier_when_the_state_is_too_large(
    bus: Bus, start_node: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleaning, "PAGE", 3)
    monkeypatch.setattr(cleaning, "OFTEN_SECONDS", 0.0)
    await start_node(slots=20)
    first = [spec() for _ in range(8)]
    await give(bus, *first)
    for each in first:
        await client.wait(bus, each.id, 60)
    assert (await client.control(bus)).keep_seconds == 90 * 86400
    await client.keep(bus, seconds=0.001)
    for each in first:
        await until_gone(bus, each.id)
    await client.keep(bus, seconds=0.0)
    (name,) = await give(bus, spec())
    await client.wait(bus, name, 60)
    size = (await bus.api(f"STREAM.INFO.{STATE}"))["state"]["bytes"]
    await client.keep(bus, size=size - 1)
    (kept,) = await give(bus, spec())
    assert (await client.wait(bus, kept, 60)).state == "done", "what ended today stays, however large the state is"
    monkeypatch.setattr(cleaning, "LEAST_SECONDS", 0.001)
    await client.keep(bus, size=1)
    await until_gone(bus, name)


def test_the_scheduler_does_not_remember_every_order_that_ever_ended() -> None:
    book = book_with(plain_spec("parent"), plain_spec("child", after=("parent",)), slots=5000)
    book.end(book.rows["parent"], "failed", "")
    for number in range(3000):
        book.accept(plain_spec(f"o{number}"), 0.0)
        book.end(book.rows[f"o{number}"], "cancelled", "")
    book.tick(1.0)
    assert book.fate == {"parent": "failed"} and set(book.children) == {"parent"}
