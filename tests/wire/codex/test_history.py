"""The turns of a thread that is opened again, as events."""

from typing import Any

from treadle.events import Message, ToolEnded, ToolStarted, TurnStarted
from treadle.session import Access, OfferedModel, StoredSession
from treadle.wire.codex.events import listed_thread, offered_models, past, tool_args, tool_name


def about(item: dict[str, Any]) -> Access:
    return Access(tool=tool_name(item), kind="execute", command="ls", args=tool_args(item))


def test_items_are_prompts_texts_and_calls() -> None:
    command = {
        "type": "commandExecution",
        "id": "c",
        "command": "bash -lc ls",
        "aggregatedOutput": "a\n",
        "exitCode": 1,
    }
    items: list[Any] = [
        {"type": "userMessage", "content": [{"type": "text", "text": "look"}, {"type": "image", "url": "x"}, 3]},
        {"type": "reasoning", "summary": ["hm", "so"]},
        {"type": "reasoning", "summary": []},
        {**command, "status": "completed"},
        {"type": "agentMessage", "text": "Done."},
        {"type": "contextCompaction", "id": "z"},
        "nothing",
    ]
    found = past([{"items": items}, {}, 7], about)
    assert [type(event) for event in found] == [TurnStarted, Message, ToolStarted, ToolEnded, Message]
    assert isinstance(found[0], TurnStarted) and found[0].prompt == "look"
    assert isinstance(found[1], Message) and (found[1].kind, found[1].text) == ("thinking", "hm\nso")
    assert isinstance(found[2], ToolStarted) and found[2].command == "ls"
    assert isinstance(found[3], ToolEnded) and (found[3].ok, found[3].result) == (False, "a\n")


def test_a_thread_without_turns_has_no_past() -> None:
    assert past(None, about) == [] and past([], about) == []


def test_a_thread_has_the_name_that_it_was_given_or_its_first_prompt() -> None:
    told = {"id": "t", "cwd": "/w", "preview": "hello", "name": None, "updatedAt": 5}
    assert listed_thread(told) == StoredSession(id="t", cwd="/w", title="hello", updated=5.0)
    assert listed_thread({**told, "name": "Mine", "updatedAt": None}).title == "Mine"


def test_hidden_models_and_what_is_no_model_are_left_out() -> None:
    told = [{"model": "m", "displayName": "M", "description": "d"}, {"model": "h", "hidden": True}, {}, 3]
    assert list(offered_models(told)) == [OfferedModel(id="m", name="M", description="d")]
    assert list(offered_models(None)) == []


def test_a_call_went_well_when_it_completed_without_an_exit_code() -> None:
    def went(**fields: Any) -> bool:
        ended = past([{"items": [{"type": "commandExecution", "id": "c", "command": "ls", **fields}]}], about)[-1]
        assert isinstance(ended, ToolEnded)
        return ended.ok

    assert went(status="completed", exitCode=0) and went(status="completed")
    assert not went(status="completed", exitCode=2) and not went(status="failed", exitCode=0)
    odd: list[Any] = [
        {"type": "commandExecution", "id": 7, "command": "ls"},
        {"type": "agentMessage", "text": 7},
        {"type": "userMessage", "content": 7},
    ]
    assert [type(event) for event in past([{"items": odd}, {"items": 7}], about)] == [TurnStarted]
    untitled = listed_thread({"id": "t", "updatedAt": "x"})
    assert (untitled.title, untitled.cwd, untitled.updated) == ("", "", 0.0)
    assert [one.name for one in offered_models([{"model": "m", "hidden": False}, {"model": 7}])] == [""]
