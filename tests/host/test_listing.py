"""Receipts in a list."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.wire.conversations.sidecar import SAMPLE_RECEIPT
from treadle.host.store import ListedRun, ReceiptStore, row_of


def test_a_row_whose_receipt_is_gone_says_so(state_home: Path) -> None:
    store = ReceiptStore()
    store.add(replace(SAMPLE_RECEIPT, usage_raw={}))
    link = next(iter(store.links()))
    Path(store.path(link.run_id)).unlink()
    row = row_of(store, link)
    assert (row.outcome, row.sequence, row.run_id, row.sha256) == ("?", 1, link.run_id, link.sha256)
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
