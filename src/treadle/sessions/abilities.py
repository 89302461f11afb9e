"""What an agent can be asked for, and the one place that refuses what its card does not declare.

Every card gives a level for each of ABILITIES. What is `unsupported`, or not on the card at all, is refused with the
reason before anything is said to the agent: by `check` when a session is opened, and by BaseSession while it lasts.
Only what a door or the settings ask for in every session alike (`SessionSpec.routine`) is warned about instead.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from treadle.errors import Unsupported
from treadle.session import Answer, Limits, Reasoning, SessionSpec
from treadle.wire.common.jsontext import dumps

WORDS = 4000
"""At most this many characters of a changed input are repeated to the model."""


class Ability(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    what: str
    """What it is, for the docs."""
    refusal: str = ""
    """What an agent without it cannot do, after its name. Empty: nothing to refuse, it only reports less."""
    hint: str = ""
    wanted: Callable[[SessionSpec], bool] | None = None
    """Whether a session that is about to be opened asks for it."""
    routine: str = ""
    """Where every session asks for it, so that a warning takes the place of the refusal; empty: nowhere."""


_IN_PROCESS = "native and claude can"
_SECONDS = "limit the seconds instead"
_TUNING = ("context_tokens", "output_style", "language", "retries", "give_up_after")
"""What `SessionSpec.extra` may say of our own agent alone; how chat and worker use it is not asked for by a person."""
_TOOLSETS = "native, claude and pi"
_ALL = (
    Ability(name="streaming", what="text as it is written"),
    Ability(name="thinking", what="its reasoning"),
    Ability(name="tools", what="calls of tools"),
    Ability(name="results", what="results of tools"),
    Ability(name="file_changes", what="changed files with a diff"),
    Ability(name="permissions", what="it asks before it acts"),
    Ability(
        name="rules",
        what="our rules, and the mode plan, judge what it asks about",
        refusal="is not bound by our rules and modes",
        hint="leave out the rules and the mode plan, or choose an agent that is bound by them",
        wanted=lambda spec: spec.mode == "plan" or bool(spec.rules.deny or spec.rules.ask),
        routine="from the settings",
    ),
    Ability(
        name="sandbox",
        what="it and its programs can be sandboxed",
        refusal="cannot be confined from here",
        hint="leave out --sandbox, or give --no-sandbox where the settings ask for one",
        wanted=lambda spec: spec.confinement.use == "on",
        routine="where only the mode asks for a sandbox",
    ),
    Ability(name="questions", what="it asks questions of its own"),
    Ability(name="tasks", what="background tasks, which can be stopped", refusal="has no tasks to stop"),
    Ability(name="commands", what="slash commands"),
    Ability(
        name="changed_input",
        what="approval of a call with another input",
        refusal="cannot run a call with another input than it asked for",
    ),
    Ability(
        name="steer",
        what="messages while it works",
        refusal="cannot be given a message while it works",
        hint="send it as the next prompt, or interrupt the turn first",
    ),
    Ability(
        name="interrupt",
        what="a turn can be stopped",
        refusal="cannot be stopped during a turn",
        hint="close the session",
    ),
    Ability(
        name="interrupt_call",
        what="one tool call can be stopped",
        refusal="cannot stop a single call",
        hint="interrupt the turn",
    ),
    Ability(
        name="images",
        what="images in a prompt",
        refusal="accepts no images",
        hint="leave them out, name them by their paths in the text, or choose an agent that takes them",
    ),
    Ability(
        name="model",
        what="choice of the model",
        refusal="cannot be told which model to use",
        hint="set it in the agent's own settings",
        wanted=lambda spec: bool(spec.model),
    ),
    Ability(
        name="switch_model",
        what="change of the model during a session",
        refusal="cannot change its model during a session",
        hint="open a new session with that model",
    ),
    Ability(
        name="mode",
        what="change of the mode during a session",
        refusal="cannot change its mode during a session",
        hint="open a new session in that mode",
    ),
    Ability(
        name="effort",
        what="how much it thinks",
        refusal="cannot be told how much to think",
        hint="set it in the agent's own settings",
        wanted=lambda spec: spec.thinking != Reasoning(),
    ),
    Ability(
        name="fork",
        what="continues a copy of a session",
        refusal="cannot fork a session",
        wanted=lambda spec: spec.start.fork,
    ),
    Ability(
        name="resume",
        what="continues an earlier session",
        refusal="cannot resume an earlier session",
        wanted=lambda spec: spec.start.resume is not None,
    ),
    Ability(
        name="resume_at",
        what="continues a session from its middle",
        refusal="cannot continue from the middle of a session",
        hint="the native agent can",
        wanted=lambda spec: bool(spec.start.at),
    ),
    Ability(
        name="session_id",
        what="a chosen id for a new session",
        refusal="chooses the ids of its sessions itself",
        hint="leave it out, and read the id from the result",
        wanted=lambda spec: spec.start.id not in (None, spec.start.resume),
    ),
    Ability(
        name="session_name",
        what="a name for a new session",
        refusal="has no names for its sessions",
        hint="leave it out, and continue with the id in the result",
        wanted=lambda spec: bool(spec.start.name),
    ),
    Ability(
        name="unsaved",
        what="sessions that are not stored",
        refusal="keeps its sessions on disk",
        hint=f"{_IN_PROCESS}, and codex and pi",
        wanted=lambda spec: not spec.start.persist,
        routine="in sessions that are opened only to look at an agent",
    ),
    Ability(
        name="servers",
        what="MCP servers from us",
        refusal="takes no MCP servers",
        hint="put them into the agent's own settings",
        wanted=lambda spec: bool(spec.tools.servers),
    ),
    Ability(
        name="servers_alone",
        what="only those MCP servers",
        refusal="also uses the MCP servers of its own settings",
        hint="remove them there, or leave this out",
        wanted=lambda spec: spec.tools.only_servers,
    ),
    Ability(
        name="sources",
        what="choice of its settings files: user, project, none",
        refusal="uses its own settings files, whichever are named",
        wanted=lambda spec: spec.instructions.sources is not None,
        routine="under Claude's SDKs",
    ),
    Ability(
        name="bare",
        what="without the project's AGENTS.md, skills, hooks, MCP servers",
        refusal="reads the project's AGENTS.md, skills and settings by itself",
        hint=_IN_PROCESS,
        wanted=lambda spec: not spec.instructions.project,
    ),
    Ability(
        name="plugins",
        what="Claude Code's plugins",
        refusal="takes no plugins",
        hint=_IN_PROCESS,
        wanted=lambda spec: bool(spec.instructions.plugins),
    ),
    Ability(
        name="toolset",
        what="choice of its tools",
        refusal="keeps all of its tools, whichever are chosen",
        hint="deny what it must not do with --disallowedTools, choose a mode, or an agent that can: " + _TOOLSETS,
        wanted=lambda spec: spec.tools.offered is not None or bool({*spec.tools.denied} - {"ask_user"}),
        routine="over the worker protocol, if the tools that write and run are among them",
    ),
    Ability(
        name="add_dirs",
        what="further directories",
        refusal="works in no directory but its own",
        hint="start it in a directory above them",
        wanted=lambda spec: bool(spec.add_dirs),
        routine="from the settings",
    ),
    Ability(
        name="system_prompt",
        what="a system prompt",
        refusal="takes no system prompt",
        wanted=lambda spec: spec.instructions.system is not None or spec.instructions.append is not None,
    ),
    Ability(
        name="structured_output",
        what="an answer that fits a JSON schema",
    ),
    Ability(
        name="subagents",
        what="further kinds of subagent",
        refusal="cannot be given subagents",
        hint=_IN_PROCESS,
        wanted=lambda spec: bool(spec.subagents),
    ),
    Ability(
        name="skills",
        what="choice of its skills",
        refusal="cannot be told which skills to offer",
        hint=_IN_PROCESS,
        wanted=lambda spec: spec.instructions.skills is not None,
    ),
    Ability(
        name="hooks",
        what="hooks of the program that opens the session",
        refusal="cannot run hooks of a program",  # they may be there to forbid something
        hint=_IN_PROCESS,
        wanted=lambda spec: any((spec.program.pre_tool, spec.program.post_tool, spec.program.event)),
    ),
    Ability(
        name="own_tools",
        what="tools of that program",
        refusal="cannot use tools of a program",
        hint=_IN_PROCESS,
        wanted=lambda spec: bool(spec.program.tools),
    ),
    Ability(
        name="usage",
        what="tokens, which can be limited",
        refusal="does not count tokens, so a token limit cannot be enforced",
        hint=_SECONDS,
        wanted=lambda spec: spec.limits.max_tokens is not None,
    ),
    Ability(
        name="cost",
        what="costs, which can be limited",
        refusal="does not report its costs, so a cost limit cannot be enforced",
        hint=_SECONDS,
        wanted=lambda spec: spec.limits.max_cost_usd is not None,
    ),
    Ability(
        name="iterations",
        what="model calls, which can be limited",
        refusal="does not count its model calls, so a limit on them is not enforced",
        hint=_SECONDS,
        wanted=lambda spec: spec.limits.max_iterations is not None,
        routine="from the settings, and over the worker protocol",
    ),
    Ability(
        name="repeats",
        what="an end to repeated calls",
        refusal="is not watched for repeating itself, so limits.repeats has no effect",
        hint="limit the seconds or the cost",
        wanted=lambda spec: spec.limits.repeats != Limits().repeats,
        routine="from the settings",
    ),
    Ability(
        name="tuning",
        what="`--autocompact`, `--retries`, an output style and a language can be set",
        refusal="takes no --autocompact, --retries, --give-up-after, output style or language: only ours does",
        hint="leave them out, or use the agent's own settings",
        wanted=lambda spec: any(spec.extra.get(name) not in (None, "", "off") for name in _TUNING),
    ),
)
ABILITIES: dict[str, Ability] = {ability.name: ability for ability in _ALL}


def can(levels: Mapping[str, Any], ability: str) -> bool:
    """Whether this is declared. What a card does not say, the agent cannot do."""
    return levels.get(ability, "unsupported") in ("native", "emulated")


def require(name: str, levels: Mapping[str, Any], ability: str) -> None:
    """Raise Unsupported, with the reason, unless the agent of this name declares it."""
    if not can(levels, ability):
        known = ABILITIES[ability]
        raise Unsupported(f"{name} {known.refusal}", hint=known.hint, details={"ability": ability})


def check(name: str, levels: Mapping[str, Any], spec: SessionSpec) -> None:
    """Refuse a session that asks for what this agent cannot do."""
    for ability in _missing(levels, spec):
        if ability.name not in spec.routine:
            require(name, levels, ability.name)


def gaps(name: str, levels: Mapping[str, Any], spec: SessionSpec) -> list[str]:
    """What is asked for in every session, and this agent does not do: for warnings."""
    return [f"{name} {ability.refusal}" for ability in _missing(levels, spec) if ability.name in spec.routine]


def narrowed(name: str, card: Mapping[str, Any], levels: Mapping[str, Any], spec: SessionSpec) -> list[str]:
    """Check a session once more whose agent can do less than its card, as it turned out; the further gaps."""
    lacking = {**dict.fromkeys(ABILITIES, "native"), **{each: levels[each] for each in levels if can(card, each)}}
    check(name, lacking, spec)
    return gaps(name, lacking, spec)


def effort_of(name: str, wanted: Reasoning, offered: tuple[str, ...]) -> str | None:
    """How much it is to think, of the efforts that this agent knows; None: as its own settings say."""
    if wanted.tokens is not None or wanted.effort not in (None, *offered):
        asked = wanted.effort if wanted.tokens is None else f"of {wanted.tokens} tokens"
        raise Unsupported(
            f"{name} does not support the effort {asked}",
            hint=f"it supports {', '.join(offered)}",
            details={"ability": "effort"},
        )
    return wanted.effort


def changed_effort(name: str, wanted: Reasoning, offered: tuple[str, ...]) -> str:
    """The same during a session, in which an agent that was told an effort cannot be told to forget it."""
    effort = effort_of(name, wanted, offered)
    if effort is None:
        raise Unsupported(
            f"{name} cannot go back to the effort of its settings during a session",
            hint=f"name one of {', '.join(offered)}, or open a new session",
            details={"ability": "effort"},
        )
    return effort


def _missing(levels: Mapping[str, Any], spec: SessionSpec) -> Iterator[Ability]:
    for ability in _ALL:
        if ability.wanted is not None and ability.wanted(spec) and not can(levels, ability.name):
            yield ability


def instead_of_changed(name: str, answer: Answer) -> Answer:
    """The denial that takes the place of an approval with another input, with the words for the model."""
    changed = dumps(answer.changed_args)
    changed = changed if len(changed) <= WORDS else f"{changed[:WORDS]}..."
    added = f" They added: {answer.text}" if answer.text else ""
    return Answer(
        decision="deny",
        text=f"This call did not run. It was approved only with another input, and {name} cannot change the input of a "
        f"call. To do what was approved, make a new call with exactly this input: {changed}{added}",
        by=answer.by,
    )
