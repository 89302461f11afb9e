"""The kinds of subagents, and what one is told to do."""

from collections.abc import Iterable
from typing import Literal, TypeAlias

import msgspec

from treadle.errors import NotFound
from treadle.events import Task
from treadle.session import Mode, SessionSpec, Start, Subagent, Toolset

Isolation: TypeAlias = Literal["none", "worktree"]


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """What one subagent has to do, and how."""

    prompt: str
    label: str
    agent_type: str | None = None
    model: str | None = None
    """None: the model of the session that starts it."""
    isolation: Isolation = "none"
    id: str | None = None
    """The id of its task; None: the next number."""
    call: str | None = None
    """The tool call that starts it."""


AgentType: TypeAlias = Subagent

READING = ("read_file", "glob", "grep", "web_fetch")
AGENT_TYPES = {
    kind.name.lower(): kind
    for kind in (
        AgentType(
            name="general-purpose",
            description="researches and carries out a task of several steps",
            prompt="You carry out one task for another agent. Your last message is all it will see: make it complete.",
        ),
        AgentType(
            name="Explore",
            description="finds and reads code; changes nothing",
            prompt="You explore code for another agent and change nothing. Answer with what you found, and where.",
            tools=READING,
        ),
        AgentType(
            name="Plan",
            description="reads and plans; changes nothing",
            prompt="You plan a change for another agent and change nothing. Answer with steps and their files.",
            tools=READING,
        ),
    )
}


def kinds(more: Iterable[Subagent] = ()) -> dict[str, Subagent]:
    """Ours and further ones, by name in lower case; a further one replaces ours of the same name."""
    return {**AGENT_TYPES, **{kind.name.lower(): kind for kind in more}}


def find_type(name: str | None, known: dict[str, Subagent] | None = None) -> Subagent:
    known = AGENT_TYPES if known is None else known
    kind = known.get((name or "general-purpose").lower())
    if kind is None:
        names = ", ".join(kind.name for kind in known.values())
        raise NotFound(f"there is no agent type {name!r}", hint=f"the types are {names}")
    return kind


def as_main(spec: SessionSpec, kind: Subagent) -> SessionSpec:
    """The spec of a conversation that itself has this kind's prompt, tools and model.

    What was asked for beside it wins; of tools, those that both name are offered.
    """
    tools, instructions = spec.tools, spec.instructions
    offered = next((names for names in (kind.tools, tools.offered) if names is not None), None)
    if kind.tools is not None and tools.offered is not None:
        offered = tuple(name for name in kind.tools if name in tools.offered)
    return msgspec.structs.replace(
        spec,
        model=spec.model or kind.model,
        instructions=msgspec.structs.replace(instructions, system=instructions.system or kind.prompt),
        tools=msgspec.structs.replace(tools, offered=offered, denied=(*tools.denied, *kind.denied)),
        limits=msgspec.structs.replace(spec.limits, max_iterations=spec.limits.max_iterations or kind.max_turns),
    )


def child_spec(
    spec: SessionSpec, kind: AgentType, task: Task, tools: tuple[str, ...], mode: Mode | None
) -> SessionSpec:
    """What a subagent's session is opened with; `mode` is the mode of its parent now."""
    return msgspec.structs.replace(
        spec,
        cwd=task.cwd,
        tools=Toolset(offered=tools),
        limits=msgspec.structs.replace(spec.limits, max_iterations=kind.max_turns or spec.limits.max_iterations),
        instructions=msgspec.structs.replace(spec.instructions, append=kind.prompt),
        start=Start(persist=False, name=spec.start.name),
        mode=mode,
    )
