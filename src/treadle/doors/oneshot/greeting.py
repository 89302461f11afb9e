"""What a host says first: its `initialize` decides how the session of any agent is opened; and `--json-schema`."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import msgspec

from treadle.errors import ConfigError, MissingExtra, RemoteProtocolError, TreadleError, Unsupported
from treadle.events import Usage
from treadle.io.files import opened
from treadle.io.link import Link
from treadle.session import Instructions, OwnTool, Session, SessionSpec, Subagent, TurnId
from treadle.wire.oneshot import records as wire
from treadle.wire.oneshot.arguments import subagent

if TYPE_CHECKING:
    from treadle.agent.hooks import HookStep
    from treadle.agent.toolbox import ServersChanged


# What a host may want of a session beyond the contract: the native agent offers it, a driven agent need not.


@runtime_checkable
class Extensible(Protocol):
    """A Session that can use tools inside its host's process."""

    async def add_tools(self, tools: tuple[OwnTool, ...]) -> None:
        """Call this before the first prompt."""
        ...


@runtime_checkable
class Adaptable(Protocol):
    """A Session whose host may configure more after it was opened, before the first prompt."""

    def adapt(self, *, instructions: Instructions | None = None, subagents: tuple[Subagent, ...] = ()) -> None:
        """Replace the instructions by these; add these subagents."""
        ...

    def add_rule(self, verdict: str, rule: str) -> None:
        """Add a permission rule for the rest of the session; the verdict is allow, ask or deny."""
        ...

    def context_parts(self) -> list[tuple[str, int]]:
        """What fills the context window now, with approximate tokens."""
        ...

    def restore_files(self, turn: TurnId) -> list[str]:
        """Restore every file that `turn` or a later one changed with a tool. Returns their paths."""
        ...

    def reserve_tool(self, name: str, *, there: bool) -> Callable[[dict[str, Any]], Awaitable[str]]:
        """A tool of an MCP server for the host and not for the model. With `there`, NotFound if it is missing."""
        ...

    async def switch_server(self, name: str, *, on: bool) -> None:
        """Offer the tools of an MCP server, reconnecting to it, or hide them. Raises NotFound."""
        ...

    async def set_servers(self, servers: dict[str, Any]) -> ServersChanged:
        """Have exactly these MCP servers beside those that the session was opened with."""
        ...

    async def judge(self, instructions: str, question: str, model: str) -> str:
        """What a model says to the question of a hook; empty: the session's own model."""
        ...

    def every_rule(self) -> list[tuple[str, str]]:
        """The permission rules that hold now, each with its verdict."""
        ...

    def place(self) -> str:
        """The directory that the session works in."""
        ...

    def may_read(self, path: str) -> bool:
        """Whether the agent may read this file without a question."""
        ...

    def earlier_usage(self) -> list[Usage]:
        """What the model services have counted so far, also before this session was resumed."""
        ...

    def begin_prompt(self) -> None:
        """A prompt of the host comes: hooks are told the same id until the next one."""
        ...

    def watch_hooks(self, watch: Callable[[HookStep], None]) -> None:
        """Tell when a command of a hook of the settings begins and ends."""
        ...

    def hook_facts(self) -> dict[str, Any]:
        """What every hook is told: session_id, transcript_path, permission_mode."""
        ...


def judge_of(session: Session) -> Callable[[str, str, str], Awaitable[str]] | None:
    return session.judge if isinstance(session, Adaptable) else None


def facts_of(session: Session) -> dict[str, Any]:
    """What a session's hooks are told; of a driven agent we know only its id."""
    return session.hook_facts() if isinstance(session, Adaptable) else {"session_id": session.id, "transcript_path": ""}


# `--json-schema`: the final answer must be JSON that fits a schema, or it is asked for again in the same session.

RETRIES = 2
FENCED = re.compile(r"```(?:json)?\s*\n(.*?)\n?```", re.DOTALL)


class SchemaCheck:
    def __init__(self, schema: Any, where: str = "the schema") -> None:
        try:
            import jsonschema_rs
        except ImportError:
            raise MissingExtra("--json-schema", "schema") from None
        try:
            self._validator = jsonschema_rs.validator_for(schema)
        except (ValueError, TypeError) as error:
            raise ConfigError(f"{where} is not a JSON Schema: {str(error).splitlines()[0]}") from None
        self.schema = schema
        self.retries = RETRIES

    @classmethod
    def load(cls, given: str) -> SchemaCheck:
        """Load a schema from a file, or from the text itself."""
        inline = given.lstrip().startswith(("{", "true", "false"))
        where = "the schema" if inline else given
        try:
            text = given.encode() if inline else _read(given)
            return cls(msgspec.json.decode(text), where)
        except (msgspec.DecodeError, RecursionError) as error:
            raise ConfigError(f"{where} is not valid JSON: {error}") from None

    def instruct(self, spec: SessionSpec) -> SessionSpec:
        """Tell the agent from the beginning what its last message must be."""
        return msgspec.structs.replace(spec, instructions=self.added(spec.instructions))

    def added(self, instructions: Instructions) -> Instructions:
        text = (
            "Your final message must be one JSON value that fits the schema below, and nothing else: no prose, no "
            f"code fence.\n{msgspec.json.encode(self.schema).decode()}"
        )
        before = f"{instructions.append}\n\n" if instructions.append else ""
        return msgspec.structs.replace(instructions, append=before + text)

    def examine(self, text: str) -> tuple[Any, str | None]:
        """The value, or what is wrong with the text."""
        fenced = FENCED.findall(text)
        try:
            value = msgspec.json.decode(fenced[-1] if fenced else text)
        except (msgspec.DecodeError, RecursionError) as error:
            return None, f"it is not JSON: {error}"
        for fault in self._validator.iter_errors(value):
            place = "/".join(map(str, fault.instance_path)) or "the value"
            return None, f"{place}: {fault.message}"
        return value, None

    def again(self, complaint: str) -> str:
        return (
            f"That does not fit the schema: {complaint}. Answer again with one JSON value that fits, and nothing else."
        )


def _read(path: str) -> bytes:
    try:
        with opened(path) as file:
            return file.read()
    except OSError as error:
        raise ConfigError(f"cannot read the schema {path}: {error.strerror}") from None


Heard = wire.Record | RemoteProtocolError


class HostOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The part of an `initialize` that a session must know when it is opened."""

    instructions: Instructions | None = None
    subagents: tuple[Subagent, ...] = ()
    check: Any = None
    """A SchemaCheck for final answers."""

    def of(self, spec: SessionSpec) -> SessionSpec:
        instructions = self.instructions or spec.instructions
        return msgspec.structs.replace(spec, instructions=instructions, subagents=(*spec.subagents, *self.subagents))


def host_options(request: dict[str, Any], before: Instructions) -> HostOptions:
    """Raises what the host must be told: an unreadable option is never ignored."""
    instructions = _instructions(request, before)
    check = None
    if request.get("jsonSchema"):
        check = SchemaCheck(request["jsonSchema"])
        instructions = check.added(instructions or before)
    return HostOptions(instructions=instructions, subagents=_subagents(request.get("agents")), check=check)


async def first_records(link: Link[Heard, Any]) -> list[Heard]:
    """The first records, perhaps with more after them; empty when the host says nothing at all."""
    while (heard := await link.receive()) is not None:
        if heard:
            return list(heard)
    return []


def greeted(records: list[Heard], spec: SessionSpec) -> SessionSpec:
    """The spec with what an `initialize` among these records asks for. What is impossible is refused later."""
    first = records[0] if records else None
    if not isinstance(first, dict) or not isinstance(request := first.get("request"), dict):
        return spec
    if first.get("type") != "control_request" or request.get("subtype") != "initialize":
        return spec
    try:
        return host_options(request, spec.instructions).of(spec)
    except TreadleError:
        return spec


def _instructions(request: dict[str, Any], before: Instructions) -> Instructions | None:
    system, append = request.get("systemPrompt"), request.get("appendSystemPrompt")
    if isinstance(system, list):
        system = "\n\n".join(map(str, system))
    skills = request.get("skills")
    if not system and not append and not isinstance(skills, list):
        return None
    return msgspec.structs.replace(
        before,
        system=system or before.system,
        append=append or before.append,
        skills=tuple(map(str, skills)) if isinstance(skills, list) else before.skills,
    )


def _subagents(agents: Any) -> tuple[Subagent, ...]:
    if not agents:
        return ()
    if not isinstance(agents, dict):
        raise Unsupported(f"agents must be an object, not {type(agents).__name__}")
    return tuple(subagent(name, entry) for name, entry in agents.items())
