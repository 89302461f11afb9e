"""Arguments of tools by Claude Code's names, and back."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.wire.oneshot.arguments import OURS, THEIRS, chosen, questions, to_ours, to_theirs


@pytest.mark.parametrize(
    ("tool", "ours", "theirs"),
    [
        ("bash", {"command": "make", "timeout": 1.5}, {"command": "make", "timeout": 1500}),
        ("bash", {"command": "x", "background": True}, {"command": "x", "run_in_background": True}),
        ("grep", {"pattern": "a", "ignore_case": True, "limit": 3}, {"pattern": "a", "-i": True, "head_limit": 3}),
        ("task", {"agent_type": "search", "prompt": "p"}, {"subagent_type": "search", "prompt": "p"}),
        ("write_file", {"file_path": "a", "content": ""}, {"file_path": "a", "content": ""}),
        ("mine", {"background": True}, {"background": True}),
    ],
)
def test_names_and_times_are_theirs_and_ours_again(tool: str, ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    assert to_theirs(tool, ours) == theirs and to_ours(tool, theirs) == ours


def test_what_was_left_out_stays_out_and_what_is_no_object_is_passed_on() -> None:
    given = {"command": "x", "timeout": None, "background": False, "description": "", "paths": []}
    assert to_theirs("bash", given) == {"command": "x"}
    assert to_theirs("bash", "half a line") == "half a line"


def test_leaving_the_sandbox_has_their_name_and_needs_a_reason_of_ours() -> None:
    assert to_theirs("bash", {"command": "x", "outside": "it needs the network"})["dangerouslyDisableSandbox"] is True
    assert to_ours("bash", {"command": "x", "dangerouslyDisableSandbox": True})["outside"]
    assert "outside" not in to_ours("bash", {"command": "x", "dangerouslyDisableSandbox": False})


@given(
    st.sampled_from(["bash", "task", "grep", "mine"]),
    st.dictionaries(st.text(), st.integers(1) | st.text("a", min_size=1)),
)
def test_any_other_argument_comes_back_as_it_was(tool: str, given: dict[str, Any]) -> None:
    theirs = {"-i", "-C", "head_limit", "run_in_background", "subagent_type", "timeout", "outside"}
    plain = {name: value for name, value in given.items() if name not in theirs | {"dangerouslyDisableSandbox"}}
    assert to_ours(tool, to_theirs(tool, plain)) == plain


def test_a_question_goes_out_with_its_choices_and_the_answer_comes_back() -> None:
    (asked,) = questions("Tabs or spaces?", ("tabs", "spaces"))["questions"]
    assert [each["label"] for each in asked["options"]] == ["tabs", "spaces"]
    text = asked["question"]
    assert chosen({"answers": {text: "tabs"}}, text) == "tabs"
    assert chosen({"answers": {"another": ["tabs", "spaces"]}}, text) == "tabs, spaces"
    for nothing in (None, {}, {"answers": None}, {"answers": {}}, "tabs"):
        assert chosen(nothing, text) == ""


def test_every_tool_of_ours_that_claude_code_has_too_has_its_name() -> None:
    assert set(THEIRS) == set(OURS.values())
    assert all(OURS[theirs] == ours for ours, theirs in THEIRS.items())


def test_of_two_names_the_older_one_is_written() -> None:
    assert OURS["Task"] == OURS["Agent"] == "task" and THEIRS["task"] == "Task"


def test_a_time_that_is_no_number_is_left_alone_and_one_answer_is_asked_for() -> None:
    for same in ({"command": "x", "timeout": "soon"}, {"command": "x"}):
        assert to_theirs("bash", same) == same and to_ours("bash", same) == same
    assert to_theirs("mine", {"timeout": 2, "outside": "y"}) == {"timeout": 2, "outside": "y"}
    assert to_ours("mine", {"timeout": 2}) == {"timeout": 2}
    assert "dangerouslyDisableSandbox" not in to_theirs("bash", {"command": "x", "outside": ""})
    (asked,) = questions("Which?", ("a",))["questions"]
    assert asked["multiSelect"] is False and asked["header"] == "Question"
