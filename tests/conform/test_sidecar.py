"""The clauses for a sidecar: our own keeps each of them, and one fault at a time is found."""

from pathlib import Path
from typing import Any

import pytest

from tests.conform.conftest import broken, candidate, clauses, ruling, sections

FAULTS: list[tuple[str, dict[str, Any], str]] = [
    ("a log line comes before hello", {"where": {"t": "hello"}, "before": "INFO\n"}, "the first line is hello"),
    ("an event comes before hello", {"where": {"t": "hello"}, "before": '{"t":"event"}\n'}, "the first line is hello"),
    (
        "another major version",
        {"where": {"t": "hello"}, "set": {"contract_version": "abp/v1.0"}},
        "a contract_version of the form",
    ),
    ("the backend has no id", {"where": {"t": "hello"}, "set": {"backend": {}}}, "names its backend"),
    (
        "an unknown level of support",
        {"where": {"t": "hello"}, "set": {"capabilities": {"streaming": "superb"}}},
        "capabilities is a map",
    ),
    ("an unknown mode", {"where": {"t": "hello"}, "set": {"mode": "sideways"}}, "mode, if it is there"),
    ("two finals", {"where": {"t": "final"}, "twice": True}, "exactly one final or fatal"),
    ("an event of another run", {"where": {"t": "event"}, "set": {"ref_id": "z"}}, "carry the run's id"),
    (
        "a time without its zone",
        {"where": {"t": "event"}, "set": {"event.ts": "2024-01-01T00:00:00"}},
        "every event has a time",
    ),
    ("an unknown event", {"where": {"t": "event"}, "set": {"event.type": "dance"}}, "every event has a time"),
    (
        "the receipt is of another run",
        {"where": {"t": "final"}, "set": {"receipt.meta.run_id": "z"}},
        "the receipt's meta",
    ),
    (
        "it ended before it began",
        {"where": {"t": "final"}, "set": {"receipt.meta.finished_at": "2000-01-01T00:00:00Z"}},
        "the receipt's meta",
    ),
    ("an unknown outcome", {"where": {"t": "final"}, "set": {"receipt.outcome": "fine"}}, "the receipt's outcome"),
    ("the receipt has no trace", {"where": {"t": "final"}, "set": {"receipt.trace": None}}, "the receipt has backend"),
    ("the trace is empty", {"where": {"t": "final"}, "set": {"receipt.trace": []}}, "the trace holds"),
    (
        "the receipt's hash is another",
        {"where": {"t": "final"}, "set": {"receipt.receipt_sha256": "00"}},
        "receipt_sha256",
    ),
    ("no pong", {"where": {"t": "pong"}, "set": {"seq": 9}}, "ping is answered"),
    (
        "a cancelled run is complete",
        {"where": {"t": "final"}, "set": {"receipt.outcome": "complete"}},
        "cancel stops a run",
    ),
    ("it exits with 3", {"code": 3}, "exits with 0 after a run"),
]


@pytest.mark.parametrize("sentence", clauses("sidecar"))
async def test_our_own_keeps(sentence: str, tmp_path: Path) -> None:
    found = await ruling("sidecar", sentence, candidate("sidecar", tmp_path))
    assert found.outcome == "kept", found.seen


@pytest.mark.parametrize(("fault", "spoil", "words"), FAULTS, ids=[fault for fault, _, _ in FAULTS])
async def test_a_fault_is_found(fault: str, spoil: dict[str, Any], words: str, tmp_path: Path) -> None:
    patience = 10.0 if "ignore" in spoil else 60.0
    assert await broken("sidecar", words, candidate("sidecar", tmp_path, spoil, patience))


def test_its_clauses_are_listed_by_the_parts_of_the_specification() -> None:
    assert sections("sidecar") == {"hello", "run and its events", "Receipt", "ping and cancel", "Framing and limits"}
