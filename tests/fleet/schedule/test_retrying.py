"""Which failed attempts are followed by another, and when."""

import time

import pytest
from msgspec.structs import replace

from tests.fleet.schedule.test_book import book_with, spec
from treadle.fleet.schedule.placing import place_all
from treadle.wire.fleet.messages import RunActivity, RunEnded
from treadle.wire.fleet.orders import RetryOn
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
