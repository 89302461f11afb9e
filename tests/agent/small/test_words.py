import json

from treadle.agent import toolbox
from treadle.agent.providers.small import right_call

TOOLS = toolbox.builtin(("read_file", "edit_file", "write_file", "bash")).schemas()


def test_every_example_is_a_call_that_its_tool_accepts() -> None:
    for tool in TOOLS:
        call = json.loads(right_call(tool))
        assert call.pop("tool") == tool.name
        toolbox.decode(toolbox.load(tool.name), json.dumps(call))
