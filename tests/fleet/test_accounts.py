"""Money, tokens and accounts: limits pause and ask, nothing is counted twice, a rate limit holds everybody on it."""

import asyncio
from pathlib import Path

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.fleet.conftest import Start, give, until_state
from tests.fleet.repositories import script, work
from tests.fleet.test_book import book_with
from tests.fleet.test_book import spec as plain_spec
from treadle.fleet import accounts, client
from treadle.fleet.book import Book
from treadle.fleet.bus import Bus
from treadle.fleet.control import Budget
from treadle.fleet.orders import OrderLimits, Used
from treadle.fleet.placing import over_budget, place_all

COSTLY = """
[[reply]]
when = "You were interrupted"
text = "I go on."
usage = { input = 10, output = 0 }
[[reply.call]]
name = "write_file"
arguments = { file_path = "late.txt", content = "x" }
[[reply]]
turn = 1
text = "I write."
usage = { input = 80, output = 0 }
[[reply.call]]
name = "write_file"
arguments = { file_path = "early.txt", content = "x" }
[[reply]]
text = "Done."
usage = { input = 1, output = 0 }
times = "always"
"""


async def test_at_its_limit_an_order_stops_and_asks_and_goes_on_with_more(
    bus: Bus,
    start_node: Start,
    repository: Path,
    tmp_path: Path,
) -> None:
    await start_node(slots=1)
    order = work(repository, script(tmp_path, COSTLY), limits=OrderLimits(tokens=70))
    await give(bus, order)
    await until_state(bus, order.id, "asking")
    (ask,) = await client.approvals(bus)
    assert ask["kind"] == "budget" and "used 80 of 70 tokens" in ask["text"]
    await client.answer(bus, order.id, "allow", by="ana")
    ended = await client.wait(bus, order.id, 90)
    assert ended.state == "done" and ended.limits.tokens == 140 and ended.attempts[1].resumed == "session", ended
    assert "late.txt" in ended.result["changed"] and ended.used.tokens > 80
    assert [note.by for note in ended.notes] == ["ana"] and "70 tokens -> 140 tokens" in ended.notes[0].what


async def test_who_gets_no_more_fails_and_an_unknown_price_is_not_nothing(
    bus: Bus,
    start_node: Start,
    repository: Path,
    tmp_path: Path,
) -> None:
    await start_node(slots=1)
    order = work(repository, script(tmp_path, COSTLY), limits=OrderLimits(usd=5.0))
    await give(bus, order)
    await until_state(bus, order.id, "asking")
    (ask,) = await client.approvals(bus)
    assert "nobody knows the price of its 80 tokens" in ask["text"]
    await client.answer(bus, order.id, "deny", by="ben")
    ended = await client.wait(bus, order.id, 90)
    assert ended.state == "failed" and "refused by ben" in ended.why


GROWING = """
[[reply]]
turn = 1
text = "I write."
usage = { input = 40, output = 0 }
[[reply.call]]
name = "write_file"
arguments = { file_path = "early.txt", content = "x" }
[[reply]]
text = "Done."
usage = { input = 40, output = 0 }
times = "always"
"""


async def test_before_each_call_of_the_model_there_must_be_room_for_one_like_the_last(
    bus: Bus,
    start_node: Start,
    repository: Path,
    tmp_path: Path,
) -> None:
    await start_node(slots=2)
    tight = work(repository, script(tmp_path, GROWING), limits=OrderLimits(tokens=70))
    wide = work(repository, script(tmp_path, GROWING), limits=OrderLimits(tokens=80))
    await give(bus, tight, wide)
    await until_state(bus, tight.id, "asking")
    (ask,) = await client.approvals(bus)
    assert "it has used 40 of 70 tokens, and its last call took 40" in ask["text"]
    assert (await client.get_order(bus, tight.id)).used.tokens == 40, "the limit is not passed"
    ended = await client.wait(bus, wide.id, 90)
    assert ended.state == "done" and ended.used.tokens == 80
    await client.cancel(bus, tight.id)


@given(
    st.lists(st.tuples(st.sampled_from(["place", "call", "end"]), st.integers(0, 5), st.integers(1, 60)), max_size=80)
)
def test_what_parallel_runs_spend_and_may_still_spend_never_passes_the_budget(
    steps: list[tuple[str, int, int]],
) -> None:
    limits = OrderLimits(tokens=50)
    book = book_with(*(plain_spec(f"o{number}", limits=limits) for number in range(6)), slots=6)
    book.change_control(budgets={"fleet": Budget(tokens=120)})
    for do, which, size in steps:
        row = book.rows.get(f"o{which}")
        if do == "place":
            place_all(book, 0.0)
        elif row is None or row.order.state == "queued":
            continue
        elif do == "end":
            book.finished(row, {"outcome": "done", "used": msgspec.to_builtins(row.order.counted)})
        elif not accounts.beyond(limits, row.order.counted, call := Used(input_tokens=size)):
            accounts.spend(book, row, row.order.counted.plus(call))
        spent = book.control.budgets["fleet"].spent_tokens
        assert spent + accounts.reserved(book, "fleet")[1] <= 120
        assert spent == sum(each.order.counted.tokens for each in book.rows.values()) + sum(
            used_by_ended(book, f"o{number}") for number in range(6)
        )


def used_by_ended(book: Book, name: str) -> int:
    unit = book.units.get(name)
    return 0 if name in book.rows or unit is None or unit.row is None else unit.row.order.used.tokens


async def test_limits_that_are_changed_hold_for_what_runs(bus: Bus, start_node: Start) -> None:
    await start_node()
    (name,) = await give(bus, plain_spec("slow", agent="null:60:60"))
    await until_state(bus, name, "running")
    await client.set_fields(bus, name, limits={"seconds": 1.0}, by="ana", why="enough")
    ended = await client.wait(bus, name, 60)
    assert ended.state == "failed" and "within 1 s" in ended.why
    assert "seconds None -> 1.0" in ended.notes[0].what and ended.notes[0].by == "ana"


def test_the_next_scheduler_counts_nothing_twice() -> None:
    book = book_with(plain_spec("a"))
    place_all(book, 1.0)
    accounts.spend(book, book.rows["a"], Used(input_tokens=70, usd=0.5))
    later = Book(book.lease)
    later.control = book.control
    later.add(book.rows["a"].spec, book.rows["a"].order, 7, 1.0)
    accounts.spend(later, later.rows["a"], Used(input_tokens=90, usd=0.6))
    assert later.control.budgets["fleet"].spent_tokens == 90
    assert later.control.budgets["fleet"].spent_usd == 0.6


def test_what_runs_is_held_when_the_budget_was_lowered_below_what_is_spent() -> None:
    book = book_with(plain_spec("a"))
    place_all(book, 1.0)
    row = book.rows["a"]
    accounts.spend(book, row, Used(input_tokens=70))
    assert over_budget(book, row) == ""
    budget = book.control.budgets["fleet"]
    book.change_control(budgets={"fleet": type(budget)(tokens=50, spent_tokens=budget.spent_tokens)})
    assert "70 of 50 tokens" in over_budget(book, row)


async def test_a_provider_that_says_wait_holds_everybody_on_the_account(
    bus: Bus,
    start_node: Start,
    repository: Path,
    tmp_path: Path,
) -> None:
    await start_node()
    text = """
    [[reply]]
    turn = 1
    error = { status = 429, message = "slow down", retry_after = 2 }
    [[reply]]
    text = "Done."
    times = "always"
    """
    order = work(repository, script(tmp_path, text), credential="work")
    await give(bus, order)
    async with asyncio.timeout(60):
        while not (parks := (await client.control(bus)).parks):
            await asyncio.sleep(0.02)
    assert "slow down" in parks["work"].why
    other = work(repository, script(tmp_path, '[[reply]]\ntext = "Done."\n'), credential="work")
    await give(bus, other)
    ended = [await client.wait(bus, each.id, 90) for each in (order, other)]
    assert [each.state for each in ended] == ["done", "done"], ended
    assert ended[1].attempts[0].placed >= parks["work"].until


STUCK = """
[[reply]]
when = "You seem to be stuck"
text = "Thank you."
[[reply]]
turn = 1
text = "never said"
delay = 300
[[reply]]
text = "Done."
times = "always"
"""


async def test_a_stalled_run_is_noted_and_interrupted_where_that_was_asked_for(
    bus: Bus,
    start_node: Start,
    repository: Path,
    tmp_path: Path,
) -> None:
    await start_node()
    order = work(repository, script(tmp_path, STUCK), stall_seconds=1.0, on_stall="interrupt")
    await give(bus, order)
    ended = await client.wait(bus, order.id, 90)
    assert ended.state == "done" and len(ended.attempts) == 1, ended
    assert ended.notes[0].by == "fleet" and ended.notes[0].what.startswith("stalled: nothing came from the agent")


async def test_a_stalled_run_is_tried_again_where_that_was_asked_for(
    bus: Bus,
    start_node: Start,
    repository: Path,
    tmp_path: Path,
) -> None:
    await start_node()
    order = work(repository, script(tmp_path, STUCK), stall_seconds=1.0, on_stall="retry", attempts=2)
    await give(bus, order)
    ended = await client.wait(bus, order.id, 90)
    assert [each.outcome for each in ended.attempts][0] == "lost" and "stalled" in ended.attempts[0].why
    assert len(ended.attempts) == 2
