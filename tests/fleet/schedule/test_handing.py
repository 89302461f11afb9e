"""When another agent goes on with an order, and what moves with it."""

import time

import pytest

from tests.fleet.schedule.test_book import book_with, spec
from treadle.fleet.schedule.book import Book, OpenOrder
from treadle.fleet.schedule.placing import place_all, rate_limited
from treadle.wire.fleet.messages import HandRequest, RunEnded
from treadle.wire.fleet.records import Budget
from treadle.wire.fleet.states import REASONS

LATER = 3 * 86400.0


def at_work(**fields: object) -> tuple[Book, OpenOrder]:
    book = book_with(spec("a", agent="one", fallback=("two", "three"), model="big", **fields))
    place_all(book, 1.0)
    row = book.rows["a"]
    book.started(row, 1.0)
    return book, row


def ends(book: Book, row: OpenOrder, outcome: str = "handed_back", **fields: object) -> None:
    report = RunEnded(order="a", attempt=row.order.attempt, outcome=outcome, **fields)  # type: ignore[arg-type]
    book.finished(row, report)


def test_a_limit_that_lasts_long_gives_the_order_to_the_next_agent_once_the_first_has_ended() -> None:
    book, row = at_work()
    rate_limited(book, "one", time.time() + LATER, "no more this week")
    book.tick(1.0)
    assert row.order.agent == "one" and row.order.handing is not None
    ends(book, row, run="r1")
    assert (row.order.agent, row.spec.agent, row.spec.model, row.order.state) == ("two", "two", None, "queued")
    assert place_all(book, 1.0) == 1, "its account is another"
    assert [(each.agent, each.run) for each in row.order.attempts] == [("one", "r1"), ("two", "")]
    assert REASONS["usage_limit"] in row.order.notes[-1].what and "no more this week" in row.order.notes[-1].what
    ends(book, row, "done")
    assert row.order.state == "done" and [each.to for each in row.order.handed] == ["two"]


@pytest.mark.parametrize("fields", [{"fallback_after": LATER + 60}, {"fallback": ()}])
def test_a_limit_that_the_order_can_wait_for_changes_nothing(fields: dict[str, object]) -> None:
    book = book_with(spec("a", **{"agent": "one", "fallback": ("two",), **fields}))
    rate_limited(book, "one", time.time() + LATER, "later")
    book.tick(1.0)
    assert book.rows["a"].order.agent == "one" and book.rows["a"].order.handing is None


def test_an_order_that_waits_goes_to_the_next_agent_at_once() -> None:
    book = book_with(spec("a", agent="one", fallback=("two",)))
    book.change_control(budgets={"agent:one": Budget(tokens=5, spent_tokens=9)})
    book.tick(1.0)
    row = book.rows["a"]
    assert row.order.agent == "two" and row.order.handed[0].reason == "budget" and place_all(book, 1.0) == 1


def test_two_failures_of_the_same_kind_are_a_reason_and_two_others_are_none() -> None:
    book, row = at_work(attempts=1, backoff=0.0)
    for reason, agent in (("x", "one"), ("y", "one"), ("y", "two")):
        ends(book, row, "failed", reason=reason, why="it broke")
        assert row.order.agent == agent and row.order.state == "queued"
        place_all(book, 1.0)
    assert row.order.handed[0].reason == "same_failure"


def test_when_no_agent_is_left_the_order_ends() -> None:
    book, row = at_work(backoff=0.0)
    while row.order.state != "failed":
        ends(book, row, "failed", reason="x", why="it broke")
        place_all(book, 1.0)
    assert [each.agent for each in row.order.attempts] == ["one", "one", "two", "two", "three"]


def test_an_agent_that_no_machine_has_is_passed_over() -> None:
    book, row = at_work()
    ends(book, row, "not_here", why="no such program")
    assert row.order.agent == "two" and row.order.handed[0].reason == "program"


def test_where_no_machine_has_the_next_agents_the_first_one_waits_for_its_limit() -> None:
    book, row = at_work()
    rate_limited(book, "one", time.time() + LATER, "no more this week")
    book.tick(1.0)
    ends(book, row)
    for _ in ("two", "three"):
        place_all(book, 1.0)
        ends(book, row, "not_here", why="no such program")
    assert [each.to for each in row.order.handed] == ["two", "three", "one"] and row.order.state == "queued"
    book.tick(1.0)
    assert place_all(book, 1.0) == 0 and row.order.agent == "one"


def test_a_person_hands_it_over_and_who_had_it_goes_on_if_the_other_cannot_start() -> None:
    book, row = at_work()
    book.request(row, HandRequest(order="a", to="three", by="ana", why="faster"))
    ends(book, row)
    place_all(book, 1.0)
    ends(book, row, "not_here", why="no such program")
    assert [each.to for each in row.order.handed] == ["three", "two"]
    for _ in ("two", "one"):
        place_all(book, 1.0)
        ends(book, row, "not_here", why="no such program")
    assert [each.to for each in row.order.handed] == ["three", "two", "one"] and row.order.state == "failed"


def test_of_two_changes_at_once_the_first_counts_and_one_that_is_done_by_then_is_not_handed_over() -> None:
    book, row = at_work()
    for to in ("two", "three"):
        book.request(row, HandRequest(order="a", to=to, by="ana"))
    ends(book, row, "done")
    assert row.order.agent == "one" and row.order.state == "done"
    book, row = at_work()
    for to in ("two", "three"):
        book.request(row, HandRequest(order="a", to=to, by="ana"))
    ends(book, row)
    assert row.order.agent == "two" and len(row.order.handed) == 1
    book, row = at_work()
    book.hand(row, book._change_to(row, "two", "budget", "spent: 5 of 4 tokens"))
    book.request(row, HandRequest(order="a", to="three", by="ana"))
    ends(book, row)
    assert row.order.agent == "three", "what a person says counts more than what a rule has begun"


def test_a_runner_that_dies_during_the_change_does_not_undo_it_and_a_new_scheduler_knows_of_it() -> None:
    book, row = at_work()
    book.request(row, HandRequest(order="a", to="two", by="ana"))
    other = book_with()
    again = other.add(row.given, row.order, 1, 1.0)
    for each, one in ((book, row), (other, again)):
        each.lost(one, "killed")
        assert one.order.agent == "two" and one.spec.agent == "two" and one.order.state == "queued"


def test_a_cancelled_order_is_not_handed_over() -> None:
    from treadle.wire.fleet.messages import CancelOrder

    book, row = at_work()
    book.request(row, HandRequest(order="a", to="two", by="ana"))
    book.request(row, CancelOrder(order="a", by="ana"))
    ends(book, row, "cancelled")
    assert row.order.state == "cancelled"
