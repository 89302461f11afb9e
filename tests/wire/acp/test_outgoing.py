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
from treadle.wire.acp.outgoing import TAIL, AcpOutgoing, commands_update, plan_of, stop_reason

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
