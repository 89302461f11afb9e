"""Subagents as Claude Code defines them, in `--agents` and in `initialize`."""

from typing import Any

from treadle.errors import ConfigError
from treadle.session import Subagent
from treadle.wire.oneshot.arguments import OURS


def subagent(name: str, entry: Any) -> Subagent:
    if not isinstance(entry, dict) or not isinstance(entry.get("prompt"), str):
        raise ConfigError(
            f"the agent {name!r} has no prompt", hint='write {"NAME": {"description": ..., "prompt": ...}}'
        )
    unusable = [key for key in ("mcpServers", "permissionMode", "memory", "background") if entry.get(key)]
    if unusable:
        raise ConfigError(f"the agent {name!r} asks for {', '.join(unusable)}, which subagents do not have here")
    tools = _names(entry.get("tools"))
    model = entry.get("model")
    return Subagent(
        name=name,
        description=str(entry.get("description") or ""),
        prompt=entry["prompt"],
        tools=tools or None,
        denied=_names(entry.get("disallowedTools")),
        model=None if model in (None, "inherit") else str(model),
        max_turns=entry.get("maxTurns") if type(entry.get("maxTurns")) is int else None,
    )


def _names(value: Any) -> tuple[str, ...]:
    words = value.split(",") if isinstance(value, str) else value or ()
    return tuple(OURS.get(word.strip(), word.strip()) for word in words if isinstance(word, str) and word.strip())
