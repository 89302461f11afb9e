"""Our events as an app-server's notifications, and a past as turns."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as some

from tests.wire.common.test_losses import SAMPLES
from treadle.events import (
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
    Warned,
)
from treadle.wire.codex.outgoing import AppServerOutgoing, Notification, past

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
