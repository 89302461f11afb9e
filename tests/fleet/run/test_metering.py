"""What an order uses, measured while it runs: at its limit it stops and asks."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fleet.conftest import Start, give
from tests.fleet.repositories import model, says, work, write
from treadle.errors import BudgetExceeded, Cancelled, TreadleError
from treadle.events import Usage
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.fleet.run.execute import Meter
from treadle.wire.fleet.orders import OrderLimits
from treadle.wire.fleet.records import AskRecord, Used


def uses(tokens: int) -> dict[str, int]:
    return {"input": tokens, "output": 0}


async def asked(bus: Bus, count: int) -> dict[str, AskRecord]:
    """What is asked, by order, as soon as there are so many."""
    async with asyncio.timeout(90):
        while len(asks := await client.approvals(bus)) < count:
            await asyncio.sleep(0.05)
    return {ask.order: ask for ask in asks}


@pytest.mark.slow
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


def meter(limits: OrderLimits, before: Used | None = None) -> tuple[Meter, Any, list[TreadleError]]:
    """With as much of an attempt as it looks at."""
    order = SimpleNamespace(used=before or Used())
    attempt: Any = SimpleNamespace(limits=limits, order=order, may_go_on=asyncio.Event(), stopped=None, parked=False)
    attempt.may_go_on.set()
    stops: list[TreadleError] = []

    async def stop(error: TreadleError) -> None:
        stops.append(error)

    return Meter(attempt, stop), attempt, stops


async def test_an_agent_that_only_reports_is_stopped_once_at_its_limit_and_more_is_asked_for() -> None:
    counts, attempt, stops = meter(OrderLimits(tokens=100), Used(input_tokens=30))
    first = Usage(input_tokens=10, output_tokens=20, cache_read_tokens=5, cache_write_tokens=4, cost_usd=0.5)
    await counts.count(first)
    assert counts.used == Used(
        input_tokens=10, output_tokens=20, cache_read_tokens=5, cache_write_tokens=4, calls=1, usd=0.5
    )
    assert not stops and not attempt.parked and counts.asks_for_more is None
    await counts.count(Usage(input_tokens=31))
    (error,) = stops
    assert str(error) == "it has used 100 of 100 tokens" and error.code == "budget_exceeded" and attempt.parked
    asked = counts.asks_for_more
    assert asked is not None and (asked.kind, asked.request, asked.tool) == ("budget", "budget", "budget")
    assert asked.text == "it has used 100 of 100 tokens. Allow as much again?"
    await counts.count(Usage(input_tokens=31))
    assert len(stops) == 1 and counts.used.calls == 3, "it is counted, and asked for once"


async def test_our_own_agent_stops_before_a_call_that_would_not_fit_and_counts_from_where_it_began() -> None:
    counts, attempt, stops = meter(OrderLimits(tokens=100))
    for tokens in (1000, 1030, 1060, 1080):  # the last of them fits exactly
        (await counts.before_call(lambda now=tokens: (now, None)))()
    await counts.count(Usage(input_tokens=500))
    assert stops == [], "who asks before each call is not stopped as well"
    with pytest.raises(BudgetExceeded, match="it has used 95 of 100 tokens, and its last call took 15") as refused:
        await counts.before_call(lambda: (1095, None))
    with pytest.raises(BudgetExceeded, match="it has used 95 of 100 tokens"):
        await counts.before_call(lambda: (1095, None))  # of a subagent, while the run ends
    assert attempt.parked and refused.value.code == "budget_exceeded"
    dear, _, _ = meter(OrderLimits(usd=1.0))
    for tokens, usd in ((10, 5.0), (20, 5.25)):
        (await dear.before_call(lambda now=(tokens, usd): now))()
    with pytest.raises(BudgetExceeded, match="0.8000 of 1 USD, and its last call took 0.5500"):
        await dear.before_call(lambda: (30, 5.8))


@pytest.mark.parametrize("known", [True, False], ids=["a call has ended", "none has"])
async def test_calls_at_the_same_time_do_not_pass_the_limit_together(known: bool) -> None:
    counts, attempt, _ = meter(OrderLimits(tokens=100))
    spent = 0
    if known:
        (await counts.before_call(lambda: (spent, None)))()
        spent = 30
    made = most = 0

    async def call() -> None:
        nonlocal spent, made, most
        ended = await counts.before_call(lambda: (spent, None))
        made += 1
        most = max(most, made)
        for _ in range(5):  # the others may begin meanwhile
            await asyncio.sleep(0)
        spent, made = spent + 30, made - 1
        ended()

    done = await asyncio.gather(*(call() for _ in range(8)), return_exceptions=True)
    assert spent == 90 and most == 2 and attempt.parked, "those that fit together do not wait"
    assert sum(isinstance(error, BudgetExceeded) for error in done) == (6 if known else 5)


@pytest.mark.parametrize(
    ("limits", "price"), [(OrderLimits(tokens=1000), None), (OrderLimits(usd=1.0), 0.001)], ids=["tokens", "money"]
)
async def test_calls_at_the_same_time_reserve_what_they_ask_with_where_that_is_more_than_the_last_took(
    limits: OrderLimits, price: float | None
) -> None:
    counts, _, _ = meter(limits)
    spent = 0

    def now() -> tuple[int, float | None]:
        return spent, None if price is None else spent * price

    (await counts.before_call(now))()
    spent = 10
    begun = []

    async def call() -> None:
        begun.append(await counts.before_call(now, (300, 300 * (price or 0))))

    calls = [asyncio.create_task(call()) for _ in range(8)]
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(begun) == 3, "a fourth would pass the limit"
    for task in calls:
        task.cancel()


async def test_one_that_is_stopped_asks_for_nothing_and_one_that_is_paused_waits() -> None:
    counts, attempt, stops = meter(OrderLimits(tokens=1))
    attempt.stopped = Cancelled("by ana")
    await counts.count(Usage(input_tokens=50))
    assert not stops and counts.asks_for_more is None
    attempt.may_go_on.clear()
    call = asyncio.create_task(counts.before_call(lambda: (5, None)))
    await asyncio.sleep(0)
    assert not call.done()
    attempt.may_go_on.set()
    await asyncio.wait_for(call, 60)
