"""Receipts of runs, and a stream that is a terminal."""

import io

import pytest
from msgspec.structs import replace

from tests.wire.conversations.sidecar import SAMPLE_RECEIPT
from treadle.host.store import ReceiptStore

SECOND = "550e8400-e29b-41d4-a716-446655440001"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def store() -> ReceiptStore:
    kept = ReceiptStore()
    kept.add(SAMPLE_RECEIPT)
    kept.add(replace(SAMPLE_RECEIPT, meta=replace(SAMPLE_RECEIPT.meta, run_id=SECOND), outcome="partial"))
    return kept
