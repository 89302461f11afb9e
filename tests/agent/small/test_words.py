import json

from treadle.agent import toolbox
from treadle.agent.messages import ToolSchema
from treadle.agent.providers.small import is_example, manual, right_call, undefined_note

TOOLS = toolbox.builtin(("read_file", "edit_file", "write_file", "bash")).schemas()


def test_every_example_is_a_call_that_its_tool_accepts() -> None:
    for tool in TOOLS:
        call = json.loads(right_call(tool))
        assert call.pop("tool") == tool.name
        toolbox.decode(toolbox.load(tool.name), json.dumps(call))


def test_a_tool_that_we_do_not_know_is_shown_with_its_own_arguments() -> None:
    tool = ToolSchema(name="mcp__x__y", description="Do y. At length.", parameters={"required": ["where"]})
    assert right_call(tool) == '{"tool":"mcp__x__y","where":"..."}'
    assert "<- Do y" in manual([tool])


def test_half_of_a_rename_is_answered_with_the_other_half() -> None:
    text = "def circle_area(r):\n    return r\n\n\ndef volume(r, h):\n    return area(r) * h\n"
    note = undefined_note("a.py", text, "area", 6)
    assert '"old_string":"    return area(r) * h","new_string":"    return circle_area(r) * h"' in note
    assert "edit_file" in undefined_note("a.py", "print(zzz)\n", "zzz", 1)


def test_only_the_very_arguments_of_an_example_are_one() -> None:
    assert is_example("bash", '{"command":"python3 shop.py"}') and not is_example("bash", '{"command":"ls"}')
    assert not is_example("read_file", '{"command":"python3 shop.py"}') and not is_example("dance", "{}")
