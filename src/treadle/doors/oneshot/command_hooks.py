"""Hooks of a settings file in Claude Code's form: commands that learn what happens and may forbid it.

    {"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "./judge.sh"}]}]}}

A command reads one JSON object. Exit 0 with a JSON object on stdout is an answer like that of a host's own hook; exit 2
blocks, with stderr as the reason; any other exit code is a warning. A hook that takes too long blocks.
"""

import os
from collections.abc import Callable
from typing import Any

import msgspec

from treadle.errors import ConfigError, TreadleError, Unsupported
from treadle.policy.environment import reduced

CALLED = ("PreToolUse", "PostToolUse", "UserPromptSubmit", "Stop")
ONLY_LOOK = (
    *("Notification", "SessionStart", "SessionEnd", "SubagentStart", "SubagentStop", "PreCompact"),
    *("PostToolUseFailure", "PostCompact"),
)
"""Events that cannot forbid anything. Their hooks are accepted but not called, with a warning."""
TIMEOUT = 60.0
BLOCK = 2


class CommandHook(msgspec.Struct, frozen=True, kw_only=True):
    event: str
    matcher: str
    command: str
    timeout: float = TIMEOUT


def command_hooks(table: Any) -> tuple[CommandHook, ...]:
    """The commands in the `hooks` of a settings file. What is not understood might forbid something: ConfigError."""
    found = []
    for event, groups in _table(table, "hooks").items():
        if event not in CALLED + ONLY_LOOK:
            raise ConfigError(f"hooks of the event {event!r} are not run here", hint=f"there are {', '.join(CALLED)}")
        for group in _list(groups, event):
            entry = _table(group, event)
            matcher = str(entry.get("matcher") or "")
            found += [_hook(event, matcher, _table(one, event)) for one in _list(entry.get("hooks"), event)]
    return tuple(found)


def _hook(event: str, matcher: str, entry: dict[str, Any]) -> CommandHook:
    command, timeout = entry.get("command"), entry.get("timeout")
    if entry.get("type", "command") != "command" or not isinstance(command, str) or not command.strip():
        raise ConfigError(f"a hook of {event} is not a command", hint='write {"type": "command", "command": "..."}')
    patience = float(timeout) if isinstance(timeout, int | float) and timeout > 0 else TIMEOUT
    return CommandHook(event=event, matcher=matcher, command=command, timeout=patience)


def _table(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{what} of --settings must be an object, not {type(value).__name__}")
    return value


def _list(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise ConfigError(f"{what} of --settings must have a list of hooks, not {type(value).__name__}")
    return value


async def run(hook: CommandHook, told: dict[str, Any], cwd: str, warn: Callable[[str], None]) -> dict[str, Any]:
    """The command's answer, in the form of a host's answer. Raises Unsupported when it took too long."""
    from treadle.io.process.child import start  # imported here because few runs have hooks
    from treadle.io.process.consulted import consult

    env = {**reduced(os.environ), "CLAUDE_PROJECT_DIR": cwd}
    try:
        child = await start(["/bin/sh", "-c", hook.command], env=env, cwd=cwd, stdin="pipe", stdout="pipe")
        async with child:
            said = await consult(child, msgspec.json.encode(told), hook.timeout)
    except TreadleError as error:
        raise Unsupported(f"the {hook.event} hook {hook.command!r} could not run: {error}") from error
    if said.exit_code is None:
        raise Unsupported(f"the {hook.event} hook {hook.command!r} took more than {hook.timeout:g} s")
    if said.exit_code == BLOCK:
        return {"decision": "block", "reason": said.stderr.strip() or f"blocked by the hook {hook.command}"}
    if said.exit_code:
        warn(f"the {hook.event} hook {hook.command!r} failed with exit code {said.exit_code}: {said.stderr.strip()}")
        return {}
    return _answer(hook, said.stdout)


def _answer(hook: CommandHook, text: str) -> dict[str, Any]:
    """JSON, or plain text, which for a prompt hook is added for the model."""
    try:
        answer = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        answer = None
    if isinstance(answer, dict):
        return answer
    if hook.event == "UserPromptSubmit" and text.strip():
        return {"hookSpecificOutput": {"additionalContext": text.strip()}}
    return {}
