"""The clauses for a one-shot runner: our own keeps each of them, and one fault at a time is found."""

from pathlib import Path
from typing import Any

import pytest

from tests.conform.conftest import broken, candidate, clauses, kit, ruling, sections
from tests.conform.inside import Ran
from treadle.conform.kit import ANSWER, judge

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
    ("another answer", {"where": {"type": "result"}, "set": {"result": "x"}}, "json is exactly one object"),
    ("another kind", {"where": {"type": "result"}, "set": {"type": "x"}}, "json is exactly one object"),
    ("an empty session", {"where": {"type": "result"}, "set": {"session_id": ""}}, "json is exactly one object"),
    ("a list", {"where": {"type": "result"}, "raw": "[1]\n"}, "json is exactly one object"),
    ("no JSON", {"where": {"type": "result"}, "raw": "oh\n"}, "json is exactly one object"),
    ("another answer in a stream", {"where": {"type": "result"}, "set": {"result": "x"}}, "the last one is the only"),
    ("a line that is no JSON", {"where": {"type": "result"}, "before": "oh\n"}, "the last one is the only result"),
    ("a line with a list", {"where": {"type": "result"}, "before": "[1]\n"}, "the last one is the only result"),
    ("a prompt is changed", {"prompt": "other"}, "the prompt reaches the model"),
    ("a prompt from stdin is lost", {"prompt": "other"}, "the prompt may come on stdin"),
    (
        "a failed run has an answer",
        {"where": {"type": "result"}, "set": {"result": ANSWER}},
        "a run that failed is one object",
    ),
    (
        "a delta of another kind",
        {"where": {"type": "stream_event"}, "set": {"event.delta.type": "x"}, "count": 1},
        "streamed as content_block_delta",
    ),
    ("no ids of events", {"where": {"type": "stream_event"}, "set": {"uuid": None}}, "every line has the session"),
    ("no session in a line", {"where": {"type": "*"}, "set": {"session_id": None}}, "every line has the session"),
    ("a failed stream without a result", {"where": {"type": "result"}, "raw": "{}\n"}, "ends with one result whose"),
    ("a failed run says nothing", {"errors": "", "output": " "}, "a failed run in text says why"),
    ("a failed run answers", {"output": ANSWER}, "a failed run in text says why"),
    ("a command that is none is asked of the model", {"asks": True}, "an unknown slash command"),
    ("a command that is none is passed over", {"errors": "", "output": ""}, "an unknown slash command"),
    ("half an object", {"output": '{"type":'}, "an interrupt ends a run"),
    ("a failed run exits with 0", {"code": 0}, "a run that failed exits with 1"),
    ("every run exits with 3", {"code": 3}, "a run that succeeded exits with 0"),
]


@pytest.mark.parametrize("sentence", clauses("oneshot"))
async def test_our_own_keeps(sentence: str, tmp_path: Path) -> None:
    found = await ruling("oneshot", sentence, candidate("oneshot", tmp_path))
    assert found.outcome == "kept", found.seen


@pytest.mark.parametrize(("fault", "spoil", "words"), FAULTS, ids=[fault for fault, _, _ in FAULTS])
async def test_a_fault_is_found(fault: str, spoil: dict[str, Any], words: str) -> None:
    assert await broken("oneshot", words, Ran(command=("x",), rule=spoil))


async def test_a_right_program_of_another_keeps_all_and_one_that_reaches_no_model_is_not_judged() -> None:
    assert {found.outcome for found in await judge(kit("oneshot"), Ran(command=("x",)))} == {"kept"}
    untried = {
        found.sentence
        for found in await judge(kit("oneshot"), Ran(command=("x",), requests=False))
        if found.outcome == "untried"
    }
    assert len(untried) == 10 and not any("slash" in sentence or "interrupt" in sentence for sentence in untried)
    seen = await judge(
        kit("oneshot"), Ran(command=("x",), rule={"where": {"type": "result"}, "set": {"subtype": "success"}})
    )
    assert {found.outcome for found in seen} == {"kept"}, "is_error alone says that it failed"


async def test_a_failed_run_may_say_why_on_either_stream_and_that_is_shown() -> None:
    for rule, shown in (({"errors": "", "output": "no key"}, '"no key"'), ({"output": "x"}, '"it failed"')):
        [found] = await judge(kit("oneshot"), Ran(command=("x",), rule=rule), only="a failed run in text says why")
        assert (found.outcome, found.seen) == ("kept", shown)


def test_its_clauses_are_listed_by_the_parts_of_the_specification() -> None:
    assert sections("oneshot") == {"text", "json", "stream-json", "Exit codes"}
