"""The options of `query`, `run` and `open`, typed: a type checker refuses a wrong name and a wrong value."""

import os
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias, TypedDict

from treadle.events import Asked
from treadle.session import (
    Agent,
    Answer,
    Confinement,
    Guards,
    Instructions,
    Limits,
    Mode,
    OwnTool,
    Reasoning,
    Rules,
    Start,
    Subagent,
    Use,
)

OnAsk: TypeAlias = Callable[[Asked], "Answer | bool | str | None | Awaitable[Answer | bool | str | None]"]
"""Answers a question of the agent: an Answer; True or False; a text (an answer, or the reason for a no); None is no."""


class SessionOptions(TypedDict, total=False):
    """`docs/reference/python-api.md` explains each; all but the first group are fields of SessionSpec."""

    agent: str | Agent
    cwd: str | os.PathLike[str]
    tools: Sequence[str | OwnTool | Callable[..., Any]] | None
    on_ask: OnAsk | None
    pre_tool: Callable[[Use], Any] | None
    post_tool: Callable[[Use, str, bool], Any] | None
    stop: Callable[[str, str], Any] | None

    model: str | None
    mode: Mode | None
    rules: Rules
    limits: Limits
    env: dict[str, str]
    inherit_env: bool
    looks_freely: bool
    add_dirs: tuple[str, ...]
    answer_seconds: float | None
    guards: Guards
    thinking: Reasoning
    subagents: tuple[Subagent, ...]
    confinement: Confinement
    trusted: bool
    routine: tuple[str, ...]
    extra: dict[str, Any]
    instructions: Instructions
    start: Start

    system_prompt: str | None
    append_system_prompt: str | None
    project: bool
    denied_tools: tuple[str, ...]
    resume: str | None
    fork: bool
    session_id: str | None
    name: str | None
    persist: bool
