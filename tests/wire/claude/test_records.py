"""Claude Code's records: how they are read, what they mean, and a stored session as events."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from hypothesis import strategies as st

from treadle.errors import InvalidJson, LocalProtocolError, RemoteProtocolError, Violation
from treadle.events import Event, Message, TaskChanged, ToolEnded, ToolStarted, TurnStarted
from treadle.policy.guess import access_of
from treadle.wire.claude.connection import (
    ClaudeTasks,
    Connection,
    context_window,
    ending,
    exit_code,
    file_change,
    past,
    prompt_of,
    result_text,
    title,
    usages,
)
from treadle.wire.claude.records import Assistant, ClaudeResult, System, UnknownRecord, User, decode


def test_keys_come_in_any_order() -> None:
    line = b'{"is_error": false, "session_id": "s", "subtype": "success", "result": "x", "type": "result"}'
    assert decode(line) == ClaudeResult(subtype="success", is_error=False, session_id="s", result="x")


def test_a_record_of_a_later_version_is_unknown_and_whole() -> None:
    assert decode(b'{"type":"rate_limit_event","x":1}') == UnknownRecord(record={"type": "rate_limit_event", "x": 1})
    assert decode(b'{"type":"system","subtype":"later","new":[1]}') == System(subtype="later")


@pytest.mark.parametrize("line", [b"{}x", b"[1]", b"7", b'"text"', b"\xff", b"[" * 5000])
def test_what_is_no_object_is_invalid(line: bytes) -> None:
    with pytest.raises(InvalidJson):
        decode(line)


@pytest.mark.parametrize("line", [b'{"type":"result"}', b'{"type":"result","subtype":"success","is_error":"no"}'])
def test_a_known_record_without_its_parts_is_a_violation(line: bytes) -> None:
    with pytest.raises(Violation):
        decode(line)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(["type", "subtype", "message", "event", "request", "response", "is_error", "x"]), inner
            )
        ),
    )
)
def test_any_json_is_a_record_or_a_protocol_error(value: object) -> None:
    try:
        decode(json.dumps(value).encode())
    except RemoteProtocolError:
        pass


def test_a_prompt_is_no_replay_and_no_one_elses_unless_it_says_so() -> None:
    prompt = User(message={})
    assert not prompt.isReplay and not prompt.isSynthetic and not prompt.client_composed
    with pytest.raises(Violation, match="a result record is not valid"):
        decode(b'{"type":"result"}')
    with pytest.raises(InvalidJson, match="not a JSON object"):
        decode(b"[1]")
    assert decode(b'{"type":7}') == UnknownRecord(record={"type": 7})


def test_only_the_agent_speaks_for_the_model() -> None:
    with pytest.raises(LocalProtocolError, match="a host does not send assistant"):
        Connection("host").send(Assistant(message={"content": []}))


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


def line(uuid: str, parent: str | None, kind: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"uuid": uuid, "parentUuid": parent, "type": kind, "message": {"role": kind, "content": content}, **more}


def told(*records: dict[str, Any]) -> bytes:
    return b"\n".join(json.dumps(record).encode() for record in records)


def shown(data: bytes) -> list[str]:
    return [short(event) for event in past(data, access_of)]


def short(event: Event) -> str:
    match event:
        case TurnStarted(prompt=text):
            return f"> {text}"
        case Message(text=text, kind=kind):
            return f"{kind} {text}"
        case ToolStarted(call=call, command=command):
            return f"start {call} {command}"
        case ToolEnded(call=call, result=result, ok=ok):
            return f"end {call} {result} {ok}"
    raise AssertionError(event)


def use(call: str, command: str) -> list[dict[str, Any]]:
    return [{"type": "tool_use", "id": call, "name": "Bash", "input": {"command": command}}]


def tool_result(call: str, text: str, *, failed: bool = False) -> list[dict[str, Any]]:
    return [{"type": "tool_result", "tool_use_id": call, "content": text, "is_error": failed}]


def test_a_turn_is_its_prompt_texts_and_calls() -> None:
    data = told(
        {"type": "queue-operation", "operation": "enqueue"},
        line("a", None, "user", "look"),
        {"uuid": "b", "parentUuid": "a", "type": "attachment", "attachment": {}},
        line("c", "b", "assistant", [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "I look."}]),
        line("d", "c", "assistant", use("t1", "ls")),
        line("e", "d", "user", tool_result("t1", "none", failed=True)),
        line("f", "e", "assistant", [{"type": "text", "text": "Nothing."}]),
    )
    expected = ["> look", "thinking hm", "text I look.", "start t1 ls", "end t1 none False", "text Nothing."]
    assert shown(data) == expected


def test_what_was_taken_back_is_left_out_and_parallel_results_are_not() -> None:
    data = told(
        line("a", None, "user", "first"),
        line("b", "a", "assistant", use("t1", "one")),
        line("c", "b", "assistant", use("t2", "two")),
        line("d", "b", "user", tool_result("t1", "1")),
        line("e", "c", "user", tool_result("t2", "2")),
        line("x", "e", "user", "regretted"),
        line("y", "x", "assistant", [{"type": "text", "text": "Done."}]),
        line("z", "e", "user", "better"),
    )
    assert shown(data) == ["> first", "start t1 one", "start t2 two", "end t1 1 True", "end t2 2 True", "> better"]


def test_subagents_reminders_and_interruptions_are_no_prompts() -> None:
    data = told(
        line("a", None, "user", "go"),
        line("s", "a", "user", "you are a subagent", isSidechain=True),
        line("m", "a", "user", "<system-reminder>be kind</system-reminder>"),
        line("n", "m", "user", "meta", isMeta=True),
        line("i", "n", "user", [{"type": "text", "text": "[Request interrupted by user]"}]),
        line("o", "i", "user", "<local-command-stdout>x</local-command-stdout>"),
        line("k", "o", "user", "<command-name>/compact</command-name><command-args>short</command-args>"),
    )
    assert shown(data) == ["> go", "> /compact short"]


def test_history_before_a_compaction_is_shown_too() -> None:
    data = told(
        line("a", None, "user", "long ago"),
        {"uuid": "b", "parentUuid": None, "logicalParentUuid": "a", "type": "system", "subtype": "compact_boundary"},
        line("c", "b", "user", "now"),
    )
    assert shown(data) == ["> long ago", "> now"]


def test_a_title_is_what_a_person_gave_or_the_first_prompt() -> None:
    first = line("a", None, "user", "hello", cwd="/w")
    assert title(told(first)) == ("hello", "/w")
    assert title(told(first, {"type": "ai-title", "aiTitle": "Greeting"})) == ("Greeting", "/w")
    assert title(told(first, {"type": "custom-title", "customTitle": "Mine"})) == ("Mine", "/w")
    assert title(b"broken\n{}") == ("", "")


ANYTHING = some.recursive(
    some.none() | some.booleans() | some.integers() | some.text(max_size=8),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)

FIELDS = some.sampled_from(["uuid", "parentUuid", "type", "message", "isMeta", "logicalParentUuid", "cwd"])


@given(some.lists(some.dictionaries(FIELDS, ANYTHING | some.sampled_from(["user", "assistant", "a", "b"])), max_size=6))
def test_any_lines_give_events_and_no_error(records: list[dict[str, Any]]) -> None:
    data = told(*records)
    past(data, access_of)
    title(data)
    assert all(isinstance(prompt_of(record), str) for record in records)


@given(some.binary(max_size=200))
def test_any_bytes_give_events_and_no_error(data: bytes) -> None:
    assert isinstance(past(data, access_of), list) and len(title(data)) == 2


def test_a_ring_of_parents_ends() -> None:
    assert shown(told(line("a", "b", "user", "x"), line("b", "a", "assistant", "y"))) == ["> x"]
