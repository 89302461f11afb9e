"""The clauses for a one-shot runner: our own keeps each of them, and one fault at a time is found."""

from pathlib import Path
from typing import Any

import pytest

from tests.conform.conftest import broken, candidate, clauses, ruling, sections

FAULTS: list[tuple[str, dict[str, Any], str]] = [
    ("a log line beside the answer", {"where": "*", "raw": "INFO ready\nSaid by the model.\n"}, "text is the answer"),
    ("the answer is lost", {"where": "*", "drop": True}, "text is the answer"),
    ("another subtype", {"where": {"type": "result"}, "set": {"subtype": "ok"}}, "json is exactly one object"),
    ("two objects", {"where": {"type": "result"}, "twice": True}, "json is exactly one object"),
    ("no session", {"where": {"type": "result"}, "set": {"session_id": None}}, "json is exactly one object"),
    (
        "a failed run is called a success",
        {"where": {"type": "result"}, "set": {"subtype": "success", "is_error": False}},
        "a run that failed is one object",
    ),
    ("a stream with two results", {"where": {"type": "result"}, "twice": True}, "the last one is the only result"),
    (
        "a line after the result",
        {"where": {"type": "result"}, "after": '{"type":"bye"}\n'},
        "the last one is the only result",
    ),
    (
        "a delta is lost",
        {"where": {"event": {"type": "content_block_delta"}}, "drop": True, "count": 1},
        "streamed as content_block_delta",
    ),
    (
        "a line of another session",
        {"where": {"type": "stream_event"}, "set": {"session_id": "z"}, "count": 1},
        "every line has the session",
    ),
    ("one id for all events", {"where": {"type": "stream_event"}, "set": {"uuid": "z"}}, "every line has the session"),
    (
        "a failed stream is called a success",
        {"where": {"type": "result"}, "set": {"subtype": "success", "is_error": False}},
        "ends with one result whose subtype",
    ),
    ("a failed run exits with 0", {"code": 0}, "a run that failed exits with 1"),
    ("every run exits with 3", {"code": 3}, "a run that succeeded exits with 0"),
]


@pytest.mark.parametrize("sentence", clauses("oneshot"))
async def test_our_own_keeps(sentence: str, tmp_path: Path) -> None:
    found = await ruling("oneshot", sentence, candidate("oneshot", tmp_path))
    assert found.outcome == "kept", found.seen


@pytest.mark.parametrize(("fault", "spoil", "words"), FAULTS, ids=[fault for fault, _, _ in FAULTS])
async def test_a_fault_is_found(fault: str, spoil: dict[str, Any], words: str, tmp_path: Path) -> None:
    patience = 10.0 if "ignore" in spoil else 60.0
    assert await broken("oneshot", words, candidate("oneshot", tmp_path, spoil, patience))


def test_its_clauses_are_listed_by_the_parts_of_the_specification() -> None:
    assert sections("oneshot") == {"text", "json", "stream-json", "Exit codes"}
