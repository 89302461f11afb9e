"""Commands of a settings file as hooks: what they are told, and what their answers mean."""

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.agent.hooked import ENV, LS, judging, verdict
from tests.waiting import until
from treadle.agent.hooks import EventHooks
from treadle.session import HookVerdict
from treadle.settings.claude import parse


async def test_they_are_asked_beside_those_of_a_host_for_the_tools_that_they_name(tmp_path: Path) -> None:
    entry = {"type": "command", "command": "cat > told.json; echo no >&2; exit 2", "timeout": 30}
    groups = [{"matcher": "Edit", "hooks": [{"command": "touch edited"}]}, {"matcher": "Bash", "hooks": [entry]}]
    read = parse({"hooks": {"PreToolUse": groups, "Stop": []}}, "x", "/")
    hooks = EventHooks(str(tmp_path), read.hooks, env={"PATH": "/usr/bin:/bin"})
    judge = hooks.program().pre_tool
    assert judge is not None and await judge(msgspec.structs.replace(LS, directory="/sub")) == "no"
    told = (tmp_path / "told.json").read_text()
    assert '"tool_input":{"command":"ls"}' in told and '"cwd":"/sub"' in told
    assert not (tmp_path / "edited").exists()


@pytest.mark.parametrize("matcher", [" Bash ", "Edit | Bash", "Bash|", "*"])
async def test_a_hook_that_two_files_name_runs_once_and_its_matcher_may_have_spaces(
    matcher: str, tmp_path: Path
) -> None:
    groups = [{"matcher": matcher, "hooks": [{"command": "echo x >> ran"}]}] * 2
    other = {"matcher": matcher, "hooks": [{"command": "echo other >> ran; exit 2"}]}
    hooks = EventHooks(str(tmp_path), parse({"hooks": {"PreToolUse": [*groups, other]}}, "x", "/").hooks, env=ENV)
    assert await verdict(hooks) is not None
    assert sorted((tmp_path / "ran").read_text().split()) == ["other", "x"]


async def test_a_hook_in_the_background_is_not_waited_for_and_ends_with_the_session(tmp_path: Path) -> None:
    hooks = judging(tmp_path, {"command": "echo $$ > pid; exec sleep 1000", "async": True})
    assert await verdict(hooks) is None
    await until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().endswith("\n"))
    await hooks.ended("other")
    assert not os.path.exists(f"/proc/{(tmp_path / 'pid').read_text().strip()}")


@pytest.mark.parametrize("event", ["UserPromptExpansion", "PreModelSwitch"])
async def test_an_event_that_can_be_forbidden_is_also_when_its_hook_cannot_be_asked(tmp_path: Path, event: str) -> None:
    for entry in ({"command": "echo no >&2; exit 2"}, {"command": "exit 1", "onFailure": "block"}):
        ask = judging(tmp_path, entry, event).program().event
        assert ask is not None
        said = await ask(event, {"command_name": "x", "to_model": "x"})
        assert said is not None and said.decision == "deny"


def answering(tmp_path: Path, event: str, *answers: dict[str, Any], **more: Any) -> EventHooks:
    """Each answer is that of a hook of its own."""
    entries = [{"command": f"cat > told.json; echo '{json.dumps(answer)}'"} for answer in answers]
    read = parse({"hooks": {event: [{"hooks": entries}]}}, "x", "/")
    return EventHooks(str(tmp_path), read.hooks, env=ENV, **more)


def specific(**fields: Any) -> dict[str, Any]:
    return {"hookSpecificOutput": fields}


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ([{}], None),
        (
            [specific(permissionDecision="allow", permissionDecisionReason="fine")],
            HookVerdict(decision="allow", reason="fine"),
        ),
        ([{"decision": "approve", "reason": "old"}], HookVerdict(decision="allow", reason="old")),
        ([specific(permissionDecision="ask"), {"decision": "approve"}], HookVerdict(decision="ask")),
        ([{"decision": "approve"}, specific(permissionDecision="ask")], HookVerdict(decision="ask")),
        ([specific(permissionDecision="deny")], "a hook denied it"),
        ([specific(permissionDecision="deny", permissionDecisionReason="no")], "no"),
        ([{"decision": "deny"}], "a hook blocked it"),
        ([{"decision": "block", "reason": "no"}], "no"),
        (
            [{"decision": "block", "reason": "no"}, specific(additionalContext="so")],
            HookVerdict(decision="deny", reason="no", context="so"),
        ),
        ([specific(updatedInput={"command": "pwd"})], HookVerdict(args={"command": "pwd"})),
        ([specific(updatedInput="pwd")], None),
        (
            [specific(additionalContext="a"), specific(additionalContext=""), specific(additionalContext="b")],
            HookVerdict(context="a\nb"),
        ),
        ([{"hookSpecificOutput": "x"}], None),
    ],
)
async def test_what_hooks_say_before_a_call(tmp_path: Path, answers: list[dict[str, Any]], said: Any) -> None:
    assert await verdict(answering(tmp_path, "PreToolUse", *answers)) == said


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("text", "text"),
        ({"content": [{"text": "a"}, {"text": "b"}]}, "a\nb"),
        ([{"text": "a"}], "a"),
        ({"stdout": "out", "stderr": "err"}, "out\nerr"),
        ({"stdout": "out", "stderr": ""}, "out"),
        ({"other": 1}, '{"other":1}'),
        ([1], "[1]"),
    ],
)
@pytest.mark.parametrize("name", ["updatedToolOutput", "updatedMCPToolOutput"])
async def test_a_result_is_replaced_by_what_a_hook_puts_in_its_place(
    tmp_path: Path, name: str, value: Any, shown: str
) -> None:
    after = answering(tmp_path, "PostToolUse", specific(**{name: value})).program().post_tool
    assert after is not None and await after(LS, "a", True) == HookVerdict(result=shown)


def decided(behavior: str, **more: Any) -> dict[str, Any]:
    return specific(decision={"behavior": behavior, **more})


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ([{}], None),
        ([specific(decision="allow")], None),
        ([decided("allow")], HookVerdict(decision="allow")),
        (
            [decided("allow", updatedInput={"command": "pwd"}), {}],
            HookVerdict(decision="allow", args={"command": "pwd"}),
        ),
        ([decided("allow"), decided("deny")], HookVerdict(decision="deny", reason="a hook denied it")),
        ([decided("deny", message="no")], HookVerdict(decision="deny", reason="no")),
        ([{"decision": "block", "reason": "no"}], HookVerdict(decision="deny", reason="no")),
        ([decided("perhaps")], None),
    ],
)
async def test_a_hook_answers_a_question_in_place_of_a_person(
    tmp_path: Path, answers: list[dict[str, Any]], said: Any
) -> None:
    event = answering(tmp_path, "PermissionRequest", *answers).program().event
    assert event is not None
    payload = {
        "tool_name": "bash",
        "tool_input": {"command": "ls"},
        "always": ("bash(ls)",),
        "kind": "execute",
        "use": LS,
    }
    assert await event("PermissionRequest", payload) == said
    found = json.loads((tmp_path / "told.json").read_text())
    assert (found["tool_name"], found["tool_input"]) == ("Bash", {"command": "ls"})
    assert found["permission_suggestions"] and not {"use", "always", "kind"} & set(found)


async def test_a_denied_question_can_end_the_turn_and_a_hook_that_fails_denies_it(tmp_path: Path) -> None:
    ended: list[str] = []

    async def stop(reason: str) -> None:
        ended.append(reason)

    for more in ({"message": "enough"}, {}):
        hooks = answering(tmp_path, "PermissionRequest", decided("deny", interrupt=True, **more))
        hooks.stop_turn = stop
        event = hooks.program().event
        assert event is not None
        await event("PermissionRequest", {"tool_name": "bash"})
    assert ended == ["enough", "a hook ended the turn"]
    broken = judging(tmp_path, {"command": "exit 1", "onFailure": "block"}, "PermissionRequest").program().event
    assert broken is not None
    said = await broken("PermissionRequest", {"tool_name": "bash"})
    assert said is not None and said.decision == "deny" and said.reason.startswith("a hook could not be asked: ")
