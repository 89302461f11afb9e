"""Arguments, permissions and subagents by Claude Code's names, and back."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.errors import ConfigError
from treadle.events import Asked
from treadle.wire.oneshot.arguments import (
    OURS,
    THEIRS,
    answered,
    chosen,
    question,
    questions,
    rules_of,
    subagent,
    suggested,
    to_ours,
    to_theirs,
)


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


def asking(**more: Any) -> Asked:
    return Asked(request="r", kind="permission", text="", **more)


def test_a_suggestion_says_what_the_rule_would_be_and_comes_back_as_that_rule() -> None:
    [rule] = suggested(asking(always=("Bash(git push)",), tool_kind="execute"))
    assert rule["rules"] == [{"toolName": "Bash", "ruleContent": "git push"}]
    assert rules_of(rule) == [("allow", "Bash(git push)")]
    [rule, mode] = suggested(asking(always=("write_file(/w/a(1).txt)",), tool_kind="write"))
    assert rules_of(rule) == [("allow", "Write(/w/a(1).txt)")] and mode["mode"] == "acceptEdits"
    [rule] = suggested(asking(always=("mcp__notes__recall",)))
    assert rules_of(rule) == [("allow", "mcp__notes__recall")]
    assert suggested(asking(tool_kind="execute")) == []


def test_a_question_has_the_names_of_claude_code_and_what_there_is_of_the_call() -> None:
    told = question(asking(name="bash", args={"command": "ls"}, call="c1"))
    assert (told["tool_name"], told["input"], told["tool_use_id"]) == ("Bash", {"command": "ls"}, "c1")
    told = question(Asked(request="r", kind="plan", text="first this"))
    assert (told["tool_name"], told["input"], told["tool_use_id"]) == ("ExitPlanMode", {"plan": "first this"}, "")


def test_everything_but_a_clear_yes_is_a_no() -> None:
    request = asking(args={"command": "ls"})
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
    request = asking(name="bash", args={"command": "x", "timeout": 2, "background": True, "outside": ""})
    assert question(request)["input"] == {"command": "x", "timeout": 2000, "run_in_background": True}
    said = {"behavior": "allow", "updatedInput": {"command": "y", "timeout": 1000}}
    assert answered(said, request).changed_args == {"command": "y", "timeout": 1}


def test_a_question_without_details_says_what_there_is() -> None:
    told = question(Asked(request="r", kind="permission", text="May I?", args="ls"))
    assert (told["tool_name"], told["display_name"], told["input"]) == ("permission", "permission", {"text": "May I?"})
    assert (told["subtype"], told["description"], told["tool_use_id"]) == ("can_use_tool", "May I?", "")
    assert suggested(Asked(request="r", kind="plan", text="", tool_kind="write")) == [], "a plan is no permission"
    assert [each["type"] for each in suggested(asking(tool_kind="write"))] == ["setMode"]


def test_a_plan_is_approved_as_it_is_and_an_answer_without_an_input_changes_nothing() -> None:
    plan = Asked(request="r", kind="plan", text="first this", name="x", args={"a": 1})
    for request in (plan, asking(name="bash", args={"command": "ls"})):
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


def test_tools_are_known_by_the_names_of_claude_code_and_may_be_a_list_or_a_text() -> None:
    for tools in (["Read", " Bash "], "Read, Bash"):
        found = subagent("a", {"prompt": "p", "description": "d", "tools": tools, "disallowedTools": ["Edit"]})
        assert found.tools == ("read_file", "bash") and found.denied == ("edit_file",)
        assert (found.name, found.description, found.prompt) == ("a", "d", "p")


@pytest.mark.parametrize(("model", "expected"), [(None, None), ("inherit", None), ("opus", "opus")])
def test_the_model_is_that_of_the_session_unless_it_says_another(model: str | None, expected: str | None) -> None:
    assert subagent("a", {"prompt": "p", "model": model}).model == expected


def test_without_tools_it_has_all_and_turns_are_a_number_or_unbounded() -> None:
    found = subagent("a", {"prompt": "p", "tools": [], "maxTurns": 3})
    assert found.tools is None and found.max_turns == 3
    assert subagent("a", {"prompt": "p", "maxTurns": "3"}).max_turns is None
    assert subagent("a", {"prompt": "p", "maxTurns": True}).max_turns is None


@pytest.mark.parametrize("entry", [None, [], {}, {"prompt": 1}, {"description": "d"}])
def test_one_without_a_prompt_is_refused(entry: Any) -> None:
    with pytest.raises(ConfigError, match="the agent 'a' has no prompt"):
        subagent("a", entry)


def test_what_it_asks_for_and_cannot_have_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="asks for mcpServers, memory, which subagents do not have here"):
        subagent("a", {"prompt": "p", "mcpServers": {"x": {}}, "memory": "user"})
