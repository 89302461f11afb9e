"""What Claude Code asks a person, and how the answer goes back."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from treadle.drivers.claude.gate import answered, granted_permissions, options_of, text_of
from treadle.session import Answer

ASKED = {"questions": [{"question": "Which?", "options": [{"label": "Red"}, {"label": "Blue"}]}]}
RULE = {"type": "addRules", "rules": [], "destination": "localSettings"}
WIDER = {"type": "setMode", "mode": "acceptEdits"}


def test_a_question_has_its_text_and_its_options_and_a_plan_its_text() -> None:
    assert (text_of(ASKED), options_of(ASKED)) == ("Which?", ("Red", "Blue"))
    assert (text_of({"plan": "first this"}), options_of({"plan": "first this"})) == ("first this", ())


def test_an_answer_is_put_beside_the_question_or_takes_the_place_of_the_arguments() -> None:
    said = Answer(decision="allow", text="Blue")
    assert answered("AskUserQuestion", ASKED, said) == {**ASKED, "answers": {"Which?": "Blue"}}
    assert answered("Bash", {"command": "a"}, said) == {"command": "a"}
    assert answered("Bash", {"command": "a"}, Answer(decision="allow", changed_args={"command": "b"})) == {
        "command": "b"
    }


def test_a_permission_that_lasts_adds_rules_and_never_a_wider_mode() -> None:
    assert granted_permissions([RULE, WIDER], Answer(decision="allow")) == []
    assert granted_permissions([RULE, WIDER], Answer(decision="allow", scope="session")) == [
        {**RULE, "destination": "session"}
    ]
    assert granted_permissions([RULE, WIDER], Answer(decision="allow", scope="always")) == [RULE]


@given(st.recursive(st.none() | st.text(), lambda some: st.lists(some) | st.dictionaries(st.text(), some)))
def test_any_arguments_can_be_shown(args: Any) -> None:
    for each in (args, {"questions": args}, {"questions": [args]}):
        assert isinstance(text_of(each), str) and isinstance(options_of(each), tuple)


def test_several_questions_are_several_lines_and_only_the_first_has_options_to_show() -> None:
    asked = {
        "questions": [
            {"question": "A?", "options": ["odd", {"label": "x"}]},
            7,
            {"question": "B?", "options": [{"label": "y"}]},
        ]
    }
    assert text_of(asked) == "A?\nB?" and options_of(asked) == ("x",)
    said = Answer(decision="allow", text="x")
    assert answered("AskUserQuestion", asked, said)["answers"] == {"A?": "x", "B?": "x"}
    assert answered("AskUserQuestion", "odd", said) == "odd" and text_of({"plan": 7}) == ""
    assert (
        granted_permissions(None, Answer(decision="allow", scope="always")) == []
        and granted_permissions([7], Answer(decision="allow", scope="always")) == []
    )
    assert options_of({"questions": [{"question": "A?"}]}) == ()
