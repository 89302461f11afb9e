import json
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agent.tools.workspace import Workspace
from treadle.agent import toolbox
from treadle.agent.tools.base import AnyArgs
from treadle.errors import ToolError


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        *(("readfile", "read_file"), ("ReadFile", "read_file"), ("edit", "edit_file"), ("Bash", "bash")),
        *(("Read", "read_file"), ("Write", "write_file"), ("Grep", "grep"), ("TodoWrite", "todo"), ("Agent", "task")),
        *(("run_shell_command", "bash"), ("str_replace", "edit_file"), ("WebFetch", "web_fetch")),
    ],
)
def test_a_tool_runs_under_the_name_that_another_agent_has_for_it(asked: str, meant: str) -> None:
    assert toolbox.builtin().get(asked).name == meant


def decoded(name: str, arguments: str) -> dict[str, Any]:
    return msgspec.structs.asdict(toolbox.decode(toolbox.load(name), arguments))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("{", "not valid JSON"),
        ("[1]", "must be a JSON object"),
        ('{"file_path": "\\ud800"}', "not valid JSON"),
        ("", 'missing argument \'file_path\'.*correct call: read_file ."file_path": "...".; optional: offset, limit'),
        ('{"file_path": null}', "argument 'file_path': Expected 'str'"),
        ('{"file_path": 5}', "argument 'file_path': Expected 'str', got 'int'"),
        ('{"file_path": "a", "offset": -1}', "argument 'offset'"),
        ('{"file_path": "a", "path": "b"}', "given twice"),
        ('{"file_path": "a", "x": ' + "[" * 5000 + "]" * 5000 + "}", "read_file"),
    ],
)
def test_arguments_that_do_not_fit_are_told_by_name(arguments: str, message: str) -> None:
    with pytest.raises(ToolError, match=message):
        decoded("read_file", arguments)


@given(text=st.text(max_size=30) | st.recursive(st.none() | st.text(max_size=3), st.lists).map(json.dumps))
def test_any_text_is_decoded_or_a_tool_error(text: str) -> None:
    try:
        toolbox.decode(toolbox.load("read_file"), text)
    except ToolError as error:
        assert str(error)


def test_what_is_removed_or_withheld_is_neither_known_nor_named() -> None:
    tools = toolbox.builtin(("read_file", "glob", "grep"))
    assert len(tools.schemas()) == 3
    tools.remove("read")
    assert tools.names == ("glob", "grep") and [schema.name for schema in tools.schemas()] == ["glob", "grep"]
    tools.withheld = lambda name: name == "glob"
    assert "glob" not in tools and "grep" in tools and "bash" not in tools and len(tools) == 2
    assert (tools.known("glob"), tools.known("findfiles"), tools.known("rg")) == (None, None, "grep")
    with pytest.raises(ToolError) as caught:
        tools.get("glob")
    assert (caught.value.message, caught.value.hint) == ("there is no tool 'glob'; available: grep", None)
    tools.withheld = lambda name: True
    with pytest.raises(ToolError, match="no tools are enabled"):
        tools.get("grep")


async def test_every_result_is_capped_in_one_place(workspace: Workspace) -> None:
    class Endless:
        async def run(self, args: object, context: object) -> str:
            return "y" * 100_000

    result = await toolbox.run(cast(Any, Endless()), AnyArgs({}), workspace.context)
    assert len(result) < 25_000 and "left out" in result
