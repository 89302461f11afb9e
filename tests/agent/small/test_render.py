"""A conversation with calls, as the model reads it."""

from treadle.agent import toolbox
from treadle.agent.messages import AssistantMessage, ChatMessage, ToolCall, ToolResult
from treadle.agent.providers.known import SmallProfile
from treadle.agent.providers.small import (
    LONGEST_RESULT,
    rendered,
)

TOOLS = {tool.name: tool for tool in toolbox.builtin(("read_file", "edit_file", "bash")).schemas()}


PLAIN = SmallProfile(remind=False)


def call(name: str, arguments: str, id: str = "1") -> AssistantMessage:
    return AssistantMessage(calls=(ToolCall(id=id, name=name, arguments=arguments),))


def result(name: str, text: str, id: str = "1", ok: bool = True) -> ToolResult:
    return ToolResult(call=id, name=name, text=text, ok=ok)


def words(*messages: ChatMessage, profile: SmallProfile | None = None) -> list[str]:
    return [f"{type(one).__name__[0]} {one.text}" for one in rendered(messages, TOOLS, profile or PLAIN)]


def test_a_wrong_call_is_answered_with_the_right_one() -> None:
    wrong = result("bash", "Error: bash: missing argument 'command'", ok=False)
    assert 'A right call: {"tool":"bash"' in words(call("bash", "{}"), wrong)[-1]
    assert "right call" not in words(call("bash", "{}"), wrong, profile=SmallProfile(spell_out=False, remind=False))[-1]
    unknown = result("skill", "Error: there is no tool 'skill'", ok=False)
    assert '{"tool":"read_file"' in words(call("skill", "{}"), unknown)[-1]


def test_a_long_result_keeps_its_two_ends() -> None:
    said = words(call("bash", "{}"), result("bash", "a" * LONGEST_RESULT + "b" * LONGEST_RESULT))[-1]
    assert len(said) < LONGEST_RESULT + 100 and "aa" in said and said.endswith("bb")
