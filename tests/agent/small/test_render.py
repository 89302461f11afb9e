"""A conversation with calls, as the model reads it."""

from treadle.agent import toolbox
from treadle.agent.messages import AssistantMessage, ChatMessage, ToolCall, ToolResult, UserMessage
from treadle.agent.providers.known import SmallProfile
from treadle.agent.providers.small import (
    CUT_OFF,
    LONGEST_RESULT,
    LONGEST_TASK,
    LOOK,
    REMINDER,
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


def test_a_result_of_exactly_the_longest_size_is_shown_whole() -> None:
    for size, cut in ((LONGEST_RESULT, False), (LONGEST_RESULT + 1, True)):
        assert ("[...]" in words(call("bash", "{}"), result("bash", "a" * size))[-1]) is cut


def test_line_numbers_go_only_from_files_that_were_read() -> None:
    text = "     1\tx"
    shown = [
        words(call(name, "{}"), result(name, text, ok=ok))[-1]
        for name, ok in (("read_file", True), ("bash", True), ("read_file", False))
    ]
    assert shown[0].endswith(":\nx") and text in shown[1] and text in shown[2]


def test_the_reminder_follows_only_what_the_model_has_done_itself() -> None:
    reminding = SmallProfile()
    look = AssistantMessage(calls=(ToolCall(id=LOOK + "1", name="bash", arguments="{}"),))
    looked = result("bash", "a.py", LOOK + "1")
    done = (call("bash", '{"command":"ls"}'), result("bash", "a.py"))
    task = UserMessage(text="t" * (LONGEST_TASK + 1))
    assert "The task was" not in words(task, look, looked, profile=reminding)[-1]
    said = words(UserMessage(text="old"), *done, task, look, looked, *done, profile=reminding)[-1]
    assert said.endswith(REMINDER.format("t" * LONGEST_TASK))
    assert "The task was" not in words(task, *done, profile=PLAIN)[-1]
    mixed = AssistantMessage(
        calls=(ToolCall(id=LOOK + "1", name="bash", arguments="{}"), ToolCall(id="2", name="bash", arguments="{}"))
    )
    assert words(task, mixed)[1].startswith("A {"), "what the model called itself is no look"


def test_a_look_at_a_directory_or_at_a_file_that_failed_says_what_was_seen() -> None:
    def looked(arguments: str, text: str, ok: bool = True) -> str:
        look = AssistantMessage(calls=(ToolCall(id=LOOK, name="read_file", arguments=arguments),))
        return words(UserMessage(text="go"), look, result("read_file", text, LOOK, ok=ok))[0]

    assert (
        looked('{"file_path": 3}', "a.py")
        == looked("[1]", "a.py")
        == looked("{", "a.py")
        == "U Files here:\na.py\n\nTask: go"
    )
    assert "nothing defines" not in looked('{"file_path":"a.py"}', "x = area(2)", ok=False)
    assert "nothing defines" not in looked('{"file_path":"a.txt"}', "x = area(2)")
    assert looked('{"file_path":"a.py"}', "x = area(2)\ny = other(3)").count("nothing defines") == 1


def test_help_fits_what_went_wrong() -> None:
    def told(text: str, ok: bool = False, name: str = "bash") -> str:
        return words(call(name, "{}"), result(name, text, ok=ok))[-1]

    assert "right call" not in told("no such file") and "right call" not in told("missing argument", ok=True)
    assert told("the arguments are not valid JSON").count("A right call") == 1 and CUT_OFF in told("not valid JSON")
    assert CUT_OFF not in told("missing argument") and "Call one of these:\n" in told("no such tool", name="dance")
    whole = SmallProfile(remind=False, show_file=False)
    edited = result("edit_file", "Edited a.py\n--- a/a.py")
    assert words(call("edit_file", "{}"), edited, profile=whole)[-1].endswith("--- a/a.py")
    failed = result("edit_file", "no\nmore", ok=False)
    assert words(call("edit_file", "{}"), failed)[-1].endswith("no\nmore")
    assert words(call("bash", "[1]"), result("bash", "x"))[0] == "A [1]"


def test_the_same_result_of_another_call_is_not_the_same_again() -> None:
    one, two = call("bash", '{"command":"a"}', "1"), call("bash", '{"command":"b"}', "2")
    assert SAME_AGAIN not in words(one, result("bash", "x", "1"), two, result("bash", "x", "2"))[-1]
    assert SAME_AGAIN not in words(one, result("bash", "x", "1"), one, result("bash", "y", "1"))[-1]
    quiet = SmallProfile(remind=False, spell_out=False)
    assert SAME_AGAIN not in words(one, result("bash", "x"), one, result("bash", "x"), profile=quiet)[-1]
