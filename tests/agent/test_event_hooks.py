"""Commands of a settings file as hooks: what they are told, and what their answers mean."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.agent.hooked import LS, judging, verdict
from treadle.agent.event_hooks import EventHooks
from treadle.events import CommandRun, FileChanged
from treadle.session import HookVerdict, Use
from treadle.settings.claude import parse


async def test_they_are_asked_beside_those_of_a_host_for_the_tools_that_they_name(tmp_path: Path) -> None:
    entry = {"type": "command", "command": "cat > told.json; echo no >&2; exit 2", "timeout": 30}
    groups = [{"matcher": "Edit", "hooks": [{"command": "touch edited"}]}, {"matcher": "Bash", "hooks": [entry]}]
    read = parse({"hooks": {"PreToolUse": groups, "Stop": []}}, "x", "/")
    hooks = EventHooks(str(tmp_path), read.hooks, env={"PATH": "/usr/bin:/bin"})
    judge = hooks.program().pre_tool
    assert judge is not None and await judge(LS) == "no"
    assert '"tool_input":{"command":"ls"}' in (tmp_path / "told.json").read_text()
    assert not (tmp_path / "edited").exists()


async def test_a_hook_that_runs_once_is_gone_afterwards(tmp_path: Path) -> None:
    hooks = judging(tmp_path, {"command": "echo no >&2; exit 2", "once": True})
    assert [await verdict(hooks), await verdict(hooks)] == ["no", None]


async def test_a_hook_in_the_background_is_not_waited_for_and_ends_with_the_session(tmp_path: Path) -> None:
    hooks = judging(tmp_path, {"command": "echo no >&2; exec sleep 1000", "async": True})
    assert await verdict(hooks) is None
    await hooks.ended("other")


@pytest.mark.parametrize(
    "entry",
    [
        {"type": "http", "url": "file:///x"},
        {"type": "agent", "prompt": "x"},
        {"command": "x", "asyncRewake": True},
        {"command": "x", "shell": "powershell"},
    ],
)
def test_a_hook_that_cannot_be_run_as_it_is_meant_is_named(entry: dict[str, Any]) -> None:
    read = parse({"hooks": {"PreToolUse": [{"hooks": [entry]}]}}, "x", "/")
    assert not read.hooks and "PreToolUse" in read.missed[0]


def test_settings_of_permissions_that_are_not_used_are_named() -> None:
    read = parse({"permissions": {"denyInsteadOfPrompting": True, "deny": []}, "channels": 1}, "x", "/")
    assert read.unused == ("channels", "permissions.denyInsteadOfPrompting")


async def test_after_a_call_a_hook_is_told_what_it_did_in_claudes_shape_and_how_long_it_took(tmp_path: Path) -> None:
    hooks = judging(tmp_path, {"command": "cat > told.json"}, "PostToolUse")
    told = tmp_path / "told.json"
    after = hooks.program().post_tool
    assert after is not None
    ran = CommandRun(command="ls", exit_code=0, output="a\n", call="c1")
    await after(Use(tool="bash", args={"command": "ls"}, kind="execute", duration_ms=7, did=(ran,)), "a\n", True)
    found = json.loads(told.read_text())
    assert (found["tool_response"]["stdout"], found["duration_ms"]) == ("a", 7)
    made = FileChanged(path=str(tmp_path / "n"), change="added", call="c2")
    given = {"file_path": str(tmp_path / "n"), "content": "x"}
    await after(Use(tool="write_file", args=given, kind="write", did=(made,)), "written", True)
    assert json.loads(told.read_text())["tool_response"]["filePath"] == str(tmp_path / "n")


async def test_all_calls_of_a_reply_are_told_together_by_claudes_names(tmp_path: Path) -> None:
    entry = {"command": """cat > told.json; echo '{"hookSpecificOutput": {"additionalContext": "mind the gap"}}'"""}
    event = judging(tmp_path, entry, "PostToolBatch").program().event
    assert event is not None
    call = {"tool_name": "bash", "tool_input": '{"command": "ls"}', "tool_use_id": "c1", "tool_response": "a"}
    assert await event("PostToolBatch", {"tool_calls": [call]}) == HookVerdict(context="mind the gap")
    [told] = json.loads((tmp_path / "told.json").read_text())["tool_calls"]
    assert told == {**call, "tool_name": "Bash", "tool_input": {"command": "ls"}}


@pytest.mark.parametrize("event", ["UserPromptExpansion", "PreModelSwitch"])
async def test_an_event_that_can_be_forbidden_is_also_when_its_hook_cannot_be_asked(tmp_path: Path, event: str) -> None:
    for entry in ({"command": "echo no >&2; exit 2"}, {"command": "exit 1", "onFailure": "block"}):
        ask = judging(tmp_path, entry, event).program().event
        assert ask is not None
        said = await ask(event, {"command_name": "x", "to_model": "x"})
        assert said is not None and said.decision == "deny"


async def test_what_runs_in_the_background_is_told_when_the_agent_stops(tmp_path: Path) -> None:
    facts = {"session_id": "s", "background_tasks": [{"id": "t1"}], "session_crons": []}
    told = tmp_path / "told.json"
    stop = judging(tmp_path, {"command": "cat > told.json"}, "Stop", described=lambda: facts).program().stop
    assert stop is not None and await stop("completed", "done") is None
    assert json.loads(told.read_text())["background_tasks"] == [{"id": "t1"}]
    await verdict(judging(tmp_path, {"command": "cat > told.json"}, described=lambda: facts))
    assert "background_tasks" not in json.loads(told.read_text())
