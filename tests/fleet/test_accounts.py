"""Money, tokens and accounts: limits pause and ask, nothing is counted twice, a rate limit holds everybody on it."""

import asyncio
from pathlib import Path

from tests.fleet.conftest import Start, give, until_state
from tests.fleet.test_book import book_with
from tests.fleet.test_book import spec as plain_spec
from tests.fleet.test_continuing import script
from tests.fleet.test_steering import git, repository, work  # noqa: F401
from treadle.fleet import accounts, client
from treadle.fleet.book import Book
from treadle.fleet.bus import Bus
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
    repository: Path,  # noqa: F811
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
    repository: Path,  # noqa: F811
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
    repository: Path,  # noqa: F811
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
    repository: Path,  # noqa: F811
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
    repository: Path,  # noqa: F811
    tmp_path: Path,
) -> None:
    await start_node()
    order = work(repository, script(tmp_path, STUCK), stall_seconds=1.0, on_stall="retry", attempts=2)
    await give(bus, order)
    ended = await client.wait(bus, order.id, 90)
    assert [each.outcome for each in ended.attempts][0] == "lost" and "stalled" in ended.attempts[0].why
    assert len(ended.attempts) == 2
