"""A conversation with calls, as the model reads it."""

from treadle.agent import toolbox
from treadle.agent.messages import AssistantMessage, ChatMessage, ToolCall, ToolResult, UserMessage
from treadle.agent.providers.known import SmallProfile
from treadle.agent.providers.small import (
    LONGEST_RESULT,
    LOOK,
    SAME_AGAIN,
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


def test_calls_are_written_as_the_model_writes_them_and_results_are_the_other_side() -> None:
    said = words(UserMessage(text="go"), call("bash", '{"command":"ls"}'), result("bash", "a.py"))
    assert said == ["U go", 'A {"tool":"bash","command":"ls"}', "U Result of bash:\na.py"]


def test_an_answer_of_an_earlier_turn_is_a_call_too() -> None:
    said = words(UserMessage(text="go"), AssistantMessage(text="done"), UserMessage(text="more"))
    assert said == ["U go", 'A {"tool":"answer","text":"done"}', "U more"]


def test_what_was_looked_at_unasked_stands_before_the_task() -> None:
    look = AssistantMessage(
        calls=(
            ToolCall(id=LOOK + "1", name="bash", arguments='{"command":"ls"}'),
            ToolCall(id=LOOK + "2", name="read_file", arguments='{"file_path":"a.py"}'),
        )
    )
    said = words(
        UserMessage(text="fix a.py"),
        look,
        result("bash", "a.py", LOOK + "1"),
        result("read_file", "     1\tx = 1\n     2\ty = 2\n", LOOK + "2"),
    )
    assert said == ["U Files here:\na.py\n\na.py holds:\nx = 1\ny = 2\n\n\nTask: fix a.py"]


def test_a_file_that_is_shown_after_a_failed_edit_follows_the_error() -> None:
    look = AssistantMessage(calls=(ToolCall(id=LOOK, name="read_file", arguments='{"file_path":"a.py"}'),))
    said = words(
        UserMessage(text="go"),
        call("edit_file", '{"file_path":"a.py","old_string":"q","new_string":"r"}'),
        result("edit_file", "Error: old_string is not in the file", ok=False),
        look,
        result("read_file", "     1\tx = 1\n", LOOK),
    )
    assert said[-1] == "U Result of edit_file:\nError: old_string is not in the file\n\na.py holds:\nx = 1\n"


def test_the_task_stands_below_the_newest_result_and_only_there() -> None:
    step = (call("bash", '{"command":"ls"}'), result("bash", "a.py"))
    said = words(UserMessage(text="go"), *step, *step, profile=SmallProfile(spell_out=False))
    assert said[2] == "U Result of bash:\na.py" and "The task was: go" in said[-1]
    assert words(UserMessage(text="go"), profile=SmallProfile()) == ["U go"]


def test_an_edit_that_was_made_is_told_without_its_difference_because_the_file_follows() -> None:
    edited = result("edit_file", "Edited a.py\n--- a/a.py\n+++ b/a.py")
    assert words(call("edit_file", "{}"), edited)[-1] == "U Result of edit_file:\nEdited a.py"


def test_a_name_that_a_shown_file_uses_and_does_not_define_is_named() -> None:
    look = AssistantMessage(calls=(ToolCall(id=LOOK, name="read_file", arguments='{"file_path":"a.py"}'),))
    said = words(UserMessage(text="go"), look, result("read_file", "     1\tx = area(2)\n", LOOK))
    assert "Line 1 of a.py uses area, which nothing defines" in said[0]


def test_a_wrong_call_is_answered_with_the_right_one() -> None:
    wrong = result("bash", "Error: bash: missing argument 'command'", ok=False)
    assert 'A right call: {"tool":"bash"' in words(call("bash", "{}"), wrong)[-1]
    assert "right call" not in words(call("bash", "{}"), wrong, profile=SmallProfile(spell_out=False, remind=False))[-1]
    unknown = result("skill", "Error: there is no tool 'skill'", ok=False)
    assert '{"tool":"read_file"' in words(call("skill", "{}"), unknown)[-1]


def test_a_call_that_is_not_json_is_shown_as_it_was_written() -> None:
    cut = '{"tool":"bash","command":"ec'
    said = words(call("bash", cut), result("bash", "Error: bash: the arguments are not valid JSON: x", ok=False))
    assert said[0] == f"A {cut}" and "too long" in said[1]


def test_the_same_call_with_the_same_result_is_said_to_be_so() -> None:
    once = (call("bash", '{"command":"ls"}'), result("bash", "a.py"))
    assert SAME_AGAIN in words(*once, *once)[-1]
    assert SAME_AGAIN not in words(*once, UserMessage(text="again"), *once)[-1]


def test_a_long_result_keeps_its_two_ends() -> None:
    said = words(call("bash", "{}"), result("bash", "a" * LONGEST_RESULT + "b" * LONGEST_RESULT))[-1]
    assert len(said) < LONGEST_RESULT + 100 and "aa" in said and said.endswith("bb")


def test_more_of_a_conversation_leaves_the_words_before_it_as_they_were() -> None:
    """So the service need not read them again."""
    some = (UserMessage(text="go"), call("bash", '{"command":"ls"}'), result("bash", "a.py"))
    more = (*some, call("bash", '{"command":"pwd"}', "2"), result("bash", "/x", "2"))
    assert words(*more)[: len(words(*some))] == words(*some)
