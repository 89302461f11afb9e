"""Receipts of runs."""

import pytest
from msgspec.structs import replace

from tests.cli.receipts import SECOND
from treadle.host.store import ReceiptStore
from treadle.testing.conversations.sidecar import SAMPLE_RECEIPT


@pytest.fixture
def store() -> ReceiptStore:
    kept = ReceiptStore()
    kept.add(SAMPLE_RECEIPT)
    kept.add(replace(SAMPLE_RECEIPT, meta=replace(SAMPLE_RECEIPT.meta, run_id=SECOND), outcome="partial"))
    return kept
