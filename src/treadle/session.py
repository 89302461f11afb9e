"""The central contract: what an Agent and a Session promise, and the plain data that they exchange.

Drivers and the native agent implement it; doors, the command line and the fleet use it and nothing else.
This module imports only confinement, events and errors.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from types import NoneType
from typing import Any, Literal, Protocol, TypeAlias, get_args, runtime_checkable

import msgspec

from treadle.confinement import Confinement as Confinement
from treadle.confinement import Mount as Mount
from treadle.confinement import PortGrant as PortGrant
from treadle.confinement import RelayGrant as RelayGrant
from treadle.errors import ConfigError
from treadle.events import AnyEvent, Event, Loss, ToolKind

TurnId: TypeAlias = str
CallId: TypeAlias = str
TaskId: TypeAlias = str
Mode: TypeAlias = Literal["suggest", "auto-edit", "full-auto", "plan", "yolo"]
MODE_ALIASES: dict[str, Mode] = {
    **{"default": "suggest", "acceptedits": "auto-edit", "bypasspermissions": "yolo", "dontask": "suggest"},
    **{"autoedit": "auto-edit", "fullauto": "full-auto", "auto": "full-auto"},
}
"""Other agents' names for the same modes, in lower case."""


def parse_mode(name: str) -> Mode:
    known: dict[str, Mode] = {**{mode: mode for mode in get_args(Mode)}, **MODE_ALIASES}
    if name.lower() in known:
        return known[name.lower()]
    raise ConfigError(f"there is no permission mode {name!r}", hint=f"one of {', '.join(get_args(Mode))}")


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool call would touch, expressed so that rules need not know argument names."""

    tool: str
    kind: ToolKind
    paths: tuple[str, ...] = ()
    """Absolute, with symlinks and `..` already resolved."""
    command: str | None = None
    url: str | None = None
    args: Any = None
    directory: str = ""
    """Where a command starts, if not in the working directory; `command` then begins with a `cd` to it."""
    outside: str = ""
    """Why a command should run outside the sandbox; empty when it need not."""
    confined: bool = False
    """Whether it runs in a sandbox: the kernel decides what it can write, whatever its text seems to write."""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    verdict: Literal["allow", "ask", "deny"]
    reason: str = ""
    by: Literal["rule", "mode", "hook", "person", "nobody", "deadline", "claim"] = "mode"


Guard: TypeAlias = Callable[[Access], Decision]
Writing: TypeAlias = Callable[[tuple[str, ...]], AbstractContextManager[None]]
"""Held around a tool's write to these paths; raises errors.Denied when another process holds them."""
Watching: TypeAlias = Callable[[], Callable[[], None]]
"""Called before a command whose writes are not known; what it returns is called after it, and may raise Denied."""
Holding: TypeAlias = Callable[[], Mapping[str, str]]
"""The files and directories that others hold at this moment, each with who holds it, why and until when."""
Amount: TypeAlias = tuple[int, float | None]
"""Tokens, and what they cost in USD if that is known."""
LONGEST_OUTPUT = 32_000
"""Tokens that a reply is taken for whose request names no limit."""
Calling: TypeAlias = Callable[[Callable[[], Amount], Amount], Awaitable[Callable[[], None]]]
"""Awaited before each call of the model, with a function that tells what the session has used so far, and what this
call may use at most; may end the turn by raising. What it returns is called when that call has ended."""


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """Permission rules such as `Bash(git status*)`, in the dialect of policy/rules.py."""

    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits per turn, except the cost and the token total, which count over the session. None is unlimited."""

    max_iterations: int | None = None
    max_cost_usd: float | None = None
    max_tokens: int | None = None
    max_seconds: float | None = None
    repeats: int = 3


class Instructions(msgspec.Struct, frozen=True, kw_only=True):
    """The instructions that the agent gets before the first prompt."""

    system: str | None = None
    """Replaces the agent's own system prompt."""
    append: str | None = None
    """Added after the system prompt."""
    project: bool = True
    """Whether AGENTS.md, skills, commands, hooks and MCP servers of the person and the project are used."""
    sources: tuple[str, ...] | None = None
    """Of those, and of the rules that allow something: whose are used, `user` and `project`; None is both."""
    skills: tuple[str, ...] | None = None
    """The names of the skills that are offered; None is all that are found."""
    commands: bool = True  # whether commands of files are offered
    plugins: tuple[str, ...] = ()
    """Directories of plugins in Claude Code's form: their skills, commands and subagents are offered as PLUGIN:NAME."""

    def uses(self, source: Literal["user", "project"]) -> bool:
        return self.project and (self.sources is None or source in self.sources)


Effort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


class Reasoning(msgspec.Struct, frozen=True, kw_only=True):
    """How much a model thinks before it answers. If nothing is given, the settings for the model apply."""

    effort: Effort | None = None
    tokens: int | None = None
    """At most this many thinking tokens, where the service takes a number; 0 turns thinking off."""


class Subagent(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of subagent that the agent can delegate work to."""

    name: str
    description: str
    prompt: str
    tools: tuple[str, ...] | None = None
    """None: all tools that the agent itself has."""
    denied: tuple[str, ...] = ()
    model: str | None = None
    max_turns: int | None = None


class Toolset(msgspec.Struct, frozen=True, kw_only=True):
    offered: tuple[str, ...] | None = None
    """Names of the tools offered; None is all of them, () is none."""
    denied: tuple[str, ...] = ()
    servers: dict[str, dict[str, Any]] = {}
    """Further MCP servers, each in the form of a `.mcp.json`."""
    only_servers: bool = False
    """Whether those are the only servers."""
    later: bool = False
    """Whether servers may connect after the session is open; the first turn waits for them."""


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """Which conversation to start: a new one, a resumed one, or a copy of one."""

    resume: str | None = None
    """The id of the session to resume; "" is the newest of this directory."""
    fork: bool = False
    at: str = ""
    """The uuid of a line of the session: what came after it is left out. For our own agent."""
    id: str | None = None
    name: str | None = None
    persist: bool = True
    handover: str = ""
    """What the agent is told before its first prompt: what another one has left (`sessions/handover.py`)."""


class Guards(msgspec.Struct, frozen=True, kw_only=True):
    """Restrictions from outside the session, such as claims. The native agent asks each at its own moment."""

    judge: Guard | None = None
    """Another guard beside the rules and the mode; the strictest wins."""
    writing: Writing | None = None
    watching: Watching | None = None
    holding: Holding | None = None
    """What a sandbox keeps read-only, beside what the rules say."""
    calling: Calling | None = None


class Use(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call, as a program's hooks see it."""

    tool: str
    args: Any
    kind: ToolKind
    paths: tuple[str, ...] = ()
    command: str | None = None
    directory: str = ""
    call: CallId = ""
    exit_code: int | None = None
    agent: TaskId = ""
    """The subagent that makes the call; empty when it is the agent itself."""
    agent_type: str = ""
    duration_ms: int | None = None
    did: tuple[Event, ...] = ()
    """After it ran: CommandRun and FileChanged of the call; and above, how long it took."""


class ShownResult(msgspec.Struct, frozen=True, kw_only=True):
    """A tool's result that is more than text."""

    text: str
    images: tuple[bytes, ...] = ()
    """PNG, JPEG, GIF or WebP."""


class OwnTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that runs in the process of the program that opened the session."""

    name: str
    description: str
    parameters: dict[str, Any]
    """JSON Schema of the arguments object."""
    call: Callable[[dict[str, Any]], Awaitable[str | ShownResult]]
    """Returns the result for the model; raises errors.ToolError for a failure that the model should read."""
    kind: ToolKind = "other"


class HookVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What a program's hook says about a call before anything else has judged it, or about another event."""

    decision: Literal["allow", "ask", "deny", ""] = ""
    """allow: no one need be asked, but forbidden stays forbidden; ask: a person must be asked; empty: no opinion."""
    reason: str = ""
    args: Any = None
    """Replaces the arguments of the call; None leaves them."""
    context: str = ""
    """Text that the model reads in addition."""
    result: str | None = None
    """After a call: what the model reads in place of its result; None leaves it."""


class OwnProgram(msgspec.Struct, frozen=True, kw_only=True):
    """What the program that opens a session adds from its own process. Our agent and Claude Code support it."""

    tools: tuple[OwnTool, ...] = ()
    pre_tool: Callable[[Use], Awaitable[str | HookVerdict | None]] | None = None
    """A reason to block the call, or None; a HookVerdict can say more."""
    post_tool: Callable[[Use, str, bool], Awaitable[str | HookVerdict | None]] | None = None
    """Called with the result and whether it succeeded; returns text for the model, or a HookVerdict."""
    stop: Callable[[str, str], Awaitable[str | None]] | None = None
    """Called with a turn's outcome and final text. Our own agent continues a completed turn with what it returns."""
    event: Callable[[str, dict[str, Any]], Awaitable[HookVerdict | None]] | None = None
    """Called by our own agent with further events, by Claude Code's names: PermissionRequest, SubagentStart ..."""


class ModelWire(msgspec.Struct, frozen=True, kw_only=True):
    """How an outside agent's model is reached, and where its key is."""

    way: Literal["gateway", "direct"] = "direct"
    """gateway: through our process, which counts and limits; direct: by the agent itself."""
    key: Literal["outside", "inside"] = "inside"
    """outside: the agent and what it starts cannot read it."""
    why: str = ""
    """Why the key is inside."""
    claimed: dict[str, int | float | None] = {}
    """What the agent says that it used, where what passed was counted and is what `Usage` reports."""


class SessionSpec(msgspec.Struct, frozen=True, kw_only=True):
    cwd: str
    model: str | None = None
    instructions: Instructions = Instructions()
    tools: Toolset = Toolset()
    env: dict[str, str] = {}
    inherit_env: bool = False
    """Whether tools see the whole environment of the caller, less secrets; if not, an allow-list of it."""
    looks_freely: bool = False
    """Whether commands that only look run without a question; a worker's client decides about every command."""
    rules: Rules = Rules()
    mode: Mode | None = "suggest"
    """None: no mode decides, and whatever no rule forbids is allowed."""
    limits: Limits = Limits()
    add_dirs: tuple[str, ...] = ()
    start: Start = Start()
    answers: bool = False
    """Whether anybody can answer questions. If not, anything that would be asked is denied with that reason."""
    answer_seconds: float | None = None
    """How long a question waits for an answer; None: as the settings say."""
    guards: Guards = Guards()
    program: OwnProgram = OwnProgram()
    thinking: Reasoning = Reasoning()
    subagents: tuple[Subagent, ...] = ()
    """Further kinds of subagent; one with the name of an existing kind replaces it."""
    confinement: Confinement = Confinement()
    """What the caller asks for; what opens the session adds its workspace, its rules and what the agent needs."""
    model_wire: Literal["auto", "gateway", "direct"] = "auto"
    """How an outside agent reaches its model. auto: as the settings say, else through our gateway where that can be."""
    record: str = ""
    """The id under which an outside agent's model calls are stored, for a replay; empty: they are not."""
    replay: object = None
    """A record (`gateway.recording.CallReplay`) that answers in place of the model's service."""
    trusted: bool = False
    """Whether project files may widen what is allowed, not only narrow it."""
    routine: tuple[str, ...] = ()  # abilities that every session asks for alike: an agent without one warns
    extra: dict[str, Any] = {}
    """Settings that only one agent understands."""

    def __post_init__(self) -> None:
        """Refuse a wrong value where it is given, not deep inside when it is used."""
        for field, kind in _KINDS.items():
            if not isinstance(value := getattr(self, field), kind):
                wanted = " or ".join(one.__name__ for one in kind) if isinstance(kind, tuple) else kind.__name__
                raise ConfigError(f"SessionSpec.{field} must be {wanted}, not {type(value).__name__}: {value!r:.60}")
        if self.mode is not None and self.mode not in get_args(Mode):
            msgspec.structs.force_setattr(self, "mode", parse_mode(self.mode))

    @classmethod
    def of(cls, **options: Any) -> SessionSpec:
        """A spec from plain options, each put in its group: `SessionSpec.of(cwd=".", resume=id, tools=("bash",))`."""
        grouped: dict[str, dict[str, Any]] = {}
        for option, (group, field) in _GROUPED.items():
            if option in options:
                grouped.setdefault(group, {})[field] = options.pop(option)
        groups = {name: _GROUPS[name](**fields) for name, fields in grouped.items()}
        return cls(**groups, **options)


_KINDS: dict[str, type | tuple[type, ...]] = {"cwd": str, "model": (str, NoneType), "env": dict}
_KINDS |= {"mode": (str, NoneType), "rules": Rules, "limits": Limits, "add_dirs": tuple, "subagents": tuple}
_KINDS |= {"tools": Toolset, "start": Start, "guards": Guards, "program": OwnProgram, "thinking": Reasoning}
_KINDS |= {"confinement": Confinement, "instructions": Instructions}
_GROUPS: dict[str, Callable[..., Any]] = {"instructions": Instructions, "tools": Toolset, "start": Start}
_GROUPED = {"system_prompt": ("instructions", "system"), "append_system_prompt": ("instructions", "append")}
_GROUPED |= {"project": ("instructions", "project"), "tools": ("tools", "offered"), "denied_tools": ("tools", "denied")}
_GROUPED |= {"resume": ("start", "resume"), "fork": ("start", "fork"), "session_id": ("start", "id")}
_GROUPED |= {"name": ("start", "name"), "persist": ("start", "persist")}


NOT_SEALED = "what it starts is not confined, and can write your git repository and our records"


class AgentInfo(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    version: str = ""
    models: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    capabilities: dict[str, Literal["native", "emulated", "unsupported"]] = {}
    """Such as streaming, tools, steer, resume. `guards` is native if `SessionSpec.guards.judge` is asked first."""
    mode: Mode | None = None
    key_source: str = ""
    """The variable that its key came from, or `settings`; empty when it has none or that is unknown."""
    mcp_servers: dict[str, Literal["connected", "failed", "disabled", "pending"]] = {}
    subagents: tuple[str, ...] = ()
    """The kinds of subagent that it can start."""
    losses: dict[str, Loss] = {}
    """What it cannot report, by event or `Event.field`."""
    context_window: int | None = None
    """How many tokens a conversation may have; None when unknown."""
    context_used: int | None = None
    """How many tokens of that the last model call took; None when unknown."""
    sealed: bool | None = None
    """Whether all that it started can write neither our state nor the user's repository; None: nothing was started."""
    reaches: tuple[str, ...] | None = None
    """The hosts that it can reach, if the whole of it is confined to some."""
    wire: ModelWire | None = None
    """How its model is reached; None for our own agent, which has the key itself."""


class CommandInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The description of a slash command."""

    name: str
    description: str = ""
    arguments: str = ""
    skill: bool = False


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    source: Literal["user", "agent", "task"] = "user"
    verbatim: bool = False
    """Whether it is for the model as it stands. An outside agent that cannot be told so refuses a leading slash."""
    images: tuple[bytes, ...] = ()
    """PNG, JPEG, GIF or WebP, for an agent whose `capabilities` have `images`; others refuse the prompt."""
    documents: tuple[bytes, ...] = ()  # PDFs, for our own agent and a service that takes them; others refuse the prompt


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    decision: Literal["allow", "deny"]
    text: str = ""
    scope: Literal["once", "session", "always"] = "once"
    changed_args: Any = None
    by: str = "person"


class CommandResult(msgspec.Struct, frozen=True, kw_only=True):
    message: str
    ok: bool = True
    turn: TurnId | None = None
    """The turn that the command started, if any; the real result is then that turn's TurnEnded."""
    data: dict[str, Any] = {}


class Change(msgspec.Struct, frozen=True, kw_only=True):
    model: str | None = None
    mode: Mode | None = None
    thinking: Reasoning | None = None


class EventReader(Protocol):
    """One reader's position in a session's events. Dropping the object ends it."""

    def __aiter__(self) -> AsyncIterator[AnyEvent]: ...

    async def __anext__(self) -> AnyEvent: ...

    async def batch(self) -> list[AnyEvent]:
        """All events that are there now, at least one; empty only when the session has closed. Cheaper per event."""
        ...

    def ready(self) -> list[AnyEvent]:
        """The events that are there now, without waiting; possibly none."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class Session(Protocol):
    """One conversation. Failures of a turn are events; only misuse of the session itself raises."""

    @property
    def id(self) -> str: ...

    @property
    def info(self) -> AgentInfo: ...

    def events(self, after: int = 0, *, observer: bool = False) -> EventReader:
        """Events with seq > after, then live ones until the session closes; after=-1 is from now on.

        A reader is lossless: the session waits for it. An observer is never waited for: when it falls behind, the
        oldest events are dropped for it and a Warned with code `gap` says how many.
        """
        ...

    async def prompt(self, prompt: Prompt) -> TurnId:
        """Run this now, or queue it behind the running turn; raises Busy when the queue is full."""
        ...

    async def steer(self, turn: TurnId, text: str) -> bool:
        """Give the agent a text before its next step; False when the turn has none left. Raises Unsupported."""
        ...

    def commands(self) -> list[CommandInfo]:
        """The slash commands that are available now."""
        ...

    async def command(self, name: str, args: str) -> CommandResult | None:
        """Run a slash command; None when there is no such command."""
        ...

    async def answer(self, request: str, answer: Answer) -> None:
        """Answer an Asked; raises NotFound when it is no longer open.

        Changed arguments that this agent cannot take make it a denial, which a Warned `changed_input` reports.
        """
        ...

    async def interrupt(self, target: TurnId | CallId | TaskId, reason: str = "") -> None:
        """End that turn, tool call or task, running or queued. Unknown targets are ignored.

        A command is named as it is typed, `/NAME`; its result is what it has reached so far.
        """
        ...

    async def configure(self, change: Change) -> None:
        """Change the model, mode or effort. Raises Unsupported."""
        ...

    async def close(self) -> None:
        """End everything; leaves no process, handle or lock behind. Safe to call twice."""
        ...


@runtime_checkable
class Agent(Protocol):
    @property
    def name(self) -> str: ...

    async def probe(self) -> AgentInfo: ...

    async def open(self, spec: SessionSpec) -> Session: ...


class StoredSession(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation that can be resumed, as a list shows it."""

    id: str
    cwd: str
    title: str = ""
    updated: float = 0.0


@runtime_checkable
class Keeping(Protocol):
    """An Agent that can list the conversations it keeps. Not every agent can."""

    async def stored_sessions(self, cwd: str | None = None) -> list[StoredSession]:
        """The conversations of one directory, or all; the latest first."""
        ...


@runtime_checkable
class Remembering(Protocol):
    """A Session that can return what was said before it was opened."""

    def history(self) -> list[Event]:
        """The turns so far: each a TurnStarted, then whole messages and tools."""
        ...


class OfferedModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model that a session can be switched to, by the name that `Change.model` takes."""

    id: str
    name: str = ""
    description: str = ""


class ModelMenu(msgspec.Struct, frozen=True, kw_only=True):
    current: str
    """Empty when it is unknown."""
    offered: tuple[OfferedModel, ...] = ()


@runtime_checkable
class Choosing(Protocol):
    """A Session that knows which models it can be switched to."""

    async def menu(self) -> ModelMenu: ...
