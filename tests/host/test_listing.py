"""Which receipts someone wants to see."""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.wire.conversations.sidecar import SAMPLE_RECEIPT
from treadle.errors import ConfigError
from treadle.host.store import ListedRun, ReceiptStore, Wanted, moment, row_of

ROW = ListedRun(
    sequence=1,
    run_id="r",
    outcome="failed",
    backend="treadle:native",
    started_at="2026-01-02T03:04:05Z",
    sha256="",
    agent="native",
    task="Fix the parser",
    source="/code/project/part",
)


@pytest.mark.parametrize(
    ("wanted", "fits"),
    [
        ({}, True),
        ({"agent": "Native"}, True),
        ({"agent": "claude"}, False),
        ({"outcome": "failed"}, True),
        ({"outcome": "complete"}, False),
        ({"since": datetime(2026, 1, 2, tzinfo=UTC).timestamp()}, True),
        ({"since": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC).timestamp()}, True),
        ({"since": datetime(2026, 1, 2, 3, 4, 5, 1000, tzinfo=UTC).timestamp()}, False),
        ({"agent": "treadle:nat"}, True),
        ({"agent": "e native"}, True),
        ({"repository": "/code/project/"}, True),
        ({"repository": "/"}, True),
        ({"task": "lexer"}, False),
        ({"since": datetime(2026, 1, 3, tzinfo=UTC).timestamp()}, False),
        ({"repository": "/code/project"}, True),
        ({"repository": "/code/project/part"}, True),
        ({"repository": "/code/pro"}, False),
        ({"task": "PARSER"}, True),
        ({"task": "parser", "outcome": "complete"}, False),
    ],
)
def test_a_row_fits_when_everything_asked_for_fits(wanted: dict[str, Any], fits: bool) -> None:
    assert Wanted(**wanted).fits(ROW) is fits


def test_a_row_of_an_old_or_foreign_receipt_has_no_task_and_fits_no_wish_for_one(state_home: Path) -> None:
    store = ReceiptStore()
    store.add(replace(SAMPLE_RECEIPT, usage_raw={}))
    (row,) = (row_of(store, link) for link in store.links())
    assert row.task is None and not Wanted(task="x").fits(row) and not Wanted(repository="/").fits(replace(row))
    Path(store.path(row.run_id)).unlink()
    (row,) = (row_of(store, link) for link in store.links())
    link = next(iter(store.links()))
    assert (
        row.outcome == "?"
        and not Wanted(since=0.0).fits(row)
        and not Wanted(agent="none").fits(replace(row, backend=""))
    )
    assert (row.sequence, row.run_id, row.sha256, row.started_at) == (1, link.run_id, link.sha256, "")
    assert row.backend == f"there is no receipt {link.run_id}"


@pytest.mark.parametrize(
    ("raw", "known"),
    [
        ({"treadle": {"order": {"agent": "a", "task": "t"}, "workspace": {"source": "/s"}}}, ("a", "t", "/s")),
        ({"treadle": {"order": None, "workspace": None}}, (None, None, None)),
        ([1], (None, None, None)),
    ],
)
def test_a_row_has_what_its_receipt_says(state_home: Path, raw: Any, known: tuple[str | None, ...]) -> None:
    store = ReceiptStore()
    kept = store.add(replace(SAMPLE_RECEIPT, usage_raw=raw))
    (row,) = (row_of(store, link) for link in store.links())
    assert row == ListedRun(
        sequence=1,
        run_id=kept.meta.run_id,
        outcome="complete",
        backend="my-sidecar",
        started_at=kept.meta.started_at,
        sha256=kept.receipt_sha256 or "",
        agent=known[0],
        task=known[1],
        source=known[2],
    )


def test_times_are_spans_before_now_or_dates() -> None:
    assert moment(" 90 m ", now=10_000.0) == 4_600.0
    assert [1e6 - moment(f"2{unit}", now=1e6) for unit in "smhdw"] == [2, 120, 7200, 172_800, 1_209_600]
    before = time.time()
    assert before <= moment("0s") <= time.time()
    assert moment("2d", now=1e6) == 1e6 - 2 * 86400
    assert moment("2026-01-31") == datetime(2026, 1, 31, tzinfo=UTC).timestamp()
    assert moment("2026-01-31T10:00:00+02:00") == datetime(2026, 1, 31, 8, tzinfo=UTC).timestamp()
    for text in ("soon", "12", "-1d", "2026-13-01"):
        with pytest.raises(ConfigError, match=f"'{text}' is no time .such as 90m, 12h, 7d, or 2026-01-31"):
            moment(text)
