"""What is left of a run: its receipt, a copy of that, and only those files that the receipt points to."""

from pathlib import Path
from typing import Any

import pytest

from tests.host.conftest import order, scripted
from treadle.errors import StorageError
from treadle.host.conclude import make_receipt, redactor_of, settle, write_copy
from treadle.host.job import Job
from treadle.host.run import HostRun
from treadle.host.store import ReceiptStore
from treadle.redact import MARK
from treadle.wire.sidecar.receipts import Receipt, ToolCalled
from treadle.wire.sidecar.repair import read_receipt


def more(receipt: Receipt) -> dict[str, Any]:
    found: dict[str, Any] = receipt.usage_raw["treadle"]
    return found


def test_what_no_receipt_can_hold_costs_only_what_was_said(source: Path, store: ReceiptStore) -> None:
    host = HostRun(Job(order=order(source), backend=scripted("good")), store)
    host.observed.trace.extend([ToolCalled(ts="2025-01-01T00:00:00Z", tool_name="x", input=object())])
    receipt = store.add(make_receipt(host.observed))
    assert store.get(host.run_id) == receipt and receipt.outcome == "failed"
    assert "makes no receipt: TypeError" in more(receipt)["end"]["message"]


def test_a_copy_of_the_receipt_can_be_read_again(source: Path, store: ReceiptStore, tmp_path: Path) -> None:
    host = HostRun(Job(order=order(source), backend=scripted("good")), store)
    receipt = store.add(make_receipt(host.observed))
    write_copy(receipt, str(tmp_path / "copy.json"))
    assert read_receipt((tmp_path / "copy.json").read_bytes(), []) == receipt
    with pytest.raises(StorageError):
        write_copy(receipt, str(tmp_path / "none" / "copy.json"))


def test_secrets_of_the_order_and_of_our_environment_are_known(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "our-own-words")
    work = order(source)
    work.config.env["THEIR_TOKEN"] = "words-of-theirs"
    assert redactor_of(work).text("our-own-words words-of-theirs") == f"{MARK} {MARK}"


@pytest.mark.parametrize(("left_out", "stays"), [(0, []), (3, ["events.jsonl", "lock"])])
def test_a_run_leaves_only_what_its_receipt_points_to(
    source: Path, store: ReceiptStore, tmp_path: Path, left_out: int, stays: list[str]
) -> None:
    host = HostRun(Job(order=order(source), backend=scripted("good")), store)
    host.observed.trace.seen += left_out
    place = tmp_path / "run"
    place.mkdir()
    for name in ("lock", "run.json", "receipt.json", "events.jsonl", "workspace.json"):
        (place / name).touch()
    settle(str(place), host.observed, None)
    assert sorted(path.name for path in place.glob("*")) == stays and place.exists() == bool(stays)
