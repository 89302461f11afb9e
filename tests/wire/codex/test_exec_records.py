"""The lines of `codex exec --json`, from the events of any agent."""

from typing import Any

import pytest

from treadle.events import (
    AnyEvent,
    CommandRun,
    ErrorInfo,
    FileChanged,
    Message,
    Retrying,
    TextDelta,
    ToolDenied,
    ToolEnded,
    ToolOutput,
    ToolStarted,
    Warned,
)
from treadle.wire.codex.outgoing import ExecRecord, ExecRecords, server_and_tool


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
