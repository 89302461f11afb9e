import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agent.tools.workspace import Workspace
from treadle.agent import toolbox
from treadle.agent.tools import BUILTIN, TOOLS
from treadle.agent.tools.base import AnyArgs, ToolContext
from treadle.errors import ToolError
from treadle.session import Access


def test_every_tool_is_listed_with_its_module() -> None:
    texts = [path.read_text() for path in (Path(toolbox.__file__).parent / "tools").glob("*.py")]
    tools = {name.lower() for text in texts for name in re.findall(r"^([A-Z_]+): Tool\[", text, re.M)}
    assert tools == {*TOOLS} and {toolbox.load(name).name for name in TOOLS} == tools


@pytest.mark.parametrize("name", BUILTIN)
def test_a_schema_is_one_closed_piece_that_describes_every_argument(name: str) -> None:
    schema = toolbox.parameters(toolbox.load(name))
    text = json.dumps(schema)
    assert schema["type"] == "object" and schema["additionalProperties"] is False
    assert "$ref" not in text and "$defs" not in text and '"null"' not in text
    for argument in schema["properties"].values():
        assert len(argument["description"]) > 5 and ("type" in argument or "enum" in argument)


def test_only_what_was_asked_for_and_is_there_is_offered() -> None:
    offered = toolbox.builtin(["glob", "save_memory", "read_file", "glob"], denied=["read_file"])
    assert offered.names == ("glob",)
    assert len(toolbox.builtin([])) == 0
    assert toolbox.builtin().names == BUILTIN
    assert [schema.name for schema in offered.schemas()] == ["glob"]


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


def test_a_name_stands_for_a_tool_only_where_that_is_offered() -> None:
    with pytest.raises(ToolError, match="there is no tool 'Bash'"):
        toolbox.builtin(["read_file"]).get("Bash")


@pytest.mark.parametrize(("asked", "meant"), [("raed_file", "read_file"), ("edti_file", "edit_file")])
def test_an_unknown_tool_is_answered_with_the_tools_there_are_and_the_nearest(asked: str, meant: str) -> None:
    with pytest.raises(ToolError, match=rf"there is no tool '{asked}'.*write_file.*did you mean {meant}\?"):
        toolbox.builtin().get(asked)


def decoded(name: str, arguments: str) -> dict[str, Any]:
    return msgspec.structs.asdict(toolbox.decode(toolbox.load(name), arguments))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("{", "not valid JSON"),
        ("[1]", "must be a JSON object"),
        ('{"file_path": "\\ud800"}', "not valid JSON"),
        ("", 'missing argument \'file_path\'.*right call is read_file ."file_path": "...".; optional: offset, limit'),
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


def test_an_argument_that_a_tool_does_not_have_is_ignored_and_the_model_is_told() -> None:
    tool = toolbox.load("read_file")
    given = {"file_path": "a", "limits": 1, "reason": "I must"}
    assert decoded("read_file", json.dumps(given))["limit"] is None
    told = toolbox.note_of(tool, given)
    assert told == "\n[read_file has no argument limits (did you mean limit?), reason: ignored]"
    assert toolbox.note_of(tool, {"file_path": "a"}) == ""


@given(text=st.text(max_size=30) | st.recursive(st.none() | st.text(max_size=3), st.lists).map(json.dumps))
def test_any_text_is_decoded_or_a_tool_error(text: str) -> None:
    try:
        toolbox.decode(toolbox.load("read_file"), text)
    except ToolError as error:
        assert str(error)


class Foreign:
    name = "mcp__there__do"
    description = "Described by another program."
    kind: Any = "other"
    Args = AnyArgs
    parameters = {"type": "object", "properties": {"deep": {"type": "array"}}}

    def access(self, args: AnyArgs, resolve: Any) -> Access:
        return Access(tool=self.name, kind=self.kind, args=args.values)

    async def run(self, args: AnyArgs, context: ToolContext) -> str:
        return json.dumps(args.values)


async def test_a_tool_with_a_schema_of_its_own_gets_the_arguments_as_they_are(workspace: Workspace) -> None:
    offered = toolbox.builtin(["glob"])
    offered.add(Foreign())
    tool = offered.get("mcp__there__do")
    assert toolbox.parameters(tool) == Foreign.parameters
    args = toolbox.decode(tool, '{"deep": [1, {"path": null}]}')
    assert await toolbox.run(tool, args, workspace.context) == '{"deep": [1, {"path": null}]}'


async def test_every_result_is_capped_in_one_place(workspace: Workspace) -> None:
    workspace.write("a.txt", "x" * 100_000)
    tool = Foreign()
    result = await toolbox.run(tool, AnyArgs({"text": "y" * 100_000}), workspace.context)
    assert len(result) < 25_000 and "left out" in result


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
    assert (caught.value.message, caught.value.hint) == ("there is no tool 'glob'; the tools here are grep", None)
    tools.withheld = lambda name: True
    with pytest.raises(ToolError, match="no tools are enabled"):
        tools.get("grep")
