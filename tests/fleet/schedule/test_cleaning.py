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
from treadle.fleet.schedule import scheduler
from treadle.fleet.schedule.book import Book, Unit
from treadle.wire.fleet.records import Order
from treadle.wire.fleet.states import State


async def until_gone(bus: Bus, name: str) -> None:
    async with asyncio.timeout(60):
        while await bus.get(f"order.{name}") is not None:
            await asyncio.sleep(0.02)


@pytest.mark.slow
async def test_all_of_an_old_order_goes_but_its_key_stays_used(bus: Bus, start_node: Start) -> None:
    await start_node()
    await give(bus, spec(id="old"), spec(id="parent", agent="nobody", attempts=1))
    for name in ("old", "parent"):
        await client.wait(bus, name, 60)
    await give(bus, spec(id="child", after=("parent",)), spec(id="waits", not_before=1e10))
    await bus.put("say.old.1", encode({"text": "x"}))
    await bus.put("answer.old.1", encode({}))
    assert {order.id async for order, _ in scheduler.ended_before(bus, time.time() + 9)} == {"old", "parent"}
    assert [order async for order, _ in scheduler.ended_before(bus, time.time() - 900)] == []
    assert set(await scheduler.records(bus, "old")) == {
        "spec.old",
        "order.old",
        "receipt.old",
        "say.old.1",
        "answer.old.1",
    }
    await client.clean(bus, ["old", "parent", "waits", "never-was"])
    await until_gone(bus, "old")
    assert await scheduler.records(bus, "old") == {}
    with pytest.raises(NotFound):
        await client.resolve(bus, "ol")
    (again,) = await client.submit(bus, [spec(id="old")])
    assert not again.new
    assert (await client.get_order(bus, "parent")).state == "failed", "an order that another waits for stays"
    assert (await client.get_order(bus, "waits")).state == "queued"


def test_the_scheduler_does_not_remember_every_order_that_ever_ended() -> None:
    book = book_with(plain_spec("parent"), plain_spec("child", after=("parent",)), slots=5000)
    book.end(book.rows["parent"], "failed", "")
    for number in range(3000):
        book.accept(plain_spec(f"o{number}"), 0.0)
        book.end(book.rows[f"o{number}"], "cancelled", "")
    book.tick(1.0)
    assert book.fate == {"parent": "failed"} and set(book.children) == {"parent"}


async def ended(bus: Bus, *names: str, at: float, state: State = "done") -> None:
    for name in names:
        await bus.put(f"order.{name}", encode(Order(id=name, state=state, changed=at)))


def removed(book: Book) -> dict[str, list[tuple[str, int | None]]]:
    return {name: [(write.key, write.ttl) for write in unit.writes] for name, unit in book.units.items()}


async def test_each_step_removes_a_page_of_what_is_old_and_the_next_one_comes_soon_while_there_is_more(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "CLEANED_AT_ONCE", 2)
    monkeypatch.setattr(scheduler, "READ", 2)
    now, book = time.time(), book_with()
    work = scheduler.Cleaning(bus, book)
    await ended(bus, "a", "b", "c", at=now - 200 * 86400)
    await ended(bus, "runs", at=now - 200 * 86400, state="running")
    await ended(bus, "today", at=now)
    await work.step(100.0)
    assert set(removed(book)) == {"a", "b"} and work.next == 100.0 + scheduler.OFTEN_SECONDS
    await work.step(work.next - 0.1)
    assert set(removed(book)) == {"a", "b"}, "its time has not come"
    for name in book.units:
        await bus.purge(f"order.{name}")
    book.units.clear()
    await work.step(work.next)
    assert set(removed(book)) == {"c"} and work.next == 102.0 + scheduler.SELDOM_SECONDS
    assert [each.id async for each, _ in scheduler.ended_before(bus, now + 1)] == ["c", "today"]
    assert [each.id async for each, _ in scheduler.ended_before(bus, now)] == ["c"]


async def test_nothing_is_removed_by_age_where_all_is_kept_and_a_large_state_is_cut_to_a_day(bus: Bus) -> None:
    now, book = time.time(), book_with()
    await ended(bus, "old", at=now - 2 * 86400)
    size = (await bus.api(f"STREAM.INFO.{STATE}"))["state"]["bytes"]
    for seconds, most, gone in ((0.0, 0, False), (0.0, size, False), (3 * 86400.0, size, False), (0.0, size - 1, True)):
        book.change_control(keep_seconds=seconds, keep_bytes=most)
        await scheduler.Cleaning(bus, book).step(1.0)
        assert bool(book.units) is gone, (seconds, most)


async def test_an_order_goes_with_its_records_and_only_its_mark_stays(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = book_with(plain_spec("child", after=("parent",)), plain_spec("open"))
    book.units.clear()
    await ended(bus, "old", "parent", "open", "busy", at=1.0)
    await ended(bus, "runs", at=1.0, state="running")
    book.units["busy"] = Unit([], None)
    for key in ("say.old.1", "ask.old.1", "answer.old.1", "work.n1.old", "work.old.x"):
        await bus.put(key, b"{}")
    work = scheduler.Cleaning(bus, book)
    await work.remove(["old", "parent", "open", "busy", "runs", "never-was"])
    assert set(book.units) == {"old", "busy"} and book.units["busy"].writes == []
    assert all(write.purge for write in book.units["old"].writes) and book.units["old"].row is None
    first, last = removed(book)["old"][:3], removed(book)["old"][3:]
    assert sorted(key for key, _ in first) == ["answer.old.1", "ask.old.1", "say.old.1"]
    assert [key for key, _ in last] == ["order.old", "receipt.old", "spec.old"] and last[2][1] == -1 != last[0][1]
    monkeypatch.setattr(scheduler, "BATCH_MAX", 4)
    book.units.clear()
    await work.remove(["old"])
    assert len(removed(book)["old"]) == 2, "its records first; the order itself goes with the last of them"
