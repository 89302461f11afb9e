"""The scheduler: what it decides together is stored together."""

import asyncio
import time
from typing import ClassVar

import msgspec
import pytest
from msgspec.structs import replace
from nats.aio.msg import Msg

from tests.fleet.conftest import Start, give, spec, until_state
from tests.fleet.engine.buses import StoringClient
from tests.fleet.engine.buses import pauses as pauses
from treadle.errors import StorageError
from treadle.fleet import client
from treadle.fleet.engine import layout, places, tasks
from treadle.fleet.engine.bus import INBOX, STATE, Bus, Stale, Unreachable
from treadle.fleet.orders import begun, encode
from treadle.fleet.schedule import scheduler
from treadle.fleet.schedule.book import Book, OpenOrder, Say
from treadle.wire.fleet.messages import (
    AttemptStarted,
    RateReported,
    RunAsked,
    RunEnded,
    RunLost,
    RunReport,
    RunResumed,
)
from treadle.wire.fleet.orders import Spec
from treadle.wire.fleet.records import AgentQuestion, Attempt, Order
from treadle.wire.fleet.states import State


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


@pytest.mark.slow
async def test_a_scheduler_that_stood_still_blames_no_runner_for_it(bus: Bus, start_node: Start) -> None:
    """On a machine that is overloaded, or was paused: what the runners said meanwhile is still on its way to us."""
    node = await start_node()
    (name,) = await give(bus, spec("null:4:40"))
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


# Without an engine: one that does not run, and what it makes of each thing that it hears...


@pytest.fixture
def there() -> StoringClient:
    return StoringClient()


@pytest.fixture
def lead(there: StoringClient) -> scheduler.Scheduler:
    return scheduler.Scheduler(there.bus(), "n1", 2.0)


def placed(lead: scheduler.Scheduler, name: str = "o", state: State = "running", **fields: object) -> OpenOrder:
    """An order that is at work on n1, in its second attempt."""
    attempts = tuple(Attempt(number=number, node="n1", placed=1.0) for number in (1, 2))
    given = spec(id=name, **fields)
    order = replace(begun(given, 1.0), state=state, node="n1", attempt=2, attempts=attempts)
    return lead.book.add(given, order, 5, 0.0)


async def keep(lead: scheduler.Scheduler, made: Spec, **fields: object) -> Order:
    """Store an order as an earlier scheduler has written it."""
    order = replace(begun(made, 1.0), **fields)
    await lead.bus.put(f"spec.{made.id}", encode(made))
    await lead.bus.put(f"order.{made.id}", encode(order))
    return order


def given(there: StoringClient, made: Spec, *, delivered: int = 1, name: str = "", **headers: str) -> Msg:
    message = there.message(encode(made), reply=f"$JS.ACK.S.intake.{delivered}.1.1.1600000000000000000.0", **headers)
    message.subject = f"$KV.fleet.spec.{name or made.id}"
    return message


def said(there: StoringClient, subject: str, value: object) -> Msg:
    message = there.message(encode(value))
    message.subject = subject
    return message


class Turns(scheduler.Scheduler):
    """Fails in a different way at each of its first turns."""

    errors: ClassVar[list[Exception]] = []
    seen: ClassVar[list[tuple[bool, int, bool]]] = []
    led: ClassVar[asyncio.Event]

    async def _elect(self) -> None:
        self.seen.append((self._careful, self._held.revision, self.leading.is_set()))
        self._held.revision = 7
        self.leading.set()
        if self.errors:
            raise self.errors.pop(0)

    async def _lead(self) -> None:
        self.led.set()
        await asyncio.Event().wait()


async def test_whatever_goes_wrong_it_starts_over_and_after_another_took_over_it_looks_twice(
    there: StoringClient, pauses: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    one = Turns(there.bus(), "n1", 2.0)
    Turns.errors, Turns.led = [Unreachable("away"), StorageError("full"), Stale("control")], asyncio.Event()
    with caplog.at_level("INFO"):
        running = asyncio.create_task(one.run())
        await asyncio.wait_for(one.led.wait(), 60)
        await tasks.end((running,))
    assert one.seen == [(False, 0, False), (False, 7, False), (False, 7, False), (True, 0, False)]
    assert pauses == [0.4] * 3 and not one.leading.is_set()
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "n1 cannot lead: away"),
        ("ERROR", "n1 cannot lead: full"),
        ("WARNING", "n1 is the scheduler no more: another wrote control"),
        ("INFO", "n1 is the scheduler now"),
    ]


async def test_after_an_outage_everybody_counts_as_heard(lead: scheduler.Scheduler) -> None:
    row = placed(lead)
    (back,) = lead.bus.returned
    back()
    assert row.heard > 0.0 and lead.wake.is_set() and lead.book.nodes["n1"].heard > 0.0


async def test_an_order_that_is_missing_among_many_is_asked_for_alone(
    there: StoringClient, lead: scheduler.Scheduler
) -> None:
    await keep(lead, spec(id="a"))
    await lead.bus.put("active.a", b"{}")
    there._matching = lambda pattern: ["active.a"] if pattern == "active.*" else []  # type: ignore[method-assign]
    assert [*(await lead._load()).rows] == ["a"]


async def test_what_comes_in_is_taken_in_once(there: StoringClient, lead: scheduler.Scheduler) -> None:
    await keep(lead, spec(id="known"))
    new, known, early, again = (spec(id=name) for name in ("new", "known", "early", "again"))
    lead._early.add("early")
    await lead._take([given(there, new), given(there, early), given(there, again, delivered=2)], [])
    assert [*lead.book.rows] == ["new", "again"] and lead._early == set()
    await lead._take([given(there, known, delivered=2), given(there, spec(id="gone"), KV_Operation="PURGE")], [])
    assert [*lead.book.rows] == ["new", "again"]
    lead._careful = True
    await lead._take([given(there, known)], [])
    assert "known" not in lead.book.rows
    lead._careful = False
    await lead._take([given(there, known)], [])
    assert "known" in lead.book.rows, "at its first delivery no one can have taken it in"


async def test_what_is_no_order_fails_with_the_reason(there: StoringClient, lead: scheduler.Scheduler) -> None:
    wrong = replace(spec(id="empty"), task=" ")
    await lead._take([given(there, spec(id="b"), name="a"), given(there, wrong)], [])
    assert lead.book.rows == {} and lead.book.fate == {"a": "failed", "empty": "failed"}
    for name, says in (("a", "this is no order: the order 'b' was stored as 'a'"), ("empty", "the task is empty")):
        row = lead.book.units[name].row
        assert row is not None and says in row.order.why and row.order.reason == "invalid"


async def test_the_fate_of_an_order_is_that_of_its_latest_retry(lead: scheduler.Scheduler) -> None:
    book = lead.book
    await keep(lead, spec(id="one"), state="failed", retried_as="two")
    await keep(lead, spec(id="two"), state="failed", retried_as="three")
    await keep(lead, spec(id="three", land="main", root="/r"), state="done", result={"commit": "c"})
    await keep(lead, spec(id="open"))
    await keep(lead, spec(id="no-branch"), state="done", result={"commit": "c"})
    for name in ("one", "open", "no-branch", "none"):
        await lead._learn_fate(book, name)
    assert book.fate == {"one": "done", "no-branch": "done"} and book.unlanded == {"one": "three"}
    book.fate["three"], book.unlanded["three"] = "failed", "four"
    await lead._learn_fate(book, "two")
    assert book.fate["two"] == "failed" and book.unlanded["two"] == "four"
    placed(lead, "late")
    await keep(lead, spec(id="first"), state="failed", retried_as="late")
    await lead._learn_fate(book, "first")
    assert "first" not in book.fate, "it is under way again"
    await keep(lead, spec(id="loop"), state="failed", retried_as="loop")
    await asyncio.wait_for(lead._learn_fate(book, "loop"), 60)
    assert "loop" not in book.fate


async def test_a_report_counts_for_the_attempt_that_is_at_work_on_its_node(
    there: StoringClient, lead: scheduler.Scheduler
) -> None:
    row = placed(lead, state="placed")

    async def hears(report: RunReport, node: str = "n1") -> State:
        await lead._take([], [said(there, f"fleet.in.node.{node}.{report.KIND}", report)])
        return row.order.state

    started = AttemptStarted(order="o", attempt=2)
    assert await hears(started, "n2") == await hears(replace(started, attempt=1)) == "placed" and row.heard == 0.0
    assert await hears(replace(started, order="none")) == "placed"
    assert await hears(started) == "running" and row.heard > 0.0
    assert await hears(RunAsked(order="o", attempt=2, ask=AgentQuestion(text="?"), nth=1)) == "asking"
    assert await hears(RunResumed(order="o", attempt=2, nth=1)) == "running" and row.order.newest_ask == (2, 1)
    assert await hears(RunLost(order="o", attempt=2, why="gone")) == "queued"
    assert row.order.attempts[-1].why == "gone" and await hears(started) == "queued"
    row = placed(lead, "p")
    assert await hears(RunEnded(order="p", attempt=2, outcome="done", why="all there")) == "done"
    assert row.order.why == "all there"
    await hears(RateReported(order="o", attempt=2, account="key", until=9e9, why="slow"))
    assert lead.book.control.parks["key"].why == "slow" and lead.book.control.parks["key"].until == 9e9


async def test_what_cannot_be_read_or_is_no_move_is_skipped_and_the_next_is_taken(
    there: StoringClient, lead: scheduler.Scheduler, caplog: pytest.LogCaptureFixture
) -> None:
    row = placed(lead)
    bad = [said(there, "fleet.in.wish.cancel", []), said(there, "fleet.in.wish.unknown", {})]
    resumed = said(there, "fleet.in.node.n1.resumed", RunResumed(order="o", attempt=2, nth=1))
    await lead._take([], [*bad, said(there, "fleet.in.node.n1.lost", RunLost(order="o", attempt=2)), resumed])
    assert row.order.state == "queued"
    assert "the message on fleet.in.wish.cancel is skipped" in caplog.messages[0]


async def test_what_was_decided_is_stored_with_the_lease_and_each_row_knows_its_revision(
    there: StoringClient, lead: scheduler.Scheduler
) -> None:
    await lead._elect()
    lead.book.accept(spec(id="a"), 0.0)
    lead.book.accept(spec(id="b"), 0.0)
    lead.book.change_control(limits={"agent:a": 2})
    await lead._commit()
    assert lead.book.units == {} and not lead.book.control_changed
    for key, revision in (("order.a", 3), ("order.b", 5), ("control", 7), (scheduler.LEASE, 2)):
        assert there.keys[key][0] == revision, key
    rows = lead.book.rows
    assert (rows["a"].revision, rows["b"].revision, lead.book.control_revision, lead._held.revision) == (3, 5, 7, 2)
    lead.book.change(rows["b"], priority=7)
    lead.book.change_control(limits={})
    await lead._commit()
    assert (rows["b"].revision, lead.book.control_revision, lead._held.revision) == (9, 10, 8)
    await lead._commit()
    assert there.revision == 10, "nothing is to be said, and the lease is fresh"
    lead._held.renewed -= 1.0
    await lead._commit()
    assert lead._held.revision == 11, "a third of the lease is over"
    there.keys[scheduler.LEASE] = (12, b"", {})
    lead.book.change(rows["b"], priority=8)
    with pytest.raises(Stale):
        await lead._commit()
    assert there.keys["order.b"][0] == 9


async def test_more_than_one_batch_can_hold_is_written_in_several(
    there: StoringClient, lead: scheduler.Scheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    await lead._elect()
    monkeypatch.setattr(scheduler, "BATCH_MAX", 15)  # so five writes, one of them the lease
    for number in range(5):
        lead.book.accept(spec(id=f"o{number}"), 0.0)
    await lead._commit()
    assert [there.keys[f"order.o{number}"][0] for number in range(5)] == [3, 5, 8, 10, 13]
    assert [row.revision for row in lead.book.rows.values()] == [3, 5, 8, 10, 13] and lead._held.revision == 12


async def test_what_is_said_goes_to_its_stream_or_to_who_listens_and_no_answer_is_overwritten(
    there: StoringClient, lead: scheduler.Scheduler
) -> None:
    await lead.bus.put("answer.a.1", b"a person's")
    lead.book.says = [Say("fleet.ev.o.1.n1", b"stored", stored=True), Say("fleet.tell.n1.o", b"told")]
    lead.book.unanswered = [("answer.a.1", b"late"), ("answer.b.1", b"deny")]
    there.sent.clear()
    await lead._tell()
    assert [(sent.subject, sent.data, sent.timeout > 0) for sent in there.sent[:2]] == [
        ("fleet.ev.o.1.n1", b"stored", True),
        ("fleet.tell.n1.o", b"told", False),
    ]
    assert there.keys["answer.a.1"][1] == b"a person's" and there.keys["answer.b.1"][1] == b"deny"
    assert lead.book.says == [] and lead.book.unanswered == []
