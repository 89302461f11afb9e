"""Hooks are real shell commands here."""

import json
import os
from pathlib import Path

import pytest

from treadle.agent.hooks import ShellHooks
from treadle.session import Access
from treadle.settings.config import Hook, HookSettings

BASH = Access(tool="bash", kind="execute", command="make test")


@pytest.fixture
def warnings() -> list[str]:
    return []


def hooks(tmp_path: Path, warnings: list[str], **hooks: Hook) -> ShellHooks:
    given = HookSettings(**{event: (hook,) for event, hook in hooks.items()})
    env = {"PATH": os.environ["PATH"]}
    return ShellHooks(given, cwd=str(tmp_path), env=env, session="s1", warn=warnings.append)


async def test_a_hook_is_told_what_is_about_to_happen(tmp_path: Path, warnings: list[str]) -> None:
    ready = hooks(tmp_path, warnings, pre_tool=Hook(command="cat > told; echo $TREADLE_HOOK_EVENT > event"))
    assert await ready.pre_tool("bash", {"command": "make test"}, BASH) is None
    assert json.loads((tmp_path / "told").read_text()) == {
        "event": "pre_tool",
        "session_id": "s1",
        "cwd": str(tmp_path),
        "tool": "bash",
        "args": {"command": "make test"},
        "kind": "execute",
        "paths": [],
        "command": "make test",
        "url": None,
    }
    assert (tmp_path / "event").read_text() == "pre_tool\n"
    assert warnings == []


async def test_exit_2_blocks_with_stderr_as_the_reason(tmp_path: Path, warnings: list[str]) -> None:
    ready = hooks(tmp_path, warnings, pre_tool=Hook(command="echo not today >&2; exit 2"))
    assert await ready.pre_tool("bash", {}, BASH) == "not today"
    ready = hooks(tmp_path, warnings, pre_tool=Hook(command="exit 2"))
    assert await ready.pre_tool("bash", {}, BASH) == "blocked by the hook exit 2"


async def test_a_hook_that_takes_too_long_is_stopped_with_all_it_started(tmp_path: Path, warnings: list[str]) -> None:
    command = "(setsid sleep 1000 & echo $! > pid); sleep 1000"
    for seconds in (1, 30):  # on a busy machine the shell may not come so far in one
        ready = hooks(tmp_path, warnings, pre_tool=Hook(command=command, timeout=seconds))
        assert await ready.pre_tool("bash", {}, BASH) is None
        assert f"took more than {seconds} s" in warnings.pop()
        if (tmp_path / "pid").exists() and (tmp_path / "pid").read_text():
            break
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


async def test_a_hook_runs_only_for_what_its_matcher_matches(tmp_path: Path, warnings: list[str]) -> None:
    ready = hooks(tmp_path, warnings, pre_tool=Hook(command="exit 2", matcher="Bash(git push*)"))
    assert await ready.pre_tool("bash", {}, BASH) is None
    assert await ready.pre_tool("bash", {}, Access(tool="bash", kind="execute", command="true; git push")) is not None
    ready = hooks(tmp_path, warnings, pre_tool=Hook(command="exit 2", matcher="Write(*.py)"))
    deep = Access(tool="edit_file", kind="write", paths=(str(tmp_path / "deep" / "x.py"),))
    assert await ready.pre_tool("edit_file", {}, deep) is not None
    assert await ready.pre_tool("bash", {}, BASH) is None


async def test_what_a_post_tool_hook_prints_is_added_to_the_result(tmp_path: Path, warnings: list[str]) -> None:
    ready = hooks(tmp_path, warnings, post_tool=Hook(command="""sed 's/.*"result":"\\([^"]*\\)".*/linted \\1/'"""))
    assert await ready.post_tool("bash", {}, BASH, "output", True) == "\nlinted output"
    ready = hooks(tmp_path, warnings, post_tool=Hook(command="echo out; echo fix this >&2; exit 2"))
    assert await ready.post_tool("bash", {}, BASH, "output", True) == "\nfix this"
    ready = hooks(tmp_path, warnings, post_tool=Hook(command="echo out; exit 1"))
    assert await ready.post_tool("bash", {}, BASH, "output", True) == ""


async def test_a_turn_end_hook_hears_how_it_ended(tmp_path: Path, warnings: list[str]) -> None:
    await hooks(tmp_path, warnings, turn_end=Hook(command="cat > told")).turn_end("completed", "done")
    found = json.loads((tmp_path / "told").read_text())
    assert (found["event"], found["outcome"], found["text"]) == ("turn_end", "completed", "done")


async def test_a_flood_of_output_and_unread_input_do_no_harm(tmp_path: Path, warnings: list[str]) -> None:
    ready = hooks(tmp_path, warnings, post_tool=Hook(command="head -c 3000000 /dev/zero | tr '\\0' x"))
    added = await ready.post_tool("bash", {}, BASH, "y" * 1_000_000, True)
    assert 20_000 < len(added) < 30_000
    assert warnings == []


async def test_what_a_hook_leaves_in_the_background_does_not_hold_the_call(tmp_path: Path, warnings: list[str]) -> None:
    ready = hooks(tmp_path, warnings, post_tool=Hook(command="sleep 1000 & echo $! > pid; echo done"))
    assert await ready.post_tool("bash", {}, BASH, "", True) == "\ndone"
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


async def test_a_hook_in_a_directory_that_is_gone_is_a_warning(tmp_path: Path, warnings: list[str]) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    ready = hooks(gone, warnings, pre_tool=Hook(command="exit 2"))
    gone.rmdir()
    assert await ready.pre_tool("bash", {}, BASH) is None
    assert "could not run" in warnings[0]
