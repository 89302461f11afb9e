"""A question, what it shows, and which answer which keys make."""

import msgspec
import pytest

from treadle.cli.chat.question import Question, confinement_words
from treadle.events import Asked
from treadle.session import Answer

COMMAND = Asked(
    request="r", kind="permission", text="?", name="bash", args={"command": "ls", "timeout": 3}, command="ls",
    always=("Bash(ls)",), changeable=True,
)  # fmt: skip
WRITE = Asked(
    request="r",
    kind="permission",
    text="?",
    name="write_file",
    args={"file_path": "a", "content": "x"},
    changeable=True,
)  # fmt: skip


def asked(one: Asked = COMMAND) -> Question:
    return Question(one, "/")


@pytest.mark.parametrize(("key", "scope"), [("y", "once"), ("Y", "once"), ("s", "session"), ("a", "always")])
def test_one_key_allows(key: str, scope: str) -> None:
    assert asked().press(key) == Answer(decision="allow", scope=scope)  # type: ignore[arg-type]


def test_no_can_have_a_reason_that_the_model_reads() -> None:
    question = asked()
    assert question.press("n") is None and question.want == "reason"
    assert question.enter(" use make ") == Answer(decision="deny", text="use make")
    assert question.enter("") == Answer(decision="deny", text="")


def test_only_what_the_agent_can_run_changed_can_be_changed() -> None:
    question = asked(msgspec.structs.replace(COMMAND, changeable=False))
    assert "change" not in question.keys and question.press("e") is None and question.want == "keys"
    assert "e change it first" in asked().keys


def test_a_command_can_be_changed() -> None:
    question = asked()
    assert question.press("e") is None and question.begin() == "ls"
    assert question.enter("ls -l") == Answer(decision="allow", changed_args={"command": "ls -l", "timeout": 3})


def test_other_arguments_are_changed_as_json_and_a_mistake_is_said() -> None:
    question = asked(WRITE)
    question.press("e")
    assert question.begin() == '{\n  "file_path": "a",\n  "content": "x"\n}'
    assert question.enter("{") is None and question.problem.startswith("this is no JSON")
    assert question.enter('{"file_path": "b", "content": "x"}') == Answer(
        decision="allow", changed_args={"file_path": "b", "content": "x"}
    )


def test_esc_goes_back_to_the_keys_and_from_there_nowhere() -> None:
    question = asked()
    question.press("n")
    assert question.back() and question.want == "keys"
    assert not question.back()


def test_the_keys_say_which_rule_always_makes() -> None:
    assert asked().rule == "a keeps this rule: Bash(ls)"
    assert "a always ·" in asked(WRITE).keys


def test_a_plan_is_accepted_or_not() -> None:
    question = asked(Asked(request="r", kind="plan", text="1. do it"))
    assert question.press("a") is None and question.press("e") is None and question.want == "keys"
    assert question.press("y") == Answer(decision="allow")


def test_options_are_chosen_by_arrows_by_number_or_by_their_words() -> None:
    question = asked(Asked(request="r", kind="question", text="Which?", options=("red", "green", "grey")))
    assert question.want == "words"
    question.move(1, "")
    assert question.enter("").text == "green"  # type: ignore[union-attr]
    assert question.enter("3").text == "grey"  # type: ignore[union-attr]
    assert question.enter("something else") == Answer(decision="allow", text="something else")
    question.move(-9, "gre")
    assert question.matching("gre") == ["green", "grey"] and question.enter("gre").text == "green"  # type: ignore[union-attr]


def test_no_words_are_no_answer() -> None:
    question = asked(Asked(request="r", kind="question", text="Why?"))
    assert question.enter("  ") == Answer(decision="deny", text="no answer")


def test_what_can_be_pressed_is_said_for_each_kind() -> None:
    assert asked().keys == "y yes · n no, and why · s for this session · a always · e change it first"
    plan = asked(Asked(request="r", kind="plan", text="x", always=("A",), changeable=True))
    assert plan.keys == "y go ahead · n not like this" and plan.rule == ""
    assert plan.press("s") is None and plan.press("n") is None and plan.want == "reason"
    words = Asked(request="r", kind="question", text="x")
    assert asked(words).keys == "your answer" and asked(words).begin() == ""
    assert asked(msgspec.structs.replace(words, options=("a",))).keys == "arrows and Enter choose, or type an answer"
    assert asked(msgspec.structs.replace(words, request="", options=("a",))).keys.endswith("Esc leaves it")
    question = asked()
    question.press("n")
    assert question.keys.startswith("why not?") and question.rule == "" and question.back()
    question.press("e")
    assert question.keys.startswith("change it, Enter runs it") and question.enter("x") is not None
    assert asked(msgspec.structs.replace(COMMAND, always=())).rule == ""


def test_a_mistake_is_forgotten_when_one_goes_back() -> None:
    question = asked(WRITE)
    question.press("e")
    question.enter("{")
    assert question.back() and question.problem == "" and question.want == "keys"
    words = asked(Asked(request="r", kind="question", text="?"))
    assert not words.back() and words.want == "words"


def test_numbers_and_arrows_stay_within_the_options() -> None:
    question = asked(Asked(request="r", kind="question", text="?", options=("red", "green")))
    for typed, text in (("0", "0"), ("1", "red"), ("2", "green"), ("3", "3"), ("GREEN", "green"), ("", "red")):
        assert question.enter(typed).text == text  # type: ignore[union-attr]
    question.move(9, "")
    assert question.chosen == 1 and question.enter("").text == "green"  # type: ignore[union-attr]
    question.move(1, "nothing like it")
    assert question.chosen == 0


def test_how_a_command_is_confined_is_said() -> None:
    assert confinement_words("to /w") == ("green", "confined to /w")
    assert confinement_words("") == ("yellow", "not confined: it can do anything that you can")
