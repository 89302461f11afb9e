"""The turns of a thread that is opened again, as events."""

from typing import Any

from treadle.events import Message, ToolEnded, ToolStarted, TurnStarted
from treadle.session import Access
from treadle.wire.codex.events import tool_args, tool_name
from treadle.wire.codex.history import past


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
