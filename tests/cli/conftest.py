"""Receipts of runs, and a warm parent that runs start from."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.cli.receipts import SECOND
from tests.cli.warm_runs import Warm
from tests.warm import kept_warm
from treadle.cli.warm import AGENT, PRELOAD
from treadle.host.store import ReceiptStore
from treadle.io.process import warm as warm_parents
from treadle.testing.conversations.sidecar import SAMPLE_RECEIPT


@pytest.fixture
def store() -> ReceiptStore:
    kept = ReceiptStore()
    kept.add(SAMPLE_RECEIPT)
    kept.add(replace(SAMPLE_RECEIPT, meta=replace(SAMPLE_RECEIPT.meta, run_id=SECOND), outcome="partial"))
    return kept


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with kept_warm(tmp_path_factory.mktemp("warm")) as place:
        yield place


@pytest.fixture
def warm(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Warm:
    """One warm parent is enough for all tests that leave it alive."""
    monkeypatch.setenv("TREADLE_HOME", str(home))
    monkeypatch.setenv("TREADLE_WARM", "600")
    warm_parents.begin(AGENT, PRELOAD, 600)
    return Warm(home, tmp_path)
