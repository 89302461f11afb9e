"""What Claude Code's records mean."""

from typing import Any

import pytest

from treadle.events import TaskChanged
from treadle.wire.claude.connection import (
    ClaudeTasks,
    context_window,
    ending,
    exit_code,
    file_change,
    result_text,
    usages,
)
from treadle.wire.claude.records import ClaudeResult, System

MODEL = {"inputTokens": 300, "outputTokens": 30, "cacheReadInputTokens": 60, "cacheCreationInputTokens": 6}


def result(**more: Any) -> ClaudeResult:
    return ClaudeResult(**{"subtype": "success", "is_error": False, "session_id": "s", **more})


def test_what_was_used_since_the_last_result_is_taken_when_it_is_told() -> None:
    since = {"opus": {**MODEL, "costUSD": 0.5, "thinkingTokens": 3}}
    (usage,) = usages(result(model_usage_since_last_result=since, modelUsage={"opus": {"inputTokens": 9999}}), None)
    assert (usage.model, usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens) == ("opus", 300, 60, 6)
    assert (usage.output_tokens, usage.reasoning_tokens, usage.cost_usd) == (30, 3, 0.5)


def test_totals_of_the_session_are_counted_from_the_last_result() -> None:
    now = {"opus": {**MODEL, "costUSD": 0.75}, "haiku": {**MODEL, "costUSD": 0.1}}
    found = usages(result(modelUsage=now), {"opus": {"inputTokens": 100, "outputTokens": 30, "costUSD": 0.5}})
    assert [(usage.model, usage.input_tokens, usage.output_tokens, usage.cost_usd) for usage in found] == [
        ("opus", 200, 0, 0.25),
        ("haiku", 300, 30, 0.1),
    ]


def test_a_cost_that_began_before_us_is_unknown() -> None:
    used = {"input_tokens": 10, "output_tokens": 2, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 1}
    (usage,) = usages(result(usage=used, modelUsage={"opus": {**MODEL, "costUSD": 9.0}}), None)
    assert (usage.model, usage.prompt_tokens, usage.output_tokens, usage.cost_usd) == ("opus", 16, 2, None)


def test_true_is_neither_a_count_nor_a_cost() -> None:
    (usage,) = usages(
        result(model_usage_since_last_result={"opus": {**MODEL, "outputTokens": True, "costUSD": True}}), {}
    )
    assert (usage.input_tokens, usage.output_tokens, usage.cost_usd) == (300, 0, None)


def test_nothing_used_is_no_usage() -> None:
    assert usages(result(model_usage_since_last_result={}), {}) == []
    assert usages(result(usage={"input_tokens": 0}), None) == []


@pytest.mark.parametrize(
    ("told", "outcome", "code"),
    [
        ({"result": "text"}, "completed", None),
        ({"is_error": True, "api_error_status": 401, "terminal_reason": "api_error"}, "failed", "auth_failed"),
        ({"is_error": True, "api_error_status": 429, "terminal_reason": "api_error"}, "failed", "rate_limited"),
        ({"is_error": True, "api_error_status": 500, "terminal_reason": "api_error"}, "failed", "provider_error"),
        ({"is_error": True, "subtype": "error_max_turns", "errors": ["2 turns"]}, "limited", "max_iterations"),
        ({"is_error": True, "subtype": "error_max_budget_usd"}, "limited", "budget_exceeded"),
        (
            {"is_error": True, "subtype": "error_during_execution", "terminal_reason": "aborted_tools"},
            "interrupted",
            "cancelled",
        ),
        ({"is_error": True, "subtype": "error_during_execution", "errors": ["no such id"]}, "failed", "remote_error"),
    ],
)
def test_how_a_turn_ended_is_told_by_is_error_and_not_by_the_subtype(
    told: dict[str, Any], outcome: str, code: str | None
) -> None:
    found, error = ending(result(**told), stopped=False)
    assert found == outcome
    assert (error.code if error else None) == code


def test_what_we_stopped_was_interrupted() -> None:
    told = result(is_error=True, subtype="error_during_execution")
    assert ending(told, stopped=True)[0] == "interrupted"
    assert ending(told, stopped=False)[0] == "failed"


@pytest.mark.parametrize(
    ("text", "failed", "code"), [("ok", False, 0), ("Exit code 3\nno", True, 3), ("no", True, None)]
)
def test_an_exit_code_is_read_from_the_result(text: str, failed: bool, code: int | None) -> None:
    assert exit_code(text, failed) == code


@pytest.mark.parametrize(
    ("content", "text"),
    [("plain", "plain"), ([{"type": "text", "text": "a"}, {"type": "image"}], "a\n[image]"), (None, ""), ([7], "")],
)
def test_the_content_of_a_tool_result_is_text_or_blocks(content: Any, text: str) -> None:
    assert result_text(content) == text


def test_a_new_file_is_a_diff_of_its_lines() -> None:
    change = file_change("c", {"type": "create", "filePath": "/w/a", "content": "x\ny\n", "structuredPatch": []})
    assert change is not None and change.change == "added"
    assert change.diff == "--- /dev/null\n+++ /w/a\n@@ -0,0 +1,2 @@\n+x\n+y\n"


def test_a_changed_file_is_a_diff_of_its_hunks() -> None:
    hunk = {"oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": 1, "lines": ["-a", "+b"]}
    told = {"filePath": "/w/a", "originalFile": "a\n", "structuredPatch": [hunk]}
    change = file_change("c", told)
    assert change is not None and change.change == "modified"
    assert change.diff == "--- /w/a\n+++ /w/a\n@@ -1,1 +1,1 @@\n-a\n+b\n"


@pytest.mark.parametrize("told", [None, "Error: no", {}, {"stdout": ""}, {"filePath": 7, "structuredPatch": []}])
def test_other_results_change_no_file(told: Any) -> None:
    assert file_change("c", told) is None


def test_a_background_task_is_told_from_its_start_to_its_end() -> None:
    tasks = ClaudeTasks()
    started = tasks.heard(System(subtype="task_started", task_id="b", task_type="local_bash", description="Sleep"))
    assert isinstance(started, TaskChanged) and started.task is not None
    assert (started.change, started.task.kind, started.task.label) == ("started", "process", "Sleep")
    assert tasks.heard(System(subtype="task_updated", task_id="b", patch={"status": "completed"})) is None
    ended = tasks.heard(System(subtype="task_notification", task_id="b", status="completed", summary="exit 0"))
    assert isinstance(ended, TaskChanged) and ended.task is not None
    assert (ended.change, ended.task.output) == ("completed", "exit 0")
    assert tasks.heard(System(subtype="task_notification", task_id="b", status="completed")) is None, "it has ended"
    assert tasks.heard(System(subtype="status")) is None


def test_totals_count_from_the_last_result_only_when_both_are_known() -> None:
    used = {"input_tokens": 0, "output_tokens": 2}
    (usage,) = usages(result(usage=used, modelUsage={}), {})
    assert (usage.output_tokens, usage.model) == (2, "")
    (several,) = usages(result(usage=used, modelUsage={"a": MODEL, "b": MODEL}), None)
    assert several.model == "", "which of them it was is not known"
    assert usages(result(modelUsage={"a": {**MODEL, "costUSD": 0.1}}), {"a": MODEL}) == []
    (written,) = usages(result(model_usage_since_last_result={"a": {"outputTokens": 1, "costUSD": 0.1}}), {})
    (read,) = usages(result(model_usage_since_last_result={"a": {"inputTokens": 1}}), {})
    assert (written.output_tokens, read.input_tokens, read.cost_usd) == (1, 1, None)
    (less,) = usages(result(modelUsage={"a": {**MODEL, "costUSD": 0.1}}), {"a": {"costUSD": 0.5, "inputTokens": 400}})
    assert (less.cost_usd, less.input_tokens) == (0.0, 0), "never negative"
    for name in ("cache_read_input_tokens", "cache_creation_input_tokens", "input_tokens"):
        assert len(usages(result(usage={name: 1}), None)) == 1


def test_how_large_a_conversation_may_be_is_known_for_a_model_that_says_so() -> None:
    told = result(modelUsage={"opus": {"contextWindow": 200_000}, "odd": 7, "none": {}})
    assert [context_window(told, name) for name in ("opus", "odd", "none", "other")] == [200_000, None, None, None]


@pytest.mark.parametrize(
    ("told", "message", "retryable"),
    [
        ({"subtype": "error_max_turns", "errors": ["2 turns"]}, "2 turns", False),
        ({"subtype": "error_max_turns", "terminal_reason": "max"}, "the turn was ended: max", False),
        ({"subtype": "error_max_turns"}, "the turn was ended: error_max_turns", False),
        ({"result": "words", "errors": ["other"], "api_error_status": 500}, "words", True),
        ({"errors": ["other"], "api_error_status": 499}, "other", False),
        ({"api_error_status": 429}, "the turn failed: success", True),
        ({"terminal_reason": "why"}, "the turn failed: why", False),
        ({"subtype": "error_during_execution", "terminal_reason": "aborted"}, "the turn was interrupted", False),
        ({"api_error_status": 401}, "the turn failed: success", False),
        ({"api_error_status": 403}, "the turn failed: success", False),
    ],
)
def test_an_error_says_what_the_service_said_else_why_it_ended(
    told: dict[str, Any], message: str, retryable: bool
) -> None:
    _, error = ending(result(is_error=True, **told), stopped=False)
    assert error is not None and (error.message, error.retryable) == (message, retryable)
    if error.code != "cancelled" and "subtype" not in told:
        assert error.details == {"status": told.get("api_error_status")}


def test_a_failure_without_a_status_is_the_services_only_where_it_says_so() -> None:
    for reason, code in (("api_error", "provider_error"), ("other", "remote_error"), (None, "remote_error")):
        _, error = ending(result(is_error=True, terminal_reason=reason), stopped=False)
        assert error is not None and error.code == code
    _, known = ending(result(is_error=True, terminal_reason="other", api_error_status=500), stopped=True)
    assert known is not None and known.code == "provider_error", "only what it was doing was interrupted"


def test_whether_a_file_is_new_is_said_by_its_type_else_by_what_it_held() -> None:
    base = {"filePath": "/w/a", "structuredPatch": []}
    kinds = [
        ({"type": "update"}, "modified"),
        ({}, "added"),
        ({"originalFile": "x"}, "modified"),
        ({"type": "create", "originalFile": "x"}, "added"),
    ]
    for more, kind in kinds:
        change = file_change("c", {**base, **more})
        assert change is not None and (change.change, change.diff, change.call) == (kind, "", "c")
    assert file_change("c", {"filePath": "/w/a"}) is None
    odd = file_change("c", {**base, "type": "update", "structuredPatch": [{"lines": ["+x", 7]}]})
    assert odd is not None and odd.diff == "--- /w/a\n+++ /w/a\n@@ -0,0 +0,0 @@\n+x\n"
    none = file_change("c", {**base, "type": "update", "content": "x", "structuredPatch": 7})
    assert none is not None and none.diff == ""


def test_a_subagent_is_known_by_the_call_that_started_it_and_a_stopped_one_was_cancelled() -> None:
    tasks = ClaudeTasks()
    more = {"task_type": "local_agent", "tool_use_id": "c1", "subagent_type": "owl"}
    started = tasks.heard(System(subtype="task_started", task_id="a", **more))  # type: ignore[arg-type]
    assert isinstance(started, TaskChanged) and started.task is not None
    assert (started.task.kind, started.task.label, started.task.agent_type) == ("agent", "a", "owl")
    tasks.heard(System(subtype="task_started", task_id="b"))
    assert tasks.starters == {"a": "c1"}
    updated = tasks.heard(System(subtype="task_updated", task_id="a", patch={"status": "running"}))
    assert isinstance(updated, TaskChanged) and updated.change == "updated" and updated.task == started.task
    ended = tasks.heard(System(subtype="task_notification", task_id="a", status="stopped", patch={"status": "running"}))
    assert isinstance(ended, TaskChanged) and ended.change == "cancelled"
    assert tasks.heard(System(subtype="status", task_id="b")) is None, "it is about something else"
