"""Arguments as models write them: other names, other spellings, encoded twice; and what is said of wrong ones."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.agent.toolbox import ALIASES, builtin, decode, note_of, plain, plain_name, values
from treadle.agent.tools import BUILTIN
from treadle.agent.tools.base import AnyArgs, AnyTool
from treadle.errors import ToolError

TOOLS = builtin()


class FromElsewhere:
    """A tool of a server, whose arguments we do not know."""

    name = "mcp__x__y"
    Args = AnyArgs


def read(tool: str, arguments: object) -> dict[str, Any]:
    return plain(decode(TOOLS.get(tool), arguments if isinstance(arguments, str) else json.dumps(arguments)))


def test_every_alias_is_of_a_tool_there_is_and_is_written_plainly() -> None:
    assert set(ALIASES.values()) <= set(BUILTIN)
    assert all(alias == plain_name(alias) for alias in ALIASES)


@pytest.mark.parametrize(
    ("tool", "given", "name", "value"),
    [
        ("read_file", {"path": "a.py"}, "file_path", "a.py"),
        ("read_file", {"filePath": "a.py"}, "file_path", "a.py"),
        ("bash", {"cmd": "ls"}, "command", "ls"),
        ("bash", json.dumps(json.dumps({"command": "ls"})), "command", "ls"),
        ("bash", {"command": "ls", "timeout": 30}, "timeout", 30),
        ("bash", {"command": "ls", "timeout": 30_000}, "timeout", 30),
        ("bash", {"command": "ls", "timeout": "30"}, "timeout", 30),
        ("bash", {"command": "ls", "timeout": 3600}, "timeout", 3600),
        ("bash", {"command": "ls", "timeout": 3601}, "timeout", 3.601),
        ("bash", {"command": "ls", "timeout": 3_600_000}, "timeout", 3600),
        ("bash", {"command": "ls", "timeout": None, "unknown": 1}, "command", "ls"),
        ("edit_file", {"path": "a", "old_str": "x", "new_str": "y"}, "old_string", "x"),
        ("grep", {"query": "x", "-i": True}, "ignore_case", True),
    ],
)
def test_what_was_meant_is_understood(tool: str, given: object, name: str, value: object) -> None:
    assert read(tool, given)[name] == value


def test_what_is_null_is_left_out_only_where_it_may_be() -> None:
    assert read("bash", {"command": "ls", "timeout": None})["timeout"] is None
    with pytest.raises(ToolError, match="argument 'command': Expected 'str', got 'null'"):
        read("bash", {"command": None})
    with pytest.raises(ToolError, match="'timeout'"):
        read("bash", {"command": "ls", "timeout": 3_600_001})


def test_a_right_call_has_an_example_of_each_kind_and_a_server_is_told_only_the_form() -> None:
    with pytest.raises(ToolError) as caught:
        read("multi_edit", {})
    assert caught.value.hint == 'a right call is multi_edit {"file_path": "...", "edits": [...]}'
    with pytest.raises(ToolError, match=r"argument 'edits\[0\]': missing argument 'old_string'"):
        read("multi_edit", {"file_path": "a", "edits": [{}]})
    for tool in (None, FromElsewhere()):
        with pytest.raises(ToolError) as caught:
            values("x", "[1]", tool)  # type: ignore[arg-type]
        assert caught.value.hint == "send one JSON object"
    assert values("x", ' "" ') == values("x", " ") == {}


def test_one_argument_under_two_names_must_be_the_same() -> None:
    assert read("read_file", {"path": "a", "file_path": "a"})["file_path"] == "a"
    with pytest.raises(ToolError, match="'file_path' is given twice, with different values"):
        read("read_file", {"path": "a", "file_path": "b"})


@pytest.mark.parametrize(
    ("given", "said", "hint"),
    [
        ("{", "not valid JSON", "a right call is bash"),
        ("[1]", "must be a JSON object, not list", "a right call is bash"),
        ('"[1]"', "must be a JSON object, not list", "a right call is bash"),
        ({}, "bash: missing argument 'command'", 'a right call is bash {"command": "..."}; optional: '),
        ({"command": 1}, "argument 'command': Expected", "a right call is bash"),
    ],
)
def test_what_does_not_fit_is_told_with_a_right_call(given: object, said: str, hint: str) -> None:
    with pytest.raises(ToolError, match=said) as caught:
        read("bash", given)
    assert hint in (caught.value.hint or "")


def test_an_argument_that_is_not_used_is_named_with_what_was_meant() -> None:
    bash = TOOLS.get("bash")
    assert note_of(bash, {"command": "ls"}) == ""
    assert note_of(bash, {"comand": "ls", "zzz": 1}) == (
        "\n[bash has no argument comand (did you mean command?), zzz: ignored]"
    )


def test_a_tool_of_a_server_is_given_what_was_written() -> None:
    tool: AnyTool = FromElsewhere()  # type: ignore[assignment]
    assert plain(decode(tool, '{"any": [1]}')) == {"any": [1]}
    assert note_of(tool, {"any": 1}) == ""


@given(st.sampled_from(BUILTIN), st.text(max_size=60) | st.dictionaries(st.text(max_size=8), st.none() | st.integers()))
def test_any_arguments_are_read_or_a_tool_error(tool: str, given: object) -> None:
    text = given if isinstance(given, str) else json.dumps(given)
    try:
        assert isinstance(decode(TOOLS.get(tool), text), msgspec.Struct)
        assert isinstance(note_of(TOOLS.get(tool), values(tool, text)), str)
    except ToolError as error:
        assert error.message.startswith(tool)
