"""What the tools say of themselves."""

import jsonschema
import mcp_types as types
import pytest

from treadle.doors.mcp.door import INSTRUCTIONS, TOOLS


@pytest.mark.parametrize("name", TOOLS)
def test_a_tool_is_as_the_protocol_wants_it(name: str) -> None:
    tool = types.Tool.model_validate(TOOLS[name])
    jsonschema.Draft7Validator.check_schema(tool.input_schema)
    assert tool.description


def test_the_instructions_name_tools_that_exist() -> None:
    named = {word.strip("`") for word in INSTRUCTIONS.split() if word.startswith("`")}
    assert {word.rstrip("`.,)") for word in named} - {"waiting"} <= set(TOOLS)


@pytest.mark.parametrize("name", TOOLS)
def test_a_tool_takes_what_it_says_and_nothing_else(name: str) -> None:
    tool = TOOLS[name]
    assert tool["inputSchema"]["additionalProperties"] is False and tool["name"] == name
    looks = name in ("status", "read")
    assert tool["annotations"] == {"readOnlyHint": looks, "destructiveHint": not looks, "openWorldHint": not looks}
    required = {"run": ["prompt"], "start": ["prompt"], "status": [], "read": ["run"], "cancel": ["run"]}
    assert tool["inputSchema"].get("required", []) == required.get(name, ["run", "decision"])


def test_an_answer_and_a_mode_are_among_those_that_there_are() -> None:
    answers = TOOLS["answer"]["inputSchema"]["properties"]
    assert answers["decision"]["enum"] == ["allow", "deny"] and answers["scope"]["enum"] == ["once", "session"]
    assert TOOLS["run"]["inputSchema"]["properties"]["mode"]["enum"][0] == "plan"
