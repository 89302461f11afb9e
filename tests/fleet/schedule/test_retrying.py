"""Which failed attempts are followed by another, and when."""

import time

import pytest
from msgspec.structs import replace

from tests.fleet.schedule.test_book import book_with, spec
from treadle.fleet.schedule import book as retrying
from treadle.fleet.schedule.placing import place_all
from treadle.wire.fleet.messages import RunActivity, RunEnded
from treadle.wire.fleet.orders import RetryOn
from treadle.wire.fleet.records import AWAY, Attempt, Order, Used
from treadle.wire.fleet.states import Fault


@pytest.mark.parametrize(
    ("fault", "asked", "again"),
    [
        ("ours", (), True),
        ("verify", (), False),
        ("verify", ("verify",), True),
        ("provider", ("verify",), False),
        ("provider", ("provider",), True),
        ("", ("provider", "verify"), False),
    ],
)
def test_what_is_worth_another_attempt_is_for_the_order_to_say_except_what_is_our_fault(
    fault: Fault, asked: tuple[RetryOn, ...], again: bool
) -> None:
    book = book_with(spec("a", retry_on=asked, attempts=3, backoff=60.0))
    row = book.rows["a"]
    waits = []
    for number in (1, 2, 3):
        row.order = replace(row.order, not_before=0.0)  # its time has come
        if place_all(book, 1.0):
            now = time.time()
            book.finished(row, RunEnded(order="a", attempt=number, fault=fault, why="it broke", output="no"))
            waits.append(round(max(0.0, row.order.not_before - now), -1))
    assert waits == ([60, 120, 0] if again else [0])
    assert row.order.state == "failed" and row.order.why == "it broke"
    assert [attempt.output for attempt in row.order.attempts] == ["no"] * len(waits)
    assert len(row.order.notes) == len(waits) - 1


def test_a_stall_is_a_reason_for_another_attempt_where_that_was_asked_for() -> None:
    book = book_with(spec("a", retry_on=("stall",), stall_seconds=1.0))
    place_all(book, 1.0)
    row = book.rows["a"]
    book.started(row, 1.0)
    row.activity = RunActivity(last_event=time.time() - 60, began=True)
    book.tick(1.0)
    assert row.order.state == "queued" and row.order.attempts[0].outcome == "lost"


def ended(*outcomes: str, **fields: object) -> Order:
    attempts = tuple(Attempt(number=n, node="n", placed=1.0, outcome=each) for n, each in enumerate(outcomes, 1))  # type: ignore[arg-type]
    return Order(id="a", state="running", changed=1.0, attempts=attempts)


@pytest.mark.parametrize(
    ("report", "tried", "worth"),
    [
        (RunEnded(order="a", attempt=1, fault="ours"), ("failed",), True),
        (RunEnded(order="a", attempt=1, fault="ours", outcome="cancelled"), ("failed",), False),
        (RunEnded(order="a", attempt=1, fault="ours"), ("failed", "failed"), False),
        (RunEnded(order="a", attempt=1, fault="ours"), ("failed", "parked", "handed_back"), True),
        (RunEnded(order="a", attempt=1, retryable=True), ("failed",), True),
        (RunEnded(order="a", attempt=1, retryable=True, fault="verify"), ("failed",), False),
        (RunEnded(order="a", attempt=1), ("failed",), False),
    ],
)
def test_only_a_failure_that_is_worth_it_is_tried_again_within_its_attempts(
    report: RunEnded, tried: tuple[str, ...], worth: bool
) -> None:
    assert retrying.again(spec("a", attempts=2), ended(*tried), report) is worth


@pytest.mark.parametrize(
    ("outcomes", "seconds"),
    [
        ((), 0.0),
        (("lost",), 0.0),
        (("failed",), 10.0),
        (("failed", "lost", "failed"), 20.0),
        (("failed",) * 40, 3600.0),
    ],
)
def test_each_failure_doubles_the_wait_up_to_an_hour(outcomes: tuple[str, ...], seconds: float) -> None:
    assert retrying.pause(spec("a", backoff=10.0), ended(*outcomes)) == seconds


def test_where_work_lands_by_itself_no_outage_is_counted_and_no_one_has_to_ask_for_another_attempt() -> None:
    book = book_with(spec("a", land="main", attempts=1, backoff=60.0))
    row = book.rows["a"]
    outages: list[tuple[Fault, str]] = [("provider", "provider_error"), *(("ours", each) for each in AWAY)]
    for number, (fault, reason) in enumerate(outages * 4, 1):
        row.order = replace(row.order, not_before=0.0)
        assert place_all(book, 1.0) and row.order.attempt == number
        book.finished(row, RunEnded(order="a", attempt=number, fault=fault, reason=reason, why="it is away"))
        assert row.order.state == "queued" and row.order.not_before > time.time()
    row.order = replace(row.order, not_before=0.0)
    place_all(book, 1.0)
    book.finished(row, RunEnded(order="a", attempt=13, fault="provider", used=Used(input_tokens=1)))
    assert row.order.state == "failed", "what was paid for counts"


@pytest.mark.parametrize(
    ("placed", "last", "tries"),
    [
        ((1.0, 3600.0, 86000.0), "provider", 0),
        ((1.0, 3600.0, 86401.0, 90001.0), "provider", 2),
        ((1.0, 3600.0, 86401.0), "verify", 1),
    ],
    ids=["a day", "longer", "another failure between"],
)
def test_an_outage_of_more_than_a_day_counts(placed: tuple[float, ...], last: Fault, tries: int) -> None:
    order = ended(*("failed" for _ in placed))
    faults: list[Fault] = ["provider"] * (len(placed) - 1) + [last]
    attempts = tuple(
        replace(each, placed=at, fault=fault) for each, at, fault in zip(order.attempts, placed, faults, strict=True)
    )
    assert retrying.tries(spec("a", land="main"), replace(order, attempts=attempts)) == tries
