"""Our events as updates for an editor. Every update is checked against the official schema."""

from functools import cache
from typing import Any

import acp
import pytest
from pydantic import TypeAdapter

from treadle.events import (
    Asked,
    ErrorInfo,
    Event,
    ImageFile,
    Message,
    Outcome,
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
from treadle.session import CommandInfo
from treadle.wire.acp.outgoing import SHOWN, TAIL, AcpOutgoing, commands_update, plan_of, stop_reason

DIFF = {"type": "diff", "path": "/w/a", "oldText": "1", "newText": "2"}
WRITE = ToolStarted(call="c1", name="write_file", args={"file_path": "a"}, kind="write", paths=("/w/a",))
RUN = ToolStarted(call="c2", name="bash", args={"command": "make"}, kind="execute", command="make")


@cache
def notification() -> TypeAdapter[Any]:
    return TypeAdapter(acp.schema.SessionNotification)


def told(*events: Event, terminals: bool = False) -> list[dict[str, Any]]:
    out = AcpOutgoing(lambda args: [dict(DIFF)], terminals=terminals)
    return checked([update for event in events for update in out.updates(event)])


def checked(updates: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for update in updates:
        notification().validate_python({"sessionId": "s", "update": update})
    return updates


def test_text_and_thinking_stream_and_their_whole_is_not_said_again() -> None:
    updates = told(
        ThinkingDelta(text="hm"), Message(text="hm", kind="thinking"), TextDelta(text="a"), Message(text="a")
    )
    assert [(update["sessionUpdate"], update["content"]["text"]) for update in updates] == [
        ("agent_thought_chunk", "hm"),
        ("agent_message_chunk", "a"),
    ]


def test_what_was_not_streamed_is_told_whole() -> None:
    assert [update["content"]["text"] for update in told(Message(text="one"), Message(text="two"))] == ["one", "two"]


def test_a_tool_that_writes_shows_its_diff_from_start_to_end() -> None:
    began, ended = told(WRITE, ToolEnded(call="c1", name="write_file", result="written"))
    assert began["content"] == [DIFF] and began["status"] == "in_progress" and began["kind"] == "edit"
    assert began["locations"] == [{"path": "/w/a"}] and began["title"] == "write_file: /w/a"
    assert ended["status"] == "completed" and ended["content"][0] == DIFF
    assert ended["content"][1]["content"]["text"] == "written"


def test_a_running_command_shows_the_end_of_its_output() -> None:
    _, first, second = told(RUN, ToolOutput(call="c2", text="a" * TAIL), ToolOutput(call="c2", text="end"))
    assert first["content"][0]["content"]["text"] == "a" * TAIL
    assert second["content"][0]["content"]["text"].endswith("aend")
    assert len(second["content"][0]["content"]["text"]) == TAIL


def test_an_editor_with_terminals_gets_each_piece_once() -> None:
    began, more, ended = told(
        RUN,
        ToolOutput(call="c2", text="out"),
        ToolEnded(call="c2", name="bash", result="out", ok=False),
        terminals=True,
    )
    assert began["content"] == [{"type": "terminal", "terminalId": "c2"}]
    assert more["_meta"]["terminal_output"] == {"terminal_id": "c2", "data": "out"} and "content" not in more
    assert ended["status"] == "failed"


def test_output_of_a_tool_nobody_heard_of_is_left_out() -> None:
    assert told(ToolOutput(call="x", text="out")) == []


def test_a_denied_tool_is_a_failed_one_that_says_why() -> None:
    [denied] = told(ToolDenied(call="c9", name="bash", reason="a rule"))
    assert denied["sessionUpdate"] == "tool_call" and denied["status"] == "failed"
    assert denied["content"][0]["content"]["text"] == "not run: a rule"


def test_a_question_about_a_tool_shows_it_first_and_once() -> None:
    out = AcpOutgoing(lambda args: [dict(DIFF)])
    asked = Asked(
        request="r", kind="permission", text="may I?", call="c1", name="write_file", tool_kind="write", paths=("/w/a",)
    )
    shown, tool = out.asked(asked)
    checked(shown)
    assert [update["status"] for update in shown] == ["pending"]
    assert tool["content"][0] == DIFF and tool["content"][1]["content"]["text"] == "may I?"
    assert out.asked(asked)[0] == []
    [update] = checked(out.updates(WRITE))
    assert update == {"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "in_progress"}


def test_a_question_in_words_is_named_by_its_words() -> None:
    _, tool = AcpOutgoing(lambda args: []).asked(Asked(request="r", kind="question", text="Which one?"))
    assert tool["title"] == "Which one?" and tool["toolCallId"] == "r" and tool["kind"] == "other"


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("todo", {"todos": [{"content": "sow", "status": "in_progress"}, "odd", {"content": "reap", "status": "?"}]}),
        ("TodoWrite", {"todos": [{"content": "sow", "status": "in_progress"}, {"content": "reap"}]}),
        ("update_plan", {"plan": [{"step": "sow", "status": "in_progress"}, {"step": "reap"}]}),
    ],
)
def test_a_list_of_things_to_do_is_a_plan_and_no_tool(name: str, args: Any) -> None:
    [plan] = told(ToolStarted(call="t", name=name, args=args), ToolEnded(call="t", name=name, result="kept"))
    assert [(entry["content"], entry["status"]) for entry in plan["entries"]] == [
        ("sow", "in_progress"),
        ("reap", "pending"),
    ]


def test_what_is_no_list_is_no_plan() -> None:
    assert plan_of({"todos": "none"}) is None and plan_of("text") is None


def test_what_a_subagent_does_and_what_the_schema_has_no_word_for_is_left_out() -> None:
    assert told(TextDelta(text="a", parent="task"), Warned(message="w"), TurnStarted(prompt="p")) == []


def test_the_past_has_what_people_said() -> None:
    past = [
        TurnStarted(prompt="do it"),
        Message(text="Yes."),
        WRITE,
        ToolEnded(call="c1", name="write_file", result=""),
    ]
    updates = checked(AcpOutgoing(lambda args: []).replayed(past))
    assert [update["sessionUpdate"] for update in updates] == [
        "user_message_chunk",
        "agent_message_chunk",
        "tool_call",
        "tool_call_update",
    ]


def test_commands_have_a_description_and_perhaps_a_hint() -> None:
    update = commands_update([CommandInfo(name="help"), CommandInfo(name="model", description="Set", arguments="NAME")])
    checked([update])
    assert update["availableCommands"][0] == {"name": "help", "description": "help"}
    assert update["availableCommands"][1]["input"] == {"hint": "NAME"}


@pytest.mark.parametrize(
    ("outcome", "stop"),
    [("completed", "end_turn"), ("interrupted", "cancelled"), ("limited", "max_turn_requests"), ("failed", None)],
)
def test_how_a_turn_ended_is_a_stop_reason_unless_it_failed(outcome: Outcome, stop: str | None) -> None:
    assert stop_reason(TurnEnded(outcome=outcome, error=ErrorInfo(code="e", message="m"))) == stop


def test_a_question_shows_the_kind_of_its_tool_and_a_question_in_words_none() -> None:
    out = AcpOutgoing(lambda args: [])
    run = Asked(
        request="r",
        kind="permission",
        text="",
        call="c",
        name=None,
        tool_kind="execute",
        command="make  all",
        args={"a": 1},
    )
    [shown], tool = out.asked(run)
    assert (tool["kind"], tool["title"], tool["content"], tool["rawInput"]) == (
        "execute",
        "tool: make all",
        [],
        {"a": 1},
    )
    assert (shown["kind"], shown["title"], shown["toolCallId"]) == ("execute", "tool: make all", "c")
    words = Asked(request="q", kind="question", text="x" * 300, tool_kind="write", paths=("/a",))
    _, question = out.asked(words)
    assert question["kind"] == "other" and len(question["title"]) == 200 and question["locations"] == [{"path": "/a"}]


def test_only_commands_have_terminals_and_only_where_the_editor_has_them() -> None:
    [plain] = told(RUN)
    assert "content" not in plain and "_meta" not in plain and plain["title"] == "bash: make"
    [shown] = told(WRITE, terminals=True)
    assert "_meta" not in shown and shown["content"] == [DIFF]
    [run] = told(RUN, terminals=True)
    assert run["_meta"] == {"terminal_info": {"terminal_id": "c2"}}


def test_a_result_has_its_images_and_as_much_text_as_an_editor_can_show() -> None:
    images = (
        ImageFile(path="/i", media_type="image/png", size=1),
        ImageFile(path="/gone", media_type="image/png", size=1),
    )
    ended = ToolEnded(call="c", name="view", result="x" * (SHOWN + 1), images=images)
    out = AcpOutgoing(lambda args: [], load={"/i": b"png"}.get)
    [update] = out.updates(ended)
    kinds = [part["content"]["type"] for part in update["content"]]
    assert kinds == ["text", "image"] and len(update["content"][0]["content"]["text"]) == SHOWN
    assert (update["sessionUpdate"], update["title"], update["kind"]) == ("tool_call", "view", "other")
    assert told(ended)[0]["content"][1:] == []


def test_a_call_that_has_ended_is_forgotten() -> None:
    updates = told(
        RUN,
        ToolOutput(call="c2", text="a"),
        ToolEnded(call="c2", name="bash", result=""),
        RUN,
        ToolOutput(call="c2", text="b"),
    )
    assert [update["sessionUpdate"] for update in updates] == [
        "tool_call",
        *["tool_call_update"] * 2,
        "tool_call",
        "tool_call_update",
    ]
    assert updates[2]["content"] == [] and updates[4]["content"][0]["content"]["text"] == "b"
    denied = told(RUN, ToolDenied(call="c2", name="bash", reason="no"))[1]
    assert denied["sessionUpdate"] == "tool_call_update" and "title" not in denied


def test_a_tool_that_is_called_like_a_list_and_has_none_is_a_tool() -> None:
    [update] = told(ToolStarted(call="t", name="todo", args={"todos": "none"}))
    assert update["sessionUpdate"] == "tool_call" and update["title"] == "todo"
    [again] = told(TextDelta(text="a"), Message(text="a"), Message(text="b"))[1:]
    assert again["content"]["text"] == "b"
