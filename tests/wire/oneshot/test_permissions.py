"""Suggestions for the host, and what it may send back."""

from typing import Any

import pytest

from treadle.events import Asked
from treadle.wire.oneshot.arguments import answered, question, rules_of, suggested


def asked(**more: Any) -> Asked:
    return Asked(request="r", kind="permission", text="", **more)


def test_a_suggestion_says_what_the_rule_would_be_and_comes_back_as_that_rule() -> None:
    [rule] = suggested(asked(always=("Bash(git push)",), tool_kind="execute"))
    assert rule["rules"] == [{"toolName": "Bash", "ruleContent": "git push"}]
    assert rules_of(rule) == [("allow", "Bash(git push)")]
    [rule, mode] = suggested(asked(always=("write_file(/w/a(1).txt)",), tool_kind="write"))
    assert rules_of(rule) == [("allow", "Write(/w/a(1).txt)")] and mode["mode"] == "acceptEdits"
    [rule] = suggested(asked(always=("mcp__notes__recall",)))
    assert rules_of(rule) == [("allow", "mcp__notes__recall")]
    assert suggested(asked(tool_kind="execute")) == []


def test_a_question_has_the_names_of_claude_code_and_what_there_is_of_the_call() -> None:
    told = question(asked(name="bash", args={"command": "ls"}, call="c1"))
    assert (told["tool_name"], told["input"], told["tool_use_id"]) == ("Bash", {"command": "ls"}, "c1")
    told = question(Asked(request="r", kind="plan", text="first this"))
    assert (told["tool_name"], told["input"], told["tool_use_id"]) == ("ExitPlanMode", {"plan": "first this"}, "")


def test_everything_but_a_clear_yes_is_a_no() -> None:
    request = asked(args={"command": "ls"})
    assert answered({"behavior": "allow", "updatedInput": {"command": "ls"}}, request).changed_args is None
    assert answered({"behavior": "allow", "updatedInput": {"command": "pwd"}}, request).changed_args == {
        "command": "pwd"
    }
    for said in ({}, {"behavior": "deny", "message": "no"}, {"behavior": True}):
        answer = answered(said, request)
        assert (answer.decision, answer.text) == ("deny", said.get("message", ""))


@pytest.mark.parametrize(
    "update",
    [
        {"type": "addDirectories", "directories": ["/"]},
        {"type": "addRules", "behavior": "allow"},
        {"type": "addRules", "behavior": "allow", "rules": [{"toolName": "Bash"}, {}]},
        {"type": "addRules", "behavior": "perhaps", "rules": [{"toolName": "Bash"}]},
    ],
)
def test_what_cannot_be_read_whole_gives_no_rule(update: dict[str, Any]) -> None:
    assert rules_of(update) == []


def test_a_question_of_the_agent_is_the_tool_that_the_host_knows_and_its_answer_is_used() -> None:
    request = Asked(request="r", kind="question", text="Which?", options=("red", "blue"))
    told = question(request)
    [one] = told["input"]["questions"]
    assert told["tool_name"] == "AskUserQuestion" and [each["label"] for each in one["options"]] == ["red", "blue"]
    said = {"behavior": "allow", "updatedInput": {**told["input"], "answers": {"Which?": "blue"}}}
    assert (answered(said, request).decision, answered(said, request).text) == ("allow", "blue")


def test_arguments_are_called_as_claude_code_calls_them_and_come_back_as_ours() -> None:
    request = asked(name="bash", args={"command": "x", "timeout": 2, "background": True, "outside": ""})
    assert question(request)["input"] == {"command": "x", "timeout": 2000, "run_in_background": True}
    said = {"behavior": "allow", "updatedInput": {"command": "y", "timeout": 1000}}
    assert answered(said, request).changed_args == {"command": "y", "timeout": 1}


def test_a_question_without_details_says_what_there_is() -> None:
    told = question(Asked(request="r", kind="permission", text="May I?", args="ls"))
    assert (told["tool_name"], told["display_name"], told["input"]) == ("permission", "permission", {"text": "May I?"})
    assert (told["subtype"], told["description"], told["tool_use_id"]) == ("can_use_tool", "May I?", "")
    assert suggested(Asked(request="r", kind="plan", text="", tool_kind="write")) == [], "a plan is no permission"
    assert [each["type"] for each in suggested(asked(tool_kind="write"))] == ["setMode"]


def test_a_plan_is_approved_as_it_is_and_an_answer_without_an_input_changes_nothing() -> None:
    plan = Asked(request="r", kind="plan", text="first this", name="x", args={"a": 1})
    for request in (plan, asked(name="bash", args={"command": "ls"})):
        changed = {"plan": "other"} if request is plan else "no object"
        answer = answered({"behavior": "allow", "updatedInput": changed}, request)
        assert (answer.decision, answer.changed_args, answer.by) == ("allow", None, "host")
    assert answered({"behavior": "deny"}, plan).by == "host"
    question_of = Asked(request="r", kind="question", text="Which?")
    assert answered({"behavior": "allow", "updatedInput": None}, question_of).text == ""


@pytest.mark.parametrize("behavior", ["allow", "ask", "deny"])
def test_every_behaviour_of_a_rule_is_taken_and_an_empty_content_is_none(behavior: str) -> None:
    rules = [{"toolName": "Bash", "ruleContent": ""}, {"toolName": "Read", "ruleContent": "a"}, {"toolName": "Edit"}]
    found = rules_of({"type": "addRules", "behavior": behavior, "rules": rules})
    assert found == [(behavior, "Bash"), (behavior, "Read(a)"), (behavior, "Edit")]
