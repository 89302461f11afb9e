"""The clauses for a worker: our own keeps each of them, and one fault at a time is found."""

from pathlib import Path
from typing import Any

import pytest

from tests.conform.conftest import broken, candidate, clauses, kit, ruling, sections
from tests.conform.inside import worker
from treadle.conform.kit import judge
from treadle.conform.worker import BAD_LINES, LATENCIES

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
    *(
        (f"init_ok has {what}", {"where": {"type": "init_ok"}, "set": change}, words)
        for what, change, words in (
            ("another type", {"type": "ok"}, "init is answered by one init_ok"),
            ("an error", {"error": {"code": "x"}}, "init is answered by one init_ok"),
            ("no session", {"session_id": None}, "init is answered by one init_ok"),
            ("no version", {"protocol_version": None}, "init is answered by one init_ok"),
            ("version 1", {"protocol_version": "1.0"}, "init is answered by one init_ok"),
            ("an error without a version", {"error": {"code": "x"}}, "without protocol_version is accepted"),
            ("another type without a version", {"type": "ok"}, "without protocol_version is accepted"),
            ("an error for a later field", {"error": {"code": "x"}}, "unknown fields in requests"),
            ("another type for a later field", {"type": "ok"}, "unknown fields in requests"),
            ("another id for another version", {"id": "z"}, "another major version"),
            ("another code", {"error.code": "x"}, "another major version"),
            ("another version and can be tried again", {"error.retryable": True}, "another major version"),
        )
    ),
    *(
        (f"status_ok has {what}", {"where": {"type": "status_ok"}, "set": change}, "status is answered by status_ok")
        for what, change in (
            ("another type", {"type": "ok"}),
            ("another id", {"id": "z"}),
            ("another session", {"session_id": "z"}),
            ("no model", {"model": None}),
            ("a fraction", {"messages_count": 1.5}),
            ("no count", {"messages_count": None}),
            ("something active", {"active": True}),
        )
    ),
    *(
        (f"a result has {what}", {"where": {"type": "result"}, "set": change}, words)
        for what, change, words in (
            ("another type", {"type": "done"}, "a send ends with one result"),
            ("another status", {"status": "fine"}, "a send ends with one result"),
            ("no calls", {"tool_calls_made": None}, "a send ends with one result"),
            ("another text", {"response": "x"}, "the model's text as its response"),
            ("another text than was streamed", {"response": "x"}, "streamed as content_delta"),
            ("a count too few", {"usage": {"prompt_tokens": 1, "total_tokens": 1}}, "that add up"),
            ("a count that is true", {"usage.prompt_tokens": True, "usage.total_tokens": 7}, "that add up"),
            ("a part that takes longer", {"model_latency_ms": 8}, "latencies are whole"),
            ("no name of its worker", {"worker_id": "z"}, "task_id and worker_id"),
            ("another session", {"session_id": "z"}, "task_id and worker_id"),
            ("other calls", {"tool_calls_made": []}, "a tool's start and end"),
            ("another code for a cancel", {"error.code": "x"}, "cancel ends a running send"),
            ("a cancel that can be tried again", {"error.retryable": True}, "cancel ends a running send"),
            ("a cancel of nothing", {"error": {"code": "cancelled"}}, "a cancel of what does not run"),
            ("a failure after a cancel", {"status": "error"}, "the session goes on"),
            ("another code for a failure", {"error.code": "x"}, "a failing model"),
            ("no words for a failure", {"error.message": None}, "a failing model"),
            ("a response to a failure", {"response": "x"}, "a failing model"),
            ("an answer for a failure", {"status": "ok"}, "a failing model"),
            ("another id before init", {"id": "z"}, "a send before init"),
            ("another code before init", {"error.code": "x"}, "a send before init"),
        )
    ),
    ("a line follows the result", {"where": {"type": "result"}, "after": "{}\n"}, "a send ends with one result"),
    (
        "another word for a tool",
        {"where": {"event": {"name": "*"}}, "set": {"event.name": "x"}},
        "a tool's start and end",
    ),
    (
        "beats do not grow",
        {"where": {"event": {"duration_ms": 400}}, "set": {"event.duration_ms": 200}},
        "a heartbeat comes",
    ),
    (
        "a beat is a fraction",
        {"where": {"event": {"duration_ms": "*"}}, "set": {"event.duration_ms": 1.5}},
        "a heartbeat",
    ),
    ("an event of no send", {"where": {"type": "event"}, "set": {"send_id": "z"}, "count": 1}, "events are numbered"),
    (
        "a message is changed",
        {"give": {"where": {"id": "s2"}, "set": {"message": "x"}}},
        "arrives at the model as it was",
    ),
    ("a message is cut", {"give": {"where": {"id": "s2"}, "set": {"message": "x"}}}, "one megabyte"),
    ("shutdown has another answer", {"where": {"type": "shutdown_ok"}, "set": {"id": "z"}}, "shutdown is answered"),
    ("an answer is lost", {"where": {"type": "status_ok"}, "drop": True}, "requests that are written at once"),
    ("a request in bytes has another id", {"where": {"type": "status_ok"}, "set": {"id": "z"}}, "byte by byte"),
    ("a request in bytes has another answer", {"where": {"type": "status_ok"}, "set": {"type": "z"}}, "byte by byte"),
    *(
        (
            f"{what} is answered",
            {"where": {"error": {"code": "protocol_error"}}, "set": {"status": "ok"}},
            f"{what} is refused",
        )
        for what in BAD_LINES
    ),
    (
        "nothing after a bad line",
        {"where": {"type": "status_ok"}, "set": {"type": "z"}},
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
async def test_a_fault_is_found(fault: str, spoil: dict[str, Any], words: str) -> None:
    assert await broken("worker", words, worker(spoil))


@pytest.mark.parametrize("sentence", clauses("worker"))
async def test_a_right_program_of_another_keeps(sentence: str) -> None:
    found = await ruling("worker", sentence, worker())
    assert found.outcome == "kept", found.seen


@pytest.mark.parametrize(
    ("spoil", "words", "why"),
    [
        ({"where": {"type": "result"}, "set": {"status": "error"}}, "the model's text", "it did not get an answer"),
        ({"where": {"type": "*"}, "set": {"usage": None, "event": {}}}, "that add up", "it reports no usage"),
        (
            {"where": {"type": "result"}, "set": dict.fromkeys(LATENCIES)},
            "latencies are whole",
            "it reports no latencies",
        ),
    ],
)
async def test_what_does_not_apply_is_not_tried(spoil: dict[str, Any], words: str, why: str) -> None:
    (found,) = await judge(kit("worker"), worker(spoil), only=words)
    assert found.outcome == "untried" and found.seen.startswith(why)


def test_its_clauses_are_listed_by_the_parts_of_the_specification() -> None:
    assert sections("worker") == {
        "Lifecycle",
        "send and its events",
        "Framing and limits",
        "Tools",
        "cancel",
        "Error envelope",
    }
