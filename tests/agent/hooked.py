"""Hooks of a settings file for a tool call."""

from pathlib import Path
from typing import Any

from treadle.agent.hooks import EventHooks
from treadle.session import Use
from treadle.settings.claude import parse

ENV = {"PATH": "/usr/bin:/bin"}


LS = Use(tool="bash", args={"command": "ls"}, kind="execute", command="ls")


def judging(tmp_path: Path, entry: dict[str, Any], event: str = "PreToolUse", **more: Any) -> EventHooks:
    read = parse({"hooks": {event: [{"hooks": [entry]}]}}, "x", "/")
    assert not read.of_hooks.notice and not read.of_hooks.forbids
    return EventHooks(str(tmp_path), read.hooks, env=ENV, **more)


async def verdict(hooks: EventHooks, use: Use = LS) -> Any:
    judge = hooks.program().pre_tool
    assert judge is not None
    return await judge(use)
