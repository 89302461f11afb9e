"""What people wish reaches the scheduler, holds at once, and is kept with who and why."""

import asyncio
from typing import cast

import msgspec
import pytest

from tests.fleet.conftest import Start, give, spec
from tests.fleet.schedule.test_book import book_with
from tests.fleet.schedule.test_book import spec as plain_spec
from treadle.fleet import client
from treadle.fleet.engine.bus import STATE, Bus
from treadle.fleet.engine.streams import Pull
from treadle.fleet.schedule import scheduler
from treadle.fleet.schedule.book import Book
from treadle.fleet.schedule.placing import place_all
from treadle.fleet.schedule.scheduler import Cleaning
from treadle.wire.fleet import messages
from treadle.wire.fleet.messages import Wait
from treadle.wire.fleet.orders import OrderLimits
from treadle.wire.fleet.records import Budget, Control, Note, Park


async def waits_for(bus: Bus, name: str, kind: str) -> Wait:
    async with asyncio.timeout(60):
        while (found := (await client.why(bus, name)).waits) is None or found.kind != kind:
            await asyncio.sleep(0.02)
    return found


async def test_a_failed_one_blocks_or_skips_or_is_passed_and_its_retry_counts(bus: Bus, start_node: Start) -> None:
    await start_node()
    parent = spec("null:60:60", limits=OrderLimits(seconds=0.2))
    blocked, skipped = spec(after=(parent.id,)), spec(after=(parent.id,), if_failed="skip")
    passed = spec(after=(parent.id,), if_failed="run")
    await give(bus, parent, blocked, skipped, passed)
    assert (await client.wait(bus, parent.id, 60)).state == "failed"
    assert (await client.wait(bus, skipped.id, 60)).state == "skipped"
    assert (await client.wait(bus, passed.id, 60)).state == "done"
    assert (await waits_for(bus, blocked.id, "dependency")).holder == parent.id
    again = await client.retry(bus, parent.id)
    assert again.new and (await client.retry(bus, parent.id)).id == again.id
    async with asyncio.timeout(60):
        while (await client.get_order(bus, blocked.id)).after != (again.id,):
            await asyncio.sleep(0.02)
    assert (await client.get_order(bus, parent.id)).retried_as == again.id


async def test_what_is_said_of_an_order_counts_although_the_order_comes_later(bus: Bus, start_node: Start) -> None:
    """A scheduler that is killed after it was given an order leaves it with the engine, which gives it out again only
    after a while; what people say in the meantime reaches the next scheduler first."""
    cancelled, other = await give(bus, spec("null:60:60"), spec())
    killed = Pull(bus, STATE, durable="intake")
    assert len(await killed.next(60)) == 2
    await killed.close()
    await client.cancel(bus, cancelled, why="not needed", by="ana")
    await start_node()
    ended = await client.wait(bus, cancelled, 60)
    assert (ended.state, ended.attempts, ended.cancel and ended.cancel.by) == ("cancelled", (), "ana")
    assert (await client.wait(bus, other, 60)).state == "done"
    assert (await client.get_order(bus, cancelled)) == ended


async def applied(book: Book, request: messages.AnyRequest) -> Control:
    await scheduler.apply(book, Cleaning(cast(Bus, None), book), request)
    return book.control


async def test_each_request_changes_what_it_names_and_nothing_else() -> None:
    book = Book(5.0, lambda: 7.0)
    book.change_control(
        budgets={"fleet": Budget(usd=3.0, tokens=9, spent_usd=1.0)}, drained={"n2": Note(at=1, by="x", what="")}
    )
    book.change_control(parks={"a": Park(until=1.0), "b": Park(until=2.0)}, limits={"agent:x": 2})
    book.back_at.update({"a": 5.0, "b": 6.0})
    before, ana = book.control, {"by": "ana", "why": "release day"}
    note = Note(at=7.0, by="ana", what="release day")
    assert (await applied(book, messages.PauseRequest(scope="fleet", **ana))).pauses == {"fleet": note}
    assert (await applied(book, messages.ResumeRequest(scope="fleet"))) == before and book.control_changed
    drained = (await applied(book, messages.DrainRequest(node="n1", **ana))).drained
    assert drained == {**before.drained, "n1": note}
    assert (await applied(book, messages.UndrainRequest(node="n1"))) == before
    raised = await applied(book, messages.BudgetRequest(scope="fleet", tokens=None, share=0.5))
    assert raised.budgets == {"fleet": Budget(usd=3.0, share=0.5, spent_usd=1.0)}, "what was spent stays spent"
    assert (await applied(book, messages.BudgetRequest(scope="project:p", usd=2.0))).budgets["project:p"] == Budget(
        usd=2.0
    )
    assert (await applied(book, messages.LimitRequest(scope="repo:/r", most=1))).limits == {"agent:x": 2, "repo:/r": 1}
    assert (await applied(book, messages.LimitRequest(scope="agent:x"))).limits == {"repo:/r": 1}
    unparked = await applied(book, messages.UnparkRequest(account="a"))
    assert set(unparked.parks) == {"b"} and book.back_at == {"b": 6.0}
    assert await applied(book, messages.UnparkRequest(account="never-was"))
    for about_an_order in (
        messages.CancelOrder(order="a"),
        messages.SetRequest(order="a"),
        messages.NoteRequest(order="a"),
    ):
        with pytest.raises(AssertionError, match="about an order"):
            await applied(book, about_an_order)


async def test_how_long_is_kept_is_set_one_by_one_and_looked_at_at_once() -> None:
    book = Book(5.0, lambda: 7.0)
    cleaning = Cleaning(cast(Bus, None), book)
    cleaning.next = 99.0
    await scheduler.apply(book, cleaning, messages.KeepRequest(keep_seconds=0.0))
    assert (book.control.keep_seconds, book.control.keep_bytes) == (0.0, Control().keep_bytes) and cleaning.next == 0.0
    await scheduler.apply(book, cleaning, messages.KeepRequest(keep_bytes=5))
    assert (book.control.keep_seconds, book.control.keep_bytes) == (0.0, 5)


async def test_who_is_held_now_is_told_and_what_is_only_paused_is_not() -> None:
    book = book_with(plain_spec("a", project="p"), plain_spec("b", labels=("x",)), plain_spec("c", project="p"))
    book.nodes["n1"].labels = frozenset({"x"})
    place_all(book, 0.0)
    told = {"a": "fleet.tell.n1.a", "b": "fleet.tell.n1.b"}

    async def says(request: messages.AnyRequest) -> dict[str, object]:
        book.says.clear()
        await applied(book, request)
        return {say.subject: msgspec.json.decode(say.data)["do"] for say in book.says}

    assert await says(messages.PauseRequest(scope="project:p")) == {}
    assert await says(messages.PauseRequest(scope="project:p", now=True)) == {told["a"]: "hold"}
    assert await says(messages.ResumeRequest(scope="project:p")) == {told["a"]: "go_on"}, "what waits has no runner"
    assert await says(messages.PauseRequest(scope="label:x", now=True)) == {told["b"]: "hold"}
    assert await says(messages.PauseRequest(scope="node:n1", now=True)) == dict.fromkeys(told.values(), "hold")
    assert await says(messages.PauseRequest(scope="node:n2", now=True)) == {}
