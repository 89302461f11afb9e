"""The row of an order: who must look at it, and what its attempts took together."""

from typing import Any

import pytest
from msgspec.structs import replace

from treadle.serve.order_rows import OrderRow, row_of
from treadle.wire.fleet.records import Attempt, Order, OrderHead, Used

DONE = Order(id="o", state="done", changed=1.0, result={"patch": "p"})


@pytest.mark.parametrize(
    ("fields", "needs"),
    [
        ({}, "review"),
        ({"open_ask": "1"}, "asks"),
        ({"result": {}}, ""),
        ({"result": {"patch": "p", "reviewed": True}}, ""),
        ({"result": {"patch": "p", "merged": True}}, ""),
        ({"result": {"patch": "p", "discarded": True}}, ""),
        ({"retried_as": "n"}, ""),
        ({"state": "failed"}, "failed"),
        ({"state": "failed", "retried_as": "n"}, ""),
        ({"state": "running"}, ""),
    ],
)
def test_a_person_looks_at_questions_failures_and_work_that_no_one_has_seen(fields: dict[str, Any], needs: str) -> None:
    assert row_of(replace(DONE, **fields), 1).needs == needs


def test_attempts_are_counted_by_what_became_of_them() -> None:
    attempts = (
        Attempt(number=1, node="a", placed=10.0, ended=14.0, outcome="lost"),
        Attempt(number=2, node="b", placed=20.0, ended=21.0, outcome="done"),
        Attempt(number=3, node="b", placed=30.0),
    )
    row = row_of(replace(DONE, attempts=attempts), 1)
    assert (row.started, row.lost, row.runs, row.ran) == (10.0, 1, 2, 5.0)
    assert row_of(DONE, 1).started == 0.0


def test_the_head_the_revision_and_the_result_are_taken_over() -> None:
    order = replace(
        DONE,
        used=Used(input_tokens=3, output_tokens=4, usd=0.5),
        result={"files": 2, "stat": "+1", "verified": False, "denied": 3},
    )
    row = row_of(order, 7)
    assert all(getattr(row, name) == getattr(order, name) for name in OrderHead.__struct_fields__)
    assert (row.revision, row.tokens, row.usd, row.files, row.stat) == (7, 7, 0.5, 2, "+1")
    assert (row.verified, row.denied) == (False, 3)
    fresh = OrderRow(id="o", state="queued", changed=1.0, revision=1)
    assert (fresh.merged, fresh.discarded, fresh.reviewed) == (False, False, False), "where nothing is said of it"
    seen = row_of(replace(DONE, result={"merged": "c", "discarded": True}), 1)
    assert (seen.merged, seen.discarded, seen.reviewed) == (True, True, True)
