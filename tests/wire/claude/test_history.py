"""Claude Code's file of a session as events: the branch that counts, what people typed, and whatever is in the file."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as some

from treadle.events import Event, Message, ToolEnded, ToolStarted, TurnStarted
from treadle.policy.guess import access_of
from treadle.wire.claude.connection import past, prompt_of, title


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


def result(call: str, text: str, *, failed: bool = False) -> list[dict[str, Any]]:
    return [{"type": "tool_result", "tool_use_id": call, "content": text, "is_error": failed}]


def test_a_turn_is_its_prompt_texts_and_calls() -> None:
    data = told(
        {"type": "queue-operation", "operation": "enqueue"},
        line("a", None, "user", "look"),
        {"uuid": "b", "parentUuid": "a", "type": "attachment", "attachment": {}},
        line("c", "b", "assistant", [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "I look."}]),
        line("d", "c", "assistant", use("t1", "ls")),
        line("e", "d", "user", result("t1", "none", failed=True)),
        line("f", "e", "assistant", [{"type": "text", "text": "Nothing."}]),
    )
    expected = ["> look", "thinking hm", "text I look.", "start t1 ls", "end t1 none False", "text Nothing."]
    assert shown(data) == expected


def test_what_was_taken_back_is_left_out_and_parallel_results_are_not() -> None:
    data = told(
        line("a", None, "user", "first"),
        line("b", "a", "assistant", use("t1", "one")),
        line("c", "b", "assistant", use("t2", "two")),
        line("d", "b", "user", result("t1", "1")),
        line("e", "c", "user", result("t2", "2")),
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
