"""Updates of agents as our events."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.events import (
    Event,
    Message,
    TextDelta,
    ThinkingDelta,
    ToolEnded,
    ToolOutput,
    ToolStarted,
    TurnStarted,
    Usage,
)
from treadle.policy.guess import access_of
from treadle.wire.acp.incoming import AcpIncoming, HistoryReplay, instructed, read_commands
from treadle.wire.acp.tools import UsageMeter


def incoming() -> AcpIncoming:
    return AcpIncoming(access_of, UsageMeter("turn"))


def chunk(text: str, kind: str = "agent_message_chunk", **more: Any) -> dict[str, Any]:
    return {"sessionUpdate": kind, "content": {"type": "text", "text": text}, **more}


def tool(**fields: Any) -> dict[str, Any]:
    return {"sessionUpdate": "tool_call_update", "toolCallId": "c1", **fields}


def told(reader: AcpIncoming, *updates: dict[str, Any]) -> list[Event]:
    return [event for update in updates for event in reader.update(update)]


def test_text_streams_and_is_whole_when_something_else_begins() -> None:
    reader = incoming()
    events = told(reader, chunk("a "), chunk("b"), tool(title="bash", kind="execute"), chunk("c"))
    assert [(type(event), getattr(event, "text", "")) for event in events] == [
        (TextDelta, "a "),
        (TextDelta, "b"),
        (Message, "a b"),
        (TextDelta, "c"),
    ]
    assert (reader.answer, reader.everything, reader.last_chunk) == ("c", "a b\n\nc", "c")
    assert [type(event) for event in reader.finish("")] == [Message]
    assert reader.answer == "c"


def test_another_message_is_another_block() -> None:
    events = told(incoming(), chunk("warning", messageId="m1"), chunk("answer", messageId="m2"))
    assert [type(event) for event in events] == [TextDelta, Message, TextDelta]


def test_thinking_is_kept_apart_from_text() -> None:
    events = told(incoming(), chunk("hm", "agent_thought_chunk"), chunk("yes"))
    assert [type(event) for event in events] == [ThinkingDelta, Message, TextDelta]
    assert isinstance(events[1], Message) and events[1].kind == "thinking"


@pytest.mark.parametrize("meta", [{"parentToolCallId": "p"}, {"claudeCode": {"parentToolUseId": "p"}}])
def test_what_a_subagent_says_and_does_carries_its_parent_and_is_no_answer(meta: dict[str, Any]) -> None:
    reader = incoming()
    diff = {"type": "diff", "path": "/w/a", "oldText": None, "newText": "x"}
    events = told(
        reader,
        chunk("Ours. "),
        chunk("I think.", kind="agent_thought_chunk", _meta=meta),
        chunk("Its ", _meta=meta),
        chunk("words.", _meta=meta),
        tool(kind="edit", title="edit", status="completed", content=[diff], _meta=meta),
        chunk("Ours again."),
    )
    events += reader.finish("")
    inner = [event for event in events if event.parent == "p"]
    kinds = [type(event).__name__ for event in inner]
    assert kinds == [*("ThinkingDelta", "TextDelta", "TextDelta", "Message", "ToolStarted", "FileChanged", "ToolEnded")]
    assert [event.text for event in inner if isinstance(event, Message)] == ["Its words."]
    assert reader.answer == "Ours again." and "Its" not in reader.everything


def test_counts_on_an_empty_chunk_are_a_usage_and_no_text() -> None:
    usage = {"inputTokens": 9, "outputTokens": 1, "totalTokens": 10}
    [event] = told(incoming(), chunk("", _meta={"usage": usage, "durationMs": 5}))
    assert isinstance(event, Usage) and (event.input_tokens, event.duration_ms) == (9, 5)


def test_a_tool_starts_when_it_has_output_or_has_ended_and_not_when_it_says_in_progress() -> None:
    reader = incoming()
    assert told(reader, tool(kind="execute", title="ls", status="in_progress"), tool(status="in_progress")) == []
    events = told(reader, tool(_meta={"terminal_output": {"data": "a"}}), tool(status="completed"))
    assert [type(event) for event in events] == [ToolStarted, ToolOutput, ToolEnded]
    assert told(reader, tool(status="completed")) == [], "it ends once"


def test_a_denied_call_says_nothing_more() -> None:
    reader = incoming()
    record = reader.record(tool(kind="execute", title="ls"))
    assert record is not None
    record.denied = True
    assert told(reader, tool(status="failed")) == [] and reader.start(record) == []


def test_a_turn_that_is_over_leaves_no_call_open() -> None:
    reader = incoming()
    record = reader.record(tool(kind="execute", title="sleep 9"))
    assert record is not None
    assert [type(event) for event in reader.start(record)] == [ToolStarted]
    [ended] = reader.finish("interrupted")
    assert isinstance(ended, ToolEnded) and (ended.ok, ended.result) == (False, "interrupted")


def test_what_it_touches_comes_from_arguments_places_and_title() -> None:
    reader = incoming()
    shell = reader.record(tool(kind="execute", title="touch a"))
    assert shell is not None
    assert reader.access(shell).command == "touch a" and reader.from_title(shell)
    assert reader.access(shell).args == {"command": "touch a"}
    shell.merge({"rawInput": {"command": "rm b", "cwd": "/w"}})
    assert reader.access(shell).command == "rm b" and not reader.from_title(shell)
    edit = reader.record(
        {"toolCallId": "c2", "kind": "edit", "content": [{"type": "diff", "path": "/w/a", "newText": "x"}]}
    )
    assert edit is not None
    access = reader.access(edit)
    assert (access.kind, access.paths, access.args) == ("write", ("/w/a",), {"file_path": "/w/a", "content": "x"})


def test_a_plan_is_the_tool_that_keeps_such_a_list() -> None:
    entries = [{"content": "sow", "status": "completed", "priority": "low"}, {"content": "reap", "status": "odd"}, 3]
    started, ended = told(incoming(), {"sessionUpdate": "plan", "entries": entries})
    assert isinstance(started, ToolStarted) and started.name == "todo"
    assert started.args == {
        "todos": [{"content": "sow", "status": "completed"}, {"content": "reap", "status": "pending"}]
    }
    assert isinstance(ended, ToolEnded) and ended.result == "[x] sow\n[ ] reap"


def test_what_is_no_event_is_kept() -> None:
    reader = incoming()
    command = {"name": "model", "description": "Set", "input": {"hint": "NAME"}}
    updates: list[dict[str, Any]] = [
        {"sessionUpdate": "available_commands_update", "availableCommands": [command, {"name": 3}, {"name": "help"}]},
        {"sessionUpdate": "current_mode_update", "currentModeId": "plan"},
        {"sessionUpdate": "session_info_update", "title": "A title"},
        {"sessionUpdate": "config_option_update", "configOptions": [{"id": "a"}, 3]},
        {"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": {"amount": 0.5, "currency": "USD"}},
        {"sessionUpdate": "something_later"},
        {"sessionUpdate": "tool_call"},
    ]
    assert told(reader, *updates) == []
    assert [(one.name, one.arguments) for one in reader.commands] == [("model", "NAME"), ("help", "")]
    assert (reader.mode, reader.title, reader.options) == ("plan", "A title", [{"id": "a"}])
    usage = {"inputTokens": 9, "outputTokens": 1, "totalTokens": 10}
    assert reader.meter.turn({"usage": usage})[0].cost_usd == 0.5


def test_the_past_is_told_in_turns_without_what_nobody_said() -> None:
    replay = HistoryReplay(incoming())
    for update in (
        chunk(instructed("do it", "Be brief.", None, "Be kind."), "user_message_chunk"),
        chunk("<system-reminder>today is</system-reminder>", "user_message_chunk"),
        chunk("Yes.", _meta={"usage": {"inputTokens": 1, "outputTokens": 1}}),
        tool(title="bash", kind="execute", status="completed"),
        chunk("again", "user_message_chunk"),
        chunk("No."),
    ):
        replay.update(update)
    events = replay.finish()
    assert [type(event) for event in events] == [TurnStarted, Message, ToolStarted, ToolEnded, TurnStarted, Message]
    assert [event.prompt for event in events if isinstance(event, TurnStarted)] == ["do it", "again"]


def test_a_prompt_without_instructions_is_itself() -> None:
    assert instructed("do it", None, "") == "do it"


def test_commands_that_are_none_are_none() -> None:
    assert read_commands(None) == [] and read_commands([1, {}]) == []


KINDS = ("agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan", "usage_update", "odd")
VALUES = (
    st.none()
    | st.integers(0, 3)
    | st.text(max_size=3)
    | st.lists(st.none(), max_size=2)
    | st.dictionaries(st.sampled_from(["type", "text", "amount", "toolCallId"]), st.text(max_size=2), max_size=2)
)
UPDATES = st.fixed_dictionaries(
    {"sessionUpdate": st.sampled_from(KINDS)},
    optional={
        name: VALUES for name in ("content", "toolCallId", "status", "entries", "cost", "_meta", "kind", "title")
    },
)


@given(st.lists(UPDATES, max_size=8))
def test_whatever_an_agent_says_every_tool_that_starts_ends_once(updates: list[dict[str, Any]]) -> None:
    reader = incoming()
    events = [*told(reader, *updates), *reader.finish("over")]
    started = [event.call for event in events if isinstance(event, ToolStarted)]
    ended = [event.call for event in events if isinstance(event, ToolEnded)]
    assert sorted(started) == sorted(ended) and len(started) == len(set(started))
    texts = "".join(event.text for event in events if isinstance(event, TextDelta))
    assert texts == "".join(event.text for event in events if isinstance(event, Message) and event.kind == "text")


def test_a_turn_forgets_the_one_before_it() -> None:
    reader = incoming()
    told(
        reader,
        chunk("a"),
        tool(title="bash", kind="execute"),
        chunk("b"),
        chunk("hm", "agent_thought_chunk"),
        chunk("x", _meta={"parentToolCallId": "p"}),
    )
    assert reader.tools and reader.answer == "b" and reader.everything == "a\n\nb"
    reader.begin()
    assert (reader.tools, reader.answer, reader.everything, reader.last_chunk) == ({}, "", "", "")
    assert reader.finish("") == []


def test_a_chunk_without_text_or_of_the_same_message_is_no_new_block() -> None:
    reader = incoming()
    events = told(reader, chunk("a", messageId="m"), chunk("", messageId="n"), chunk("b", messageId="m"))
    assert [type(event) for event in events] == [TextDelta, TextDelta] and reader.answer == "ab"
    assert told(reader, chunk("", "agent_thought_chunk")) == []
    [message] = told(reader, {"sessionUpdate": "user_message_chunk"})
    assert isinstance(message, Message) and message.text == "ab"
    first, second = told(incoming(), chunk("hm", "agent_thought_chunk"), chunk("", _meta={"usage": None}))
    assert isinstance(second, Message) and second.kind == "thinking" and isinstance(first, ThinkingDelta)


def test_a_call_that_never_started_is_not_ended_and_one_with_output_is_once() -> None:
    reader = incoming()
    told(reader, tool(kind="execute", title="ls"))
    assert reader.finish("over") == []
    started, output = told(reader, tool(kind="execute", title="ls", _meta={"terminal_output": {"data": "a"}}))
    assert isinstance(started, ToolStarted) and isinstance(output, ToolOutput) and output.text == "a"
    assert [type(event) for event in told(reader, tool(_meta={"terminal_output": {"data": "b"}}))] == [ToolOutput]
    (ended,) = told(reader, tool(status="failed", rawOutput="no"))
    assert isinstance(ended, ToolEnded) and (ended.ok, ended.result) == (False, "no") and reader.finish("over") == []
    done = told(
        incoming(), tool(kind="execute", title="ls", status="completed", rawOutput={"exitCode": 0, "output": "x"})
    )
    assert [type(event).__name__ for event in done] == ["ToolStarted", "CommandRun", "ToolEnded"]
    assert isinstance(done[2], ToolEnded) and done[2].ok


def test_paths_of_a_command_are_no_files_that_it_is_about_and_two_diffs_are_no_arguments() -> None:
    reader = incoming()
    run = reader.record(tool(kind="execute", rawInput={"command": "ls", "path": "/x"}))
    assert run is not None and reader.access(run).paths == () and reader.access(run).command == "ls"
    read = reader.record({"toolCallId": "r", "kind": "read", "title": "Read it", "rawInput": {"path": "/x"}})
    assert read is not None and reader.access(read).paths == ("/x",) and reader.access(read).command is None
    diffs = [{"type": "diff", "path": f"/w/{name}", "newText": "x"} for name in "ab"]
    edit = reader.record({"toolCallId": "e", "kind": "edit", "content": diffs})
    assert edit is not None and reader.access(edit).args is None and reader.access(edit).paths == ("/w/a", "/w/b")
    gone = reader.record(
        {"toolCallId": "g", "kind": "edit", "content": [{"type": "diff", "path": "/w/a", "newText": None}]}
    )
    assert gone is not None and reader.access(gone).args is None
    other = reader.record({"toolCallId": "o", "name": "web_fetch", "rawInput": {"url": "https://a.example"}})
    assert other is not None and (reader.access(other).kind, reader.access(other).url) == (
        "network",
        "https://a.example",
    )


def test_notes_of_the_wrong_kind_change_nothing() -> None:
    reader = incoming()
    for kind, field in (
        ("session_info_update", "title"),
        ("current_mode_update", "currentModeId"),
        ("config_option_update", "configOptions"),
    ):
        assert told(reader, {"sessionUpdate": kind, field: 7}) == []
    assert (reader.title, reader.mode, reader.options) == ("", "", [])
    odd = [{"name": "a", "description": 7, "input": {"hint": 7}}, {"name": "b", "description": "d", "input": 7}]
    assert [(one.name, one.description, one.arguments) for one in read_commands(odd)] == [("a", "", ""), ("b", "d", "")]
    plans = [
        event.call
        for event in told(reader, {"sessionUpdate": "plan"}, {"sessionUpdate": "plan"})
        if isinstance(event, ToolStarted)
    ]
    assert plans == ["plan-1", "plan-2"]


def test_a_replay_without_a_prompt_has_no_turn_and_instructions_are_taken_off_once() -> None:
    replay = HistoryReplay(incoming())
    replay.update(chunk("Hello."))
    replay.update(chunk("<instructions>\nx\n</instructions>\n\n", "user_message_chunk"))
    replay.update(chunk("go", "user_message_chunk"))
    events = replay.finish()
    assert [type(event) for event in events] == [Message, TurnStarted]
    assert isinstance(events[1], TurnStarted) and events[1].prompt == "go"
    assert instructed("p", "a", "b").count("<instructions>") == 2
