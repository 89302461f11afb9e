"""The clauses for a worker: our own keeps each of them, and one fault at a time is found."""

from pathlib import Path
from typing import Any

import pytest

from tests.conform.conftest import broken, candidate, clauses, ruling, sections

FAULTS: list[tuple[str, dict[str, Any], str]] = [
    ("init_ok has another id", {"where": {"type": "init_ok"}, "set": {"id": "z"}}, "init is answered by one init_ok"),
    (
        "the session has no id",
        {"where": {"type": "init_ok"}, "set": {"session_id": ""}},
        "init is answered by one init_ok",
    ),
    ("init is answered twice", {"where": {"type": "init_ok"}, "twice": True}, "init is answered by one init_ok"),
    (
        "a log line comes before init_ok",
        {"where": {"type": "init_ok"}, "before": "INFO ready\n"},
        "init is answered by one init_ok",
    ),
    (
        "another major version is accepted",
        {"where": {"type": "init_ok"}, "set": {"error": None}},
        "another major version",
    ),
    ("an event has no send_id", {"where": {"type": "event"}, "set": {"send_id": None}}, "events are numbered"),
    (
        "events are counted from 1",
        {"where": {"type": "event", "event_seq": 0}, "set": {"event_seq": 1}},
        "events are numbered",
    ),
    ("an event is said twice", {"where": {"type": "event"}, "twice": True, "count": 1}, "events are numbered"),
    (
        "a delta is lost",
        {"where": {"event": {"event": "content_delta"}}, "drop": True, "count": 1},
        "streamed as content_delta",
    ),
    ("the result is of another send", {"where": {"type": "result"}, "set": {"id": "z"}}, "a send ends with one result"),
    (
        "iterations is a fraction",
        {"where": {"type": "result"}, "set": {"iterations": 1.0}},
        "a send ends with one result",
    ),
    (
        "the counts do not add up",
        {"where": {"event": {"event": "usage"}}, "set": {"event.total_tokens": 1}},
        "that add up",
    ),
    ("a latency is a fraction", {"where": {"type": "result"}, "set": {"total_latency_ms": 1.5}}, "latencies are whole"),
    ("the task's id is not echoed", {"where": {"type": "result"}, "set": {"task_id": None}}, "task_id and worker_id"),
    (
        "a cancelled send is called ok",
        {"where": {"error": {"code": "cancelled"}}, "set": {"status": "ok"}},
        "cancel ends a running send",
    ),
    (
        "cancel is answered",
        {"where": {"error": {"code": "cancelled"}}, "after": '{"type":"cancel_ok","id":"c1"}\n'},
        "cancel itself has no reply",
    ),
    (
        "retryable is a text",
        {"where": {"error": {"code": "provider_error"}}, "set": {"error.retryable": "yes"}},
        "a failing model",
    ),
    (
        "a line follows shutdown_ok",
        {"where": {"type": "shutdown_ok"}, "after": '{"type":"bye"}\n'},
        "shutdown is answered",
    ),
    ("it exits with 3", {"code": 3}, "shutdown is answered"),
    (
        "the last line does not end",
        {"where": {"type": "shutdown_ok"}, "raw": '{"type":"shutdown_ok"'},
        "shutdown is answered",
    ),
    (
        "a bad line ends it",
        {"where": {"error": {"code": "protocol_error"}}, "exit": 1},
        "a line that is no JSON is refused",
    ),
    ("status is never answered", {"ignore": {"type": "status"}}, "status is answered by status_ok"),
    (
        "every tool is enabled whatever the init says",
        {"give": {"where": {"type": "init"}, "set": {"config.tools": ["read_file", "write_file"]}}},
        "a tool that the init did not enable",
    ),
]


@pytest.mark.parametrize("sentence", clauses("worker"))
async def test_our_own_keeps(sentence: str, tmp_path: Path) -> None:
    found = await ruling("worker", sentence, candidate("worker", tmp_path))
    assert found.outcome == "kept", found.seen


@pytest.mark.parametrize(("fault", "spoil", "words"), FAULTS, ids=[fault for fault, _, _ in FAULTS])
async def test_a_fault_is_found(fault: str, spoil: dict[str, Any], words: str, tmp_path: Path) -> None:
    patience = 10.0 if "ignore" in spoil else 60.0
    assert await broken("worker", words, candidate("worker", tmp_path, spoil, patience))


def test_its_clauses_are_listed_by_the_parts_of_the_specification() -> None:
    assert sections("worker") == {
        "Lifecycle",
        "send and its events",
        "Framing and limits",
        "Tools",
        "cancel",
        "Error envelope",
    }
