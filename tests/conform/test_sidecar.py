"""The clauses for a sidecar: our own keeps each of them, and one fault at a time is found."""

from pathlib import Path
from typing import Any

import pytest

from tests.conform.conftest import broken, candidate, clauses, kit, ruling, sections
from tests.conform.inside import sidecar
from treadle.conform.kit import judge

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
    *(
        (f"hello has {what}", {"where": {"t": "hello"}, "set": change}, words)
        for what, change, words in (
            ("no such version", {"contract_version": "abp/v0.x"}, "a contract_version of the form"),
            ("a backend that is a text", {"backend": "x"}, "names its backend"),
            ("a list of capabilities", {"capabilities": []}, "capabilities is a map"),
            ("a limit without a reason", {"capabilities": {"x": {"restricted": {}}}}, "capabilities is a map"),
            ("a limit that is a text", {"capabilities": {"x": {"restricted": "y"}}}, "capabilities is a map"),
        )
    ),
    *(
        (f"the receipt has {what}", {"where": {"t": "final"}, "set": {f"receipt.{path}": value}}, "the receipt's meta")
        for what, path, value in (
            ("another order", "meta.work_order_id", "z"),
            ("another contract", "meta.contract_version", "abp/v1.0"),
            ("no beginning", "meta.started_at", None),
            ("an end without a zone", "meta.finished_at", "2024-01-01T00:00:00"),
            ("no duration", "meta.duration_ms", None),
            ("a negative duration", "meta.duration_ms", -1),
            ("no meta", "meta", None),
        )
    ),
    *(
        (
            f"{name} has another type",
            {"where": {"t": "final"}, "set": {f"receipt.{name}": "x"}},
            "the receipt has backend",
        )
        for name in ("backend", "capabilities", "usage", "verification", "artifacts")
    ),
    ("a final of another run", {"where": {"t": "final"}, "set": {"ref_id": "z"}}, "exactly one final or fatal"),
    ("a final without a run", {"where": {"t": "final"}, "set": {"ref_id": None}}, "carry the run's id"),
    ("a final without a receipt", {"where": {"t": "final"}, "set": {"receipt": None}}, "the receipt's outcome"),
    ("an event that is a text", {"where": {"t": "event"}, "set": {"event": "x"}}, "every event has a time"),
    ("an event without a time", {"where": {"t": "event"}, "set": {"event.ts": None}}, "every event has a time"),
    (
        "no answer",
        {"where": {"event": {"type": "assistant_message"}}, "set": {"event.type": "warning"}},
        "the answer is an assistant_message",
    ),
    (
        "an answer without words",
        {"where": {"event": {"type": "assistant_message"}}, "set": {"event.text": 3}},
        "the answer is an assistant_message",
    ),
    ("a word before the first run", {"where": {"t": "hello"}, "after": '{"t":"event"}\n'}, "no line that is not hello"),
    (
        "a failed model goes unnoticed",
        {"where": {"t": "final"}, "set": {"receipt.outcome": "complete"}},
        "when the model",
    ),
    (
        "a trace in another order",
        {"where": {"event": {"type": "run_started"}}, "set": {"event.type": "assistant_message"}},
        "the trace holds",
    ),
    ("another word for pong", {"where": {"t": "pong"}, "set": {"t": "pang"}}, "ping is answered by pong"),
    ("no pong during a run", {"where": {"t": "pong"}, "set": {"seq": 9}}, "while a run is under way"),
    ("it exits with 3", {"code": 3}, "exits with 0 after a run"),
]


@pytest.mark.parametrize("sentence", clauses("sidecar"))
async def test_our_own_keeps(sentence: str, tmp_path: Path) -> None:
    found = await ruling("sidecar", sentence, candidate("sidecar", tmp_path))
    assert found.outcome == "kept", found.seen


@pytest.mark.parametrize(("fault", "spoil", "words"), FAULTS, ids=[fault for fault, _, _ in FAULTS])
async def test_a_fault_is_found(fault: str, spoil: dict[str, Any], words: str) -> None:
    assert await broken("sidecar", words, sidecar(spoil))


@pytest.mark.parametrize("sentence", clauses("sidecar"))
async def test_a_right_program_of_another_keeps(sentence: str) -> None:
    found = await ruling("sidecar", sentence, sidecar())
    assert found.outcome == "kept", found.seen


FATAL = '{"t":"fatal","error":"no model"}\n'


@pytest.mark.parametrize(
    ("spoil", "words", "outcome", "why"),
    [
        ({"where": {"t": "final"}, "raw": FATAL}, "the receipt's outcome", "untried", "the run ended with fatal"),
        (
            {"where": {"t": "final"}, "set": {"receipt.receipt_sha256": None}},
            "receipt_sha256",
            "untried",
            "the receipt has no hash",
        ),
        ({"where": {"t": "final"}, "raw": FATAL}, "exactly one final or fatal", "kept", "fatal"),
        ({"where": {"t": "final"}, "raw": FATAL}, "when the model fails", "kept", "fatal, None"),
        ({"where": {"t": "final"}, "raw": FATAL}, "cancel stops a run", "kept", "fatal, None"),
        ({"where": {"t": "hello"}, "set": {"mode": None}}, "mode, if it is there", "kept", "absent: mapped"),
    ],
)
async def test_what_does_not_apply_is_not_tried_and_a_failure_may_be_right(
    spoil: dict[str, Any], words: str, outcome: str, why: str
) -> None:
    (found,) = await judge(kit("sidecar"), sidecar(spoil), only=words)
    assert found.outcome == outcome and found.seen.startswith(why), found


def test_its_clauses_are_listed_by_the_parts_of_the_specification() -> None:
    assert sections("sidecar") == {"hello", "run and its events", "Receipt", "ping and cancel", "Framing and limits"}
