"""What a small model may write, and how what it wrote is read."""

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.agent import toolbox
from treadle.agent.messages import ToolSchema
from treadle.agent.providers.known import SmallProfile
from treadle.agent.providers.small import CAPS, OTHER_CAP, offered, read, reply_schema

TOOLS = toolbox.builtin(("read_file", "edit_file", "write_file", "bash")).schemas()


def fits(reply: Any, profile: SmallProfile) -> bool:
    return not list(jsonschema.Draft202012Validator(reply_schema(TOOLS, profile)).iter_errors(reply))


def edit_order(profile: SmallProfile) -> list[str]:
    calls = reply_schema(TOOLS, profile)["anyOf"]
    return next(list(call["properties"]) for call in calls if call["properties"]["tool"]["const"] == "edit_file")


def test_one_call_with_what_it_requires_fits() -> None:
    assert fits({"tool": "read_file", "file_path": "a.py"}, SmallProfile())
    assert fits({"tool": "answer", "text": "done"}, SmallProfile())
    assert not fits({"tool": "read_file"}, SmallProfile())
    assert not fits({"tool": "skill", "name": "x"}, SmallProfile())
    assert not fits({"tool": "read_file", "file_path": "a.py", "offset": 3}, SmallProfile())


def test_the_path_comes_first() -> None:
    assert edit_order(SmallProfile()) == ["tool", "file_path", "old_string", "new_string"]


def test_caps_keep_arguments_short() -> None:
    long = {"tool": "bash", "command": "x" * (CAPS["command"] + 1)}
    assert not fits(long, SmallProfile())
    assert fits(long, SmallProfile(caps=False))


def test_several_calls_at_once_only_where_that_is_allowed() -> None:
    several = {"calls": [{"tool": "read_file", "file_path": "a"}, {"tool": "read_file", "file_path": "b"}]}
    assert not fits(several, SmallProfile())
    assert fits(several, SmallProfile(one_step=False))
    assert [name for name, _ in read(json.dumps(several)).calls] == ["read_file", "read_file"]


def test_a_tool_that_cannot_be_written_flat_is_not_offered() -> None:
    odd = ToolSchema(name="odd", description="", parameters={"properties": {"tool": {"type": "string"}}})
    assert [tool.name for tool in offered([*TOOLS, odd])] == [tool.name for tool in TOOLS]


@pytest.mark.parametrize(
    "text",
    [
        '{"tool":"read_file","file_path":"a.py"}',
        '```json\n{"tool": "read_file", "file_path": "a.py"}\n```',
        'I will read it: {"tool": "read_file", "file_path": "a.py"} now.',
    ],
)
def test_a_call_is_found_also_in_a_fence_or_among_words(text: str) -> None:
    assert read(text).calls == (("read_file", '{"file_path":"a.py"}'),)


def test_an_answer_is_its_text() -> None:
    assert read('{"tool":"answer","text":"It is 3."}').answer == "It is 3."
    assert read("It is 3.").answer == "It is 3."


def test_a_call_that_was_cut_off_stays_a_call_and_is_not_taken_for_an_answer() -> None:
    cut = '{"tool":"write_file","file_path":"a.py","content":"def f('
    assert read(cut).calls == (("write_file", cut),)


@given(st.text())
def test_any_text_is_a_call_or_an_answer(text: str) -> None:
    written = read(text)
    assert (written.answer is None) == bool(written.calls)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.dictionaries(st.sampled_from(["tool", "calls", "text", "x"]), inner | st.lists(inner)),
        max_leaves=6,
    )
)
def test_any_json_is_read_without_failing(value: Any) -> None:
    read(json.dumps(value))


def test_what_is_offered_to_write_is_exact() -> None:
    tool = ToolSchema(
        name="odd",
        description="",
        parameters={
            "properties": {
                "other": {"type": "string", "description": "d", "title": "t", "default": ""},
                "kind": {"type": "string", "enum": ["a"]},
                "short": {"type": "string", "maxLength": 3},
                "count": {"type": "integer"},
                "file_path": {"type": "string"},
                "free": {"type": "string"},
            },
            "required": ["other", "kind", "short", "count", "file_path"],
        },
    )
    properties = {
        "tool": {"const": "odd"},
        "file_path": {"type": "string", "maxLength": CAPS["file_path"]},
        "other": {"type": "string", "maxLength": OTHER_CAP},
        "kind": {"type": "string", "enum": ["a"]},
        "short": {"type": "string", "maxLength": 3},
        "count": {"type": "integer"},
    }
    [call] = reply_schema([tool], SmallProfile(), answer=False)["anyOf"]
    assert call == {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    assert list(call["properties"]) == list(properties)
    assert (
        list(reply_schema([tool], SmallProfile(path_first=False), answer=False)["anyOf"][0]["properties"])[1] == "other"
    )
    *calls, many = reply_schema([tool], SmallProfile(one_step=False))["anyOf"]
    assert [one["properties"]["tool"]["const"] for one in calls] == ["odd", "answer"]
    assert many["required"] == ["calls"] and many["additionalProperties"] is False
    several = many["properties"]["calls"]
    assert several["items"] == {"anyOf": [call]} and (several["minItems"], several["maxItems"]) == (1, 4)


@pytest.mark.parametrize(
    ("text", "calls", "answer"),
    [
        ('{"tool": "answer", "text": 3}', (), '{"tool": "answer", "text": 3}'),
        ('{"tool": "", "text": "x"}', (), "x"),
        ('{"calls": [{"tool": "answer", "text": "x"}]}', (), "x"),
        (
            '{"calls": [{"tool": "bash", "command": "ls"}, {"tool": "answer", "text": "x"}, 3]}',
            (("bash", '{"command":"ls"}'),),
            None,
        ),
        ('{"calls": 3, "tool": "bash"}', (("bash", '{"calls":3}'),), None),
        ('{"other": 1}', (), '{"other": 1}'),
        ("[1]", (), "[1]"),
        ('so: {"tool" : "bash", "command": "l', (("bash", 'so: {"tool" : "bash", "command": "l'),), None),
    ],
)
def test_what_was_written_is_read_as_it_was_meant(text: str, calls: tuple[Any, ...], answer: str | None) -> None:
    written = read(text)
    assert (written.calls, written.answer) == (calls, answer)


def test_an_answer_of_another_tool_of_that_name_is_not_offered() -> None:
    mine = ToolSchema(name="answer", description="", parameters={})
    assert offered([mine]) == []
