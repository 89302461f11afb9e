"""Our events as an app-server's notifications and as the lines of exec --json."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from tests.wire.common.test_losses import SAMPLES
from treadle.events import (
    AnyEvent,
    Asked,
    CommandRun,
    ContextCompacted,
    ErrorInfo,
    Event,
    FileChanged,
    Message,
    Retrying,
    TextDelta,
    ThinkingDelta,
    ToolDenied,
    ToolEnded,
    ToolOutput,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    Usage,
    Warned,
)
from treadle.session import ModelMenu, OfferedModel, StoredSession
from treadle.wire.codex import outgoing
from treadle.wire.codex.outgoing import AppServerOutgoing, ExecRecord, ExecRecords, Notification, past, server_and_tool

LS = ToolStarted(call="c", name="bash", kind="execute", command="ls", args={"command": "ls"})

OVER = TurnEnded(outcome="completed")


def out() -> AppServerOutgoing:
    return AppServerOutgoing("thread", "turn", "/w", lambda args: [{"path": "/w/a"}])


def played(*events: Event) -> list[Notification]:
    writer = out()
    found: list[Notification] = []
    for event in events:
        found += writer.end(event) if isinstance(event, TurnEnded) else writer.notifications(event)
    return found


def short(told: list[Notification]) -> list[str]:
    return [f"{method} {params.get('item', params).get('type', '')}".rstrip() for method, params in told]


def items(told: list[Notification]) -> list[dict[str, Any]]:
    return [params["item"] for method, params in told if method == "item/completed"]


def test_a_streamed_message_is_one_item_with_its_deltas() -> None:
    told = played(TextDelta(text="a"), TextDelta(text="b"), Message(text="ab"), OVER)
    assert short(told) == [
        "item/started agentMessage",
        *["item/agentMessage/delta"] * 2,
        "item/completed agentMessage",
    ]
    assert items(told)[0]["text"] == "ab" and len({params.get("itemId") for _, params in told[1:3]}) == 1


def test_a_message_that_was_not_streamed_and_one_that_never_came_whole_are_items_too() -> None:
    assert [item["text"] for item in items(played(Message(text="a"), TextDelta(text="b"), LS, OVER))[:2]] == ["a", "b"]


def test_thinking_is_the_summary_of_a_reasoning_item() -> None:
    told = played(ThinkingDelta(text="hm"), TextDelta(text="so"), OVER)
    assert [item["type"] for item in items(told)] == ["reasoning", "agentMessage"]
    assert items(told)[0]["summary"] == ["hm"]
    assert "item/reasoning/summaryTextDelta" in short(told)


def test_a_command_has_its_output_and_exit_code() -> None:
    ran = CommandRun(command="ls", exit_code=3, call="c")
    told = played(LS, ToolOutput(call="c", text="x"), ran, ToolEnded(call="c", name="bash", result="x\n"))
    assert short(told)[1] == "item/commandExecution/outputDelta"
    [item] = items(told)
    assert (item["status"], item["exitCode"], item["aggregatedOutput"]) == ("failed", 3, "x\n")


def test_a_change_of_files_is_what_was_proposed_and_then_what_happened() -> None:
    started = ToolStarted(call="w", name="write_file", kind="write", args={})
    diff = "--- /dev/null\n+++ b/a\n@@ -0,0 +1,1 @@\n+hi\n"
    told = played(
        started, FileChanged(path="/w/a", change="added", diff=diff, call="w"), ToolEnded(call="w", name="w", result="")
    )
    assert told[0][1]["item"]["changes"] == [{"path": "/w/a"}]
    assert items(told)[0]["changes"] == [{"path": "/w/a", "kind": {"type": "add"}, "diff": "hi\n"}]


def test_a_changed_file_has_hunks_and_a_deleted_one_its_content() -> None:
    started = ToolStarted(call="w", name="edit", kind="write", args={})
    changed = FileChanged(path="/a", change="modified", diff="--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n", call="w")
    gone = FileChanged(path="/b", change="deleted", diff="--- b\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n", call="w")
    [item] = items(played(started, changed, gone, ToolEnded(call="w", name="edit", result="")))
    assert [one["diff"] for one in item["changes"]] == ["@@ -1 +1 @@\n-x\n+y\n", "x\n"]


def test_other_tools_are_those_of_an_mcp_server() -> None:
    read = ToolStarted(call="r", name="mcp__notes__read", args={"n": 1})
    fetch = ToolStarted(call="f", name="web_fetch", kind="network")
    told = played(
        read, ToolEnded(call="r", name="r", result="yes"), fetch, ToolEnded(call="f", name="f", result="", ok=False)
    )
    first, second = items(told)
    assert (first["server"], first["tool"], first["result"]["content"][0]["text"]) == ("notes", "read", "yes")
    assert (second["server"], second["tool"], second["status"]) == ("treadle", "web_fetch", "failed")


def test_a_list_of_tasks_is_the_plan_of_the_turn() -> None:
    todo = ToolStarted(call="t", name="todo", args={"todos": [{"content": "one", "status": "in_progress"}]})
    [(method, params)] = played(todo, ToolEnded(call="t", name="todo", result=""))
    assert method == "turn/plan/updated" and params["plan"] == [{"step": "one", "status": "inProgress"}]


def test_what_was_denied_is_declined() -> None:
    told = played(LS, ToolDenied(call="c", name="bash", reason="no"), ToolDenied(call="x", name="fetch", reason="no"))
    assert [item["status"] for item in items(told)] == ["declined", "failed"]
    assert items(played(ToolDenied(call="y", name="bash", reason="no", args={"command": "rm"})))[0]["command"] == "rm"


def test_a_call_that_is_asked_about_is_shown_once() -> None:
    writer = out()
    asked = Asked(request="r", kind="permission", text="", call="c", name="bash", command="ls", tool_kind="execute")
    shown, item = writer.asked(asked)
    assert short(shown) == ["item/started commandExecution"] and item["command"] == "ls"
    assert writer.notifications(LS) == [] and writer.asked(asked)[0] == []


def test_a_failed_turn_says_why_and_leaves_nothing_open() -> None:
    error = ErrorInfo(code="auth_failed", message="no key")
    told = played(TextDelta(text="a"), LS, TurnEnded(outcome="failed", error=error))
    assert [item["type"] for item in items(told)] == ["agentMessage", "commandExecution"]
    assert told[-1][0] == "error" and told[-1][1]["error"]["codexErrorInfo"] == "unauthorized"
    assert not told[-1][1]["willRetry"] and short(played(TurnEnded(outcome="limited")))[-1] == "error"


def test_the_past_is_turns_with_their_items() -> None:
    events = [Message(text="lost"), TurnStarted(prompt="one"), Message(text="a"), TurnStarted(prompt="two"), LS]
    turns = past([*events, ToolEnded(call="c", name="bash", result="x")], "thread", "/w")
    assert [[item["type"] for item in turn["items"]] for turn in turns] == [
        ["userMessage", "agentMessage"],
        ["userMessage", "commandExecution"],
    ]
    assert {turn["status"] for turn in turns} == {"completed"} and turns[0]["itemsView"] == "full"


@given(some.lists(some.sampled_from([event for event in SAMPLES if not isinstance(event, Asked)]), unique_by=id))
def test_whatever_happens_every_item_that_starts_completes_once(events: list[Event]) -> None:
    told = played(*events, OVER)
    started = [params["item"]["id"] for method, params in told if method == "item/started"]
    assert sorted(started) == sorted(item["id"] for item in items(told)) and len(set(started)) == len(started)


def test_each_notification_says_where_and_when_it_happened() -> None:
    told = played(TextDelta(text="a", ts=2.5), Message(text="ab", ts=3.0))
    where = {"threadId": "thread", "turnId": "turn"}
    assert all(params.items() >= where.items() for _, params in told)
    assert told[0][1]["startedAtMs"] == 2500 and told[-1][1]["completedAtMs"] == 3000
    assert told[1][1] == {**where, "itemId": "turn-1", "delta": "a"}
    begun = out().begin([{"type": "text"}])
    assert short(begun) == ["item/started userMessage", "item/completed userMessage"] and begun[0][1]["item"]["content"]
    thought = played(ThinkingDelta(text="hm", ts=1.0), Message(text="hm!", kind="thinking"), Message(text="so"))
    assert thought[1][0] == "item/reasoning/summaryPartAdded" and thought[1][1]["summaryIndex"] == 0
    assert [(item["type"], item.get("summary")) for item in items(thought)] == [
        ("reasoning", ["hm!"]),
        ("agentMessage", None),
    ]


def test_retries_warnings_and_a_shorter_context_are_told() -> None:
    error = ErrorInfo(code="rate_limited", message="busy")
    told = played(
        TextDelta(text="a"),
        Retrying(attempt=1, delay_ms=1, error=error),
        Warned(message="careful"),
        ContextCompacted(tokens_before=2, tokens_after=1),
    )
    assert told[2] == (
        "error",
        {"error": told[2][1]["error"], "willRetry": True, "threadId": "thread", "turnId": "turn"},
    )
    assert told[3] == ("warning", {"threadId": "thread", "message": "careful"})
    assert [item["type"] for item in items(told)] == ["agentMessage", "contextCompaction"]
    assert played(Warned(message="of a subagent", parent="p")) == []


def test_how_a_call_ended_is_told_of_its_own_item() -> None:
    fetch = ToolStarted(call="f", name="web_fetch", kind="network")
    told = played(
        LS,
        fetch,
        ToolOutput(call="f", text="no command"),
        CommandRun(command="ls", exit_code=0, call="c"),
        ToolEnded(call="c", name="bash", result="x"),
    )
    [command] = items(told)
    assert (command["status"], command["exitCode"], command["cwd"]) == ("completed", 0, "/w")
    assert "item/commandExecution/outputDelta" not in short(told)
    assert played(ToolEnded(call="never", name="x", result="")) == []
    failed = items(
        played(
            LS,
            CommandRun(command="ls", exit_code=None, call="c"),
            ToolEnded(call="c", name="bash", result="x", ok=False),
        )
    )
    assert failed[0]["status"] == "failed"
    twice = played(LS, ToolOutput(call="c", text="a"), ToolOutput(call="c", text="b"), OVER)
    assert items(twice)[0]["aggregatedOutput"] == "ab" and items(twice)[0]["status"] == "failed"


def test_what_was_denied_says_why() -> None:
    told = played(
        LS,
        ToolDenied(call="c", name="bash", reason="no"),
        ToolDenied(call="x", name="fetch", reason="no", args={"command": 7}),
    )
    command, tool = items(told)
    assert command["aggregatedOutput"] == "not run: no" and tool["error"] == {"message": "not run: no"}
    write = ToolStarted(call="w", name="edit", kind="write", args={})
    [declined] = items(played(write, ToolDenied(call="w", name="edit", reason="no")))
    assert (declined["status"], declined["type"], declined["changes"]) == ("declined", "fileChange", [{"path": "/w/a"}])
    shown, item = out().asked(Asked(request="r", kind="question", text="Which?", args={"a": 1}))
    assert (item["id"], item["tool"], item["arguments"]) == ("r", "tool", {"a": 1}) and len(shown) == 1


def test_a_turn_that_was_interrupted_is_no_error_and_one_without_a_reason_has_one() -> None:
    assert played(TurnEnded(outcome="interrupted")) == []
    [(method, params)] = played(TurnEnded(outcome="failed"))
    assert method == "error" and params["error"]["message"] == "the turn failed" and params["willRetry"] is False
    turns = past([TurnStarted(prompt="one", turn="own"), TurnStarted(prompt="two")], "thread", "/w")
    assert [turn["id"] for turn in turns] == ["own", "thread-2"]
    assert turns[0]["items"][0]["content"] == [{"type": "text", "text": "one", "text_elements": []}]
    unlisted = played(
        ToolStarted(call="t", name="todo", args={"todos": 7}), ToolStarted(call="t", name="todo", args={"todos": 7})
    )
    assert short(unlisted) == ["item/started mcpToolCall"]


def test_errors_have_the_words_of_codex() -> None:
    for code, word in (
        ("context_overflow", "contextWindowExceeded"),
        ("rate_limited", "rateLimitExceeded"),
        ("x", "other"),
    ):
        assert outgoing.turn_error(ErrorInfo(code=code, message="m"))["codexErrorInfo"] == word


def test_input_tokens_include_those_of_a_cache() -> None:
    used = outgoing.tokens(Usage(input_tokens=1, cache_read_tokens=2, cache_write_tokens=3, output_tokens=4))
    assert (used["inputTokens"], used["cachedInputTokens"], used["totalTokens"]) == (6, 2, 10)


def test_the_model_in_use_is_the_default_also_when_it_is_not_listed() -> None:
    menu = ModelMenu(current="own", offered=(OfferedModel(id="a", name="A", description="d"),))
    own, other = outgoing.models(menu, ["default", "low"], images=False)
    assert (own["model"], own["isDefault"], own["displayName"]) == ("own", True, "own")
    assert (other["displayName"], other["isDefault"], other["inputModalities"]) == ("A", False, ["text"])
    assert own["defaultReasoningEffort"] == "default" and len(own["supportedReasoningEfforts"]) == 2
    assert [one["model"] for one in outgoing.models(ModelMenu(current=""), ["x"], images=True)] == []


def test_a_thread_that_is_only_listed_has_no_turns() -> None:
    kept = StoredSession(id="t", cwd="/w", title="hello", updated=5.5)
    shown = outgoing.thread(kept, status="notLoaded", model=None, version="1")
    assert (shown["preview"], shown["updatedAt"], shown["turns"], shown["status"]) == (
        "hello",
        5,
        [],
        {"type": "notLoaded"},
    )
    assert outgoing.turn("t", "completed")["itemsView"] == "notLoaded" and outgoing.step_status("pending") == "pending"


def test_a_message_has_text_and_reasoning_a_summary() -> None:
    assert outgoing.spoken("reasoning", "r", "hm") == {"type": "reasoning", "id": "r", "summary": ["hm"], "content": []}
    assert outgoing.spoken("reasoning", "r", "")["summary"] == []
    said = outgoing.spoken("agentMessage", "m", "hi")
    assert (said["type"], said["id"], said["text"], said["phase"]) == ("agentMessage", "m", "hi", None)
    assert "summary" not in said


def test_a_call_of_a_tool_has_its_result_or_its_error() -> None:
    call = outgoing.tool_call("c", "mcp__notes__add", {"a": 1})
    assert (call["id"], call["server"], call["tool"], call["arguments"]) == ("c", "notes", "add", {"a": 1})
    assert call["status"] == "inProgress" and call["result"] is None and call["error"] is None
    outgoing.settle(call, "done", True)
    assert call["result"]["content"] == [{"type": "text", "text": "done"}] and call["error"] is None
    failed = outgoing.tool_call("c", "mcp__notes__add", {})
    outgoing.settle(failed, "no", False)
    assert failed["error"] == {"message": "no"} and failed["result"] is None


def test_a_turn_has_its_items_its_status_and_its_error() -> None:
    one, error = outgoing.text_input("go"), ErrorInfo(code="auth_failed", message="no key")
    turn = outgoing.turn("t", "failed", items=[one], error=error)
    assert (turn["id"], turn["status"], turn["items"], turn["itemsView"]) == ("t", "failed", [one], "full")
    assert turn["error"]["codexErrorInfo"] == "unauthorized" and turn["error"]["message"] == "no key"
    assert outgoing.turn("t", "completed", items=[])["itemsView"] == "full" and outgoing.turn("t", "x")["error"] is None
    assert outgoing.step_status("in_progress") == "inProgress" and outgoing.turn("t", "x")["items"] == []


def test_a_command_is_shown_with_its_words_and_its_directory() -> None:
    shown = outgoing.command_item("c", "make", "/w")
    assert (shown["id"], shown["command"], shown["cwd"], shown["status"]) == ("c", "make", "/w", "inProgress")
    assert outgoing.file_change("c", [])["status"] == "inProgress"


def test_a_model_is_shown_with_what_it_takes_and_is_hidden_from_no_one() -> None:
    menu = ModelMenu(current="", offered=(OfferedModel(id="a", name="", description="d"),))
    [shown] = outgoing.models(menu, ["x"], images=True)
    assert (shown["displayName"], shown["description"], shown["inputModalities"]) == ("a", "d", ["text", "image"])
    assert (shown["hidden"], shown["supportsPersonality"], shown["isDefault"]) == (False, False, False)
    kept = StoredSession(id="t", cwd="/w", title="", updated=1.0)
    assert outgoing.thread(kept, status="idle", model="m", version="1")["ephemeral"] is False
    assert outgoing.thread(kept, status="idle", model="m", version="1", ephemeral=True)["ephemeral"] is True
    listed = ModelMenu(current="a", offered=menu.offered)
    assert [one["description"] for one in outgoing.models(listed, ["x"], images=False)] == ["d"]


def lines(*events: AnyEvent) -> list[dict[str, Any]]:
    records = ExecRecords("t")
    return [line for event in events for line in records.lines(event)]


def test_a_turn_begins_with_its_thread_and_ends_with_its_usage() -> None:
    records = ExecRecords("t")
    assert records.begin() == [{"type": "thread.started", "thread_id": "t"}, {"type": "turn.started"}]
    assert records.lines(Message(text="Done.")) == [
        {"type": "item.completed", "item": {"id": "item_0", "type": "agent_message", "text": "Done."}}
    ]
    assert records.end("Done.", None, {"input_tokens": 1}) == [{"type": "turn.completed", "usage": {"input_tokens": 1}}]


def test_an_answer_that_came_in_pieces_only_is_written_at_the_end() -> None:
    records = ExecRecords("t")
    assert records.lines(TextDelta(text="Do")) == []
    [answer, _] = records.end("Done.", None, {})
    assert answer["item"] == {"id": "item_0", "type": "agent_message", "text": "Done."}


def test_a_failed_turn_says_why_twice_as_codex_does() -> None:
    assert ExecRecords("t").end("half", "no key", {}) == [
        {"type": "error", "message": "no key"},
        {"type": "turn.failed", "error": {"message": "no key"}},
    ]


@pytest.mark.parametrize(
    ("code", "ok", "status"), [(0, True, "completed"), (3, True, "failed"), (None, False, "failed")]
)
def test_a_command_starts_and_ends_under_one_id(code: int | None, ok: bool, status: str) -> None:
    started, ended = lines(
        ToolStarted(call="1", name="bash", kind="execute", command="make"),
        ToolOutput(call="1", text="a"),
        CommandRun(call="1", command="make", exit_code=code),
        ToolEnded(call="1", name="bash", result="a\nb", ok=ok),
    )
    command = {"id": "item_0", "type": "command_execution", "command": "make"}
    assert started["item"] == {**command, "aggregated_output": "", "exit_code": None, "status": "in_progress"}
    assert ended["item"] == {**command, "aggregated_output": "a\nb", "exit_code": code, "status": status}


def test_changed_files_are_one_item_when_they_are_changed() -> None:
    [line] = lines(
        ToolStarted(call="1", name="edit_file", kind="write", paths=("/a",)),
        FileChanged(call="1", path="/a", change="modified"),
        FileChanged(call="1", path="/b", change="added"),
        FileChanged(call="other", path="/c", change="added"),
        ToolEnded(call="1", name="edit_file", result="Edited"),
    )
    changes = [{"path": "/a", "kind": "update"}, {"path": "/b", "kind": "add"}]
    assert line["item"] == {"id": "item_0", "type": "file_change", "changes": changes, "status": "completed"}


def test_a_tool_that_codex_does_not_have_is_a_call_of_our_server() -> None:
    found = lines(
        ToolStarted(call="1", name="mcp__docs__find", args={"q": 1}),
        ToolStarted(call="2", name="read_file", args={}, kind="read"),
        ToolEnded(call="2", name="read_file", result="text"),
        ToolEnded(call="1", name="mcp__docs__find", result="no", ok=False),
    )
    assert [(line["item"]["server"], line["item"]["tool"]) for line in found[:2]] == [
        ("docs", "find"),
        ("treadle", "read_file"),
    ]
    assert found[2]["item"]["result"]["content"] == [{"type": "text", "text": "text"}]
    assert found[3]["item"]["error"] == {"message": "no"} and found[3]["item"]["status"] == "failed"


def test_a_refusal_a_retry_and_a_warning_are_told() -> None:
    refused, other, again, warned = lines(
        ToolDenied(call="1", name="bash", reason="not allowed", args={"command": "rm x"}),
        ToolDenied(call="2", name="web_fetch", reason="no network"),
        Retrying(attempt=1, delay_ms=5, error=ErrorInfo(code="x", message="busy")),
        Warned(message="careful"),
    )
    assert (refused["item"]["command"], refused["item"]["aggregated_output"]) == ("rm x", "not allowed")
    assert other["item"]["error"] == {"message": "no network"} and other["item"]["status"] == "failed"
    assert again == {"type": "error", "message": "busy"}
    assert warned["item"]["type"] == "error"


def test_what_subagents_do_and_a_result_without_a_start_are_left_out() -> None:
    assert lines(Message(text="x", parent="1"), ToolEnded(call="9", name="bash", result="")) == []


def test_a_list_of_tasks_is_one_item_that_is_updated() -> None:
    records = ExecRecords("t")

    def listed(*statuses: str) -> list[ExecRecord]:
        tasks = [{"content": f"task {number}", "status": status} for number, status in enumerate(statuses)]
        started = ToolStarted(call=f"c{statuses}", name="todo", args={"todos": tasks})
        return [*records.lines(started), *records.lines(ToolEnded(call=started.call, name="todo", result=""))]

    told = [*listed("pending", "pending"), *listed("completed", "in_progress"), *records.end("", None, {})]
    assert [line["type"] for line in told] == ["item.started", "item.updated", "item.completed", "turn.completed"]
    assert len({line["item"]["id"] for line in told[:3]}) == 1
    assert told[2]["item"]["items"] == [{"text": "task 0", "completed": True}, {"text": "task 1", "completed": False}]


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("mcp__a__b", ("a", "b")),
        ("mcp__a__b__c", ("a", "b__c")),
        ("mcp__a", ("treadle", "mcp__a")),
        ("x__a__b", ("treadle", "x__a__b")),
    ],
)
def test_a_tool_is_of_a_server_only_where_its_name_has_all_three_parts(name: str, place: tuple[str, str]) -> None:
    assert server_and_tool(name) == place


def test_what_happens_is_written_to_the_item_that_it_belongs_to() -> None:
    found = lines(
        ToolStarted(call="1", name="find", args={}),
        ToolOutput(call="1", text="no command"),
        ToolStarted(call="2", name="bash", kind="write", command="tee a"),
        FileChanged(call="2", path="/a", change="added"),
        FileChanged(path="/b", change="deleted"),
        CommandRun(call="9", command="x", exit_code=1),
        ToolStarted(call="3", name="write", kind="write"),
        FileChanged(call="3", path="/c", change="deleted"),
        ToolEnded(call="3", name="write", result="", ok=False),
        ToolEnded(call="2", name="bash", result="done"),
        Message(text="hm", kind="thinking"),
    )
    assert [line["item"]["type"] for line in found] == [
        *("mcp_tool_call", "command_execution", "file_change", "command_execution", "reasoning")
    ]
    assert found[2]["item"]["changes"] == [{"path": "/c", "kind": "delete"}] and found[2]["item"]["status"] == "failed"
    assert found[3]["item"]["status"] == "completed" and found[4]["item"]["text"] == "hm"


def test_an_answer_is_written_once_and_an_empty_one_not_at_all() -> None:
    records = ExecRecords("t")
    records.lines(Message(text="A"))
    assert [line["type"] for line in records.end("A", None, {})] == ["turn.completed"]
    assert [line["type"] for line in ExecRecords("t").end("", None, {})] == ["turn.completed"]
    assert [line["type"] for line in records.end("B", None, {})] == ["item.completed", "turn.completed"]
    [plain] = lines(ToolDenied(call="1", name="bash", reason="no", args={"command": 7}))
    assert plain["item"]["error"] == {"message": "no"} and plain["item"]["type"] == "mcp_tool_call"
    [tool] = lines(ToolStarted(call="1", name="todo", args={"todos": 7}))
    assert tool["item"]["type"] == "mcp_tool_call"
