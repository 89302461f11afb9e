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
from treadle.agent.providers.small import CAPS, offered, read, reply_schema

TOOLS = toolbox.builtin(("read_file", "edit_file", "write_file", "bash")).schemas()


def fits(reply: Any, profile: SmallProfile) -> bool:
    return not list(jsonschema.Draft202012Validator(reply_schema(TOOLS, profile)).iter_errors(reply))


def test_one_call_with_what_it_requires_fits() -> None:
    assert fits({"tool": "read_file", "file_path": "a.py"}, SmallProfile())
    assert fits({"tool": "answer", "text": "done"}, SmallProfile())
    assert not fits({"tool": "read_file"}, SmallProfile())
    assert not fits({"tool": "skill", "name": "x"}, SmallProfile())
    assert not fits({"tool": "read_file", "file_path": "a.py", "offset": 3}, SmallProfile())


def test_caps_keep_arguments_short() -> None:
    long = {"tool": "bash", "command": "x" * (CAPS["command"] + 1)}
    assert not fits(long, SmallProfile())
    assert fits(long, SmallProfile(caps=False))


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
