"""From what was seen to a receipt."""

from typing import Any

import pytest
from msgspec.structs import replace

from treadle.errors import BudgetExceeded, Denied, LocalError, PeerExited, TreadleError
from treadle.receipts.trace import Check, Observed, Trace
from treadle.redact import Redactor
from treadle.testing.conversations.sidecar import SAMPLE_ORDER, SAMPLE_RECEIPT
from treadle.wire.sidecar.connection import Final
from treadle.wire.sidecar.receipts import (
    AssistantDelta,
    ErrorMet,
    FileWritten,
    Receipt,
    WarningGiven,
    normal,
    receipt_hash,
)
from treadle.wire.sidecar.repair import Deviation
from treadle.workspace.changes import PathChange
from treadle.workspace.workspace import Difference

RUN = "550e8400-e29b-41d4-a716-446655440000"
T = "2025-01-01T00:00:00Z"


def observed(outcome: Any = "complete", **claim: Any) -> Observed:
    seen = Observed(RUN, SAMPLE_ORDER, "backend", 1_700_000_000.0)
    seen.finished = seen.started + 1.5
    seen.handshaking = False
    if outcome is not None:
        seen.final = Final(ref_id=RUN, receipt=replace(SAMPLE_RECEIPT, outcome=outcome, **claim))
    return seen


def made(seen: Observed) -> tuple[Receipt, dict[str, Any]]:
    receipt = seen.receipt(Redactor(["hunter2-secret"]))
    return receipt, receipt.usage_raw["treadle"]


@pytest.mark.parametrize(
    ("claimed", "error", "stopped", "check", "outcome"),
    [
        ("complete", None, None, None, "complete"),
        ("complete", None, None, 0, "complete"),
        ("complete", None, None, 1, "partial"),
        ("partial", None, None, 0, "partial"),
        ("failed", None, None, 0, "failed"),
        ("complete", None, BudgetExceeded("x"), None, "partial"),
        ("complete", None, Denied("x"), None, "failed"),
        ("complete", LocalError("x"), None, None, "failed"),
        (None, PeerExited("it", 3), None, None, "failed"),
    ],
)
def test_the_outcome_is_never_better_than_what_was_seen(
    claimed: str | None, error: TreadleError | None, stopped: TreadleError | None, check: int | None, outcome: str
) -> None:
    seen = observed(claimed)
    seen.error, seen.stopped = error, stopped
    seen.check = Check(command="c", exit_code=check) if check is not None else None
    receipt, more = made(seen)
    assert receipt.outcome == outcome
    assert receipt.meta.duration_ms == 1500
    assert (more["claimed"] is None) == (claimed is None)
    assert isinstance(receipt.trace[-1] if receipt.trace else None, ErrorMet) == bool(error or stopped)


def test_claims_and_facts_are_compared_by_file() -> None:
    seen = observed()
    root = SAMPLE_ORDER.workspace.root
    seen.trace.extend(
        [FileWritten(ts=T, path="both.txt", summary=""), FileWritten(ts=T, path="./said.txt", summary="")]
    )
    changes = (PathChange(kind="added", path="both.txt"), PathChange(kind="renamed", path="new", old_path="old"))
    seen.difference = Difference(after="x", changes=changes, patch=b"\xff diff", status="A  both.txt")
    receipt, more = made(seen)
    assert root == "." and more["differences"] == [
        "its receipt leaves out events that it sent: 2 file_changed",
        "said that it changed said.txt, which did not change",
        "changed new and did not say so",
        "changed old and did not say so",
    ]
    assert "diff" in (receipt.verification.git_diff or "")


def test_secrets_and_broken_text_do_not_get_in_and_ids_stay() -> None:
    seen = observed(usage_raw={"key": "hunter2-secret"})
    seen.trace.extend([WarningGiven(ts=T, message="the key is hunter2-secret")])
    seen.difference = Difference(after="x", changes=(), patch=b"", status="A  caf\udce9")
    receipt, _ = made(seen)
    text = str(receipt)
    assert "hunter2" not in text and "[redacted]" in text and receipt.meta.run_id == RUN
    assert receipt_hash(normal(receipt))


def test_notes_are_bounded_and_big_values_cut() -> None:
    seen = observed()
    seen.notes = [Deviation(where=str(number), problem="p", value="x" * 5000) for number in range(500)]
    _, more = made(seen)
    assert len(more["notes"]) == 200 and more["notes_left_out"] == 300
    assert len(more["notes"][0]["value"]) <= 2000


def test_a_trace_keeps_the_beginning_and_the_end() -> None:
    trace = Trace(keep=10)
    for number in range(2000):
        trace.extend([AssistantDelta(ts=T, text=str(number))])
    events = trace.events(T)
    assert trace.seen == 2000 and trace.left_out == 2000 - 510
    assert [event.text for event in events[:10]] == [str(number) for number in range(10)]  # type: ignore[union-attr]
    assert isinstance(events[10], WarningGiven) and events[-1].text == "1999"  # type: ignore[union-attr]
    one = Trace(keep=10)
    one.extend([AssistantDelta(ts=T, text=str(number)) for number in range(2000)])
    assert one.events(T) == events


def test_huge_events_and_a_huge_trace_do_not_fill_the_memory() -> None:
    trace = Trace(keep_bytes=1_000_000)
    huge = AssistantDelta(ts=T, text="x" * 200_000)
    for _ in range(100):
        trace.extend([huge, AssistantDelta(ts=T, text="small")], 200_100)
    events = trace.events(T)
    assert len(events) == 200 and sum(len(str(event)) for event in events) < 100_000
    assert "200" in str(events[0]) and events[1].text == "small"  # type: ignore[union-attr]
    long = Trace(keep_bytes=1000)
    for number in range(2000):
        long.extend([AssistantDelta(ts=T, text=str(number))], 50)
    assert len(long.events(T)) == 20 + 1 + 500


def test_a_sidecars_own_hash_is_checked_and_only_told() -> None:
    right = receipt_hash(normal(SAMPLE_RECEIPT))
    assert made(observed(receipt_sha256=right))[1]["claimed"]["sha256_matches"] is True
    assert made(observed(receipt_sha256="0" * 64))[1]["claimed"]["sha256_matches"] is False
    assert made(observed())[1]["claimed"]["sha256_matches"] is None


def test_what_we_know_ourselves_makes_a_receipt_when_what_was_said_does_not() -> None:
    seen = observed()
    seen.exit_code = 3
    receipt, more = made(seen.without_its_words(KeyError("odd")))
    assert receipt.outcome == "failed" and receipt.meta.run_id == RUN
    assert (more["end"]["exit_code"], more["end"]["error_code"]) == (3, "internal") and "odd" in more["end"]["message"]


def test_the_last_error_that_the_agent_reports_is_its_reason_unless_it_calls_itself_complete() -> None:
    for outcome, said in (("failed", "the second hunter2"), ("partial", "the second hunter2"), ("complete", None)):
        seen = observed(outcome)
        seen.trace.extend([ErrorMet(ts=T, message=text) for text in ("the first", "the second hunter2")])
        found = made(seen)[1]["end"]["said"]
        assert (found and found["message"]) == said
    assert made(observed("failed"))[1]["end"]["said"] is None
