"""Commands of a settings file as hooks: what they are told, and what their answers mean."""

from pathlib import Path
from typing import Any

import pytest

from treadle.agent.event_hooks import EventHooks, run
from treadle.errors import Unsupported
from treadle.session import Use
from treadle.settings.claude import CommandHook, parse

ENV = {"PATH": "/usr/bin:/bin"}
LS = Use(tool="bash", args={"command": "ls"}, kind="execute", command="ls")


async def answer(tmp_path: Path, command: str, event: str = "PreToolUse", **more: Any) -> tuple[Any, list[str]]:
    warnings: list[str] = []
    hook = CommandHook(event=event, matcher="", command=command, **more)
    return await run(
        hook, {"hook_event_name": event}, str(tmp_path), warnings.append, {"PATH": "/usr/bin:/bin"}
    ), warnings


@pytest.mark.parametrize(
    ("command", "event", "said"),
    [
        ("true", "PreToolUse", {}),
        ("""echo '{"decision": "approve"}'""", "PreToolUse", {"decision": "approve"}),
        ("echo looks fine", "PreToolUse", {}),
        ("echo it rains", "UserPromptSubmit", {"hookSpecificOutput": {"additionalContext": "it rains"}}),
        ("echo no >&2; exit 2", "PreToolUse", {"decision": "block", "reason": "no"}),
        ("exit 2", "PreToolUse", {"decision": "block", "reason": "blocked by the hook exit 2"}),
        ("echo '[1]'", "PreToolUse", {}),
        ("cat", "Stop", {"hook_event_name": "Stop"}),
        ('echo "{\\"decision\\": \\"$CLAUDE_PROJECT_DIR\\"}"', "Stop", None),
    ],
)
async def test_an_answer(tmp_path: Path, command: str, event: str, said: Any) -> None:
    expected = {"decision": str(tmp_path)} if said is None else said
    assert await answer(tmp_path, command, event) == (expected, [])


async def test_another_failure_is_a_warning_and_blocks_nothing(tmp_path: Path) -> None:
    said, [warning] = await answer(tmp_path, "echo oh >&2; exit 3")
    assert said == {} and "failed with exit code 3: oh" in warning


async def test_what_cannot_be_asked_blocks(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="took more than"):
        await answer(tmp_path, "exec sleep 1000", timeout=0.01)
    with pytest.raises(Unsupported, match="could not run"):
        await answer(tmp_path / "gone", "true")


async def test_they_are_asked_beside_those_of_a_host_for_the_tools_that_they_name(tmp_path: Path) -> None:
    entry = {"type": "command", "command": "cat > told.json; echo no >&2; exit 2", "timeout": 30}
    groups = [{"matcher": "Edit", "hooks": [{"command": "touch edited"}]}, {"matcher": "Bash", "hooks": [entry]}]
    read = parse({"hooks": {"PreToolUse": groups, "Stop": []}}, "x", "/")
    hooks = EventHooks(str(tmp_path), read.hooks, env={"PATH": "/usr/bin:/bin"})
    judge = hooks.program().pre_tool
    assert judge is not None and await judge(LS) == "no"
    assert '"tool_input":{"command":"ls"}' in (tmp_path / "told.json").read_text()
    assert not (tmp_path / "edited").exists()
