"""What a host says first and what it is shown beside the records of a turn.

Its `initialize` decides how the session of any agent is opened; so does `--json-schema`. --verbose,
--include-partial-messages and a host's session store add lines to stream-json.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import msgspec

from treadle import __version__
from treadle.errors import ConfigError, MissingExtra, RemoteProtocolError, TreadleError, Unsupported
from treadle.events import (
    AnyEvent,
    CommandRun,
    ContextCompacted,
    FileChanged,
    Message,
    Retrying,
    TaskChanged,
    TextDelta,
    ThinkingDelta,
    ToolDenied,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    Usage,
    Warned,
)
from treadle.io.files import opened, read_if_there, read_lines, text_if_there
from treadle.io.link import Link
from treadle.session import Instructions, Mode, OwnTool, Session, SessionSpec, Subagent, TurnId
from treadle.wire.oneshot import connection as wire
from treadle.wire.oneshot.arguments import USED, subagent, to_theirs
from treadle.wire.oneshot.connection import LineIds, Record, compact_boundary, compacted, requesting
from treadle.wire.oneshot.content import tool_use_result

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


# The kept conversation, sent to the host as well: its SDK keeps it in a store of its own (`session_store`).


class Mirror:
    def __init__(self, session: Session, where: Callable[[], str] | None = None) -> None:
        """`where`: writes the conversation and says where; else the session is asked."""
        self._where = where or (lambda: str(facts_of(session).get("transcript_path") or ""))
        self._sent: set[bytes] = set()

    def news(self) -> list[Record]:
        """The lines of the conversation that were not sent yet, in one record; none when there are none."""
        path = self._where()
        lines = read_lines(path)[0] if path else []
        new = [line for line in lines if line not in self._sent]
        self._sent.update(new)
        entries: list[Any] = [msgspec.json.decode(line) for line in new]
        return [{"type": "transcript_mirror", "filePath": path, "entries": entries}] if entries else []


class Verbose:
    """`system/init` first, then one `assistant` line per block and one `user` line per tool result."""

    def __init__(
        self,
        session: Session,
        *,
        cwd: str,
        mode: Mode | None = None,
        lines: bool = True,
        partial: bool = False,
        deltas: bool = True,
        subagents: bool = False,
    ) -> None:
        """`mode` is reported for a session that does not report its own. Without `deltas`, words come only as whole
        messages, as an SDK expects that has not asked for partial ones; with `partial` they are in those. `subagents`:
        whether the words of subagents are written, and not only their tools.
        """
        self.subagents = subagents
        self.deltas = deltas and not partial
        self._session = session
        self._cwd = cwd
        self._mode = mode
        self._lines = lines
        self._partial = Partial(session) if partial else None
        self._model = ""
        self._held: list[Message] = []
        """Whole messages whose token counts have not come yet."""
        self._counted = False
        self._ids = LineIds()
        self._reply = wire.MessageHead(session_id=session.id, id="", model="", ids=self._ids)
        self._callers: dict[str, str] = {}
        """The task of a subagent -> the tool call that started it."""
        self._spoken: dict[str, list[str]] = {}
        """The task of a subagent -> what it has said since its last line."""
        self._started: dict[str, ToolStarted] = {}
        self._ran: dict[str, CommandRun] = {}
        self._changed: dict[str, FileChanged] = {}
        self._unfinished: list[str] = []
        """Words of a reply that has not come as a whole: some agents send nothing else, an interrupted one never
        does.
        """

    def begin(self) -> list[wire.Record]:
        self._model = ", ".join(self._session.info.models)
        self._next_message()
        if not self._lines:
            return []
        info, commands = self._session.info, self._session.commands()
        mode = info.mode or self._mode
        return [wire.init_line(info, commands, mode, session_id=self._session.id, cwd=self._cwd, version=__version__)]

    def lines(self, event: AnyEvent) -> list[wire.Record]:
        records = self._partial.lines(event) if self._partial is not None else []
        if not self._lines:
            return records
        if isinstance(event, TurnStarted) and self._partial is not None:
            return [requesting(self._session.id)]
        if event.parent is not None or isinstance(event, TaskChanged):
            return records + self._of_subagent(event)
        return self._conversation(event) + records if isinstance(event, Usage) else records + self._conversation(event)

    def _conversation(self, event: AnyEvent) -> list[wire.Record]:
        match event:
            case TextDelta(text=text):
                self._unfinished.append(text)
                return []
            case Message():
                if event.kind == "text":
                    self._unfinished.clear()
                if self._counted:
                    self._next_message()
                self._held.append(event)  # its cost is known a moment later, and belongs in the same line
                return []
            case Usage():
                if self._counted:
                    self._next_message()
                self._counted = True
                self._reply.usage = wire.usage(
                    input_tokens=event.input_tokens,
                    output_tokens=event.output_tokens,
                    cache_read=event.cache_read_tokens,
                    cache_write=event.cache_write_tokens,
                )
                return self._let_go()
            case ContextCompacted():
                return [compacted(self._session.id), compact_boundary(event, self._session.id)]
            case Warned() if event.code != "gap":
                return [wire.warning_line(event.message, self._session.id)]
            case CommandRun(call=str(call)):
                self._ran[call] = event
            case FileChanged(call=str(call)):
                self._changed[call] = event
            case ToolStarted() | ToolDenied() | ToolEnded() | TurnEnded():
                if isinstance(event, ToolStarted):
                    self._started[event.call] = event
                if self._unfinished:
                    self._held.append(Message(text="".join(self._unfinished)))
                    self._unfinished.clear()
                return self._let_go() + self._lines_of(event)
        return self._lines_of(event)

    def _let_go(self) -> list[wire.Record]:
        held, self._held = self._held, []
        return [line for event in held for line in self._lines_of(event)]

    def _lines_of(self, event: AnyEvent) -> list[wire.Record]:
        if isinstance(event, Message):
            self._reply.model = self._model = event.model or self._model
        lines = [self._reply.use(event), self._reply.denied(event)] if isinstance(event, ToolDenied) else []
        if isinstance(event, ToolEnded):
            line = self._reply.line(event, _images(event), self._detail(event))
        else:
            line = self._reply.line(event)
        return lines if line is None else [*lines, line]

    def _detail(self, ended: ToolEnded) -> Any:
        changed, call = self._changed.pop(ended.call, None), ended.call
        now = text_if_there(changed.path) if changed is not None and changed.change == "modified" else None
        return tool_use_result(ended, self._started.pop(call, None), self._ran.pop(call, None), changed, now)

    def _of_subagent(self, event: AnyEvent) -> list[wire.Record]:
        """The lines of what a subagent does, each with the call that started it. Of ours its tools are shown, and its
        words if they are wanted."""
        shown: AnyEvent = event
        if isinstance(event, TaskChanged):
            if event.task is not None and event.task.call is not None:
                self._callers[event.task_id] = event.task.call
                if event.task.kind == "agent":
                    self._spoken.setdefault(event.task_id, [])
            data = event.data
            if event.change == "text" and self.subagents and event.task_id in self._spoken:
                self._spoken[event.task_id].append(str(data["delta"]))
            elif words := self._words_of(event):
                return [words, *self._of_subagent(event)]
            if event.task_id not in self._callers or "call" not in data:
                return []
            about: dict[str, Any] = {"call": data["call"], "name": str(data["tool"]), "parent": event.task_id}
            if event.change == "tool_start":
                shown = ToolStarted(**about, args=data["args"])
            else:
                shown = ToolEnded(**about, result=data["result"], ok=data["ok"])
        parent = self._callers.get(shown.parent or "", shown.parent)
        reply = wire.MessageHead(session_id=self._session.id, id=_message_id(), model=self._model, parent=parent)
        lines = [reply.use(shown)] if isinstance(shown, ToolDenied) else []
        line = reply.line(shown)
        return lines if line is None else [*lines, line]

    def _words_of(self, event: TaskChanged) -> wire.Record | None:
        """The line of what a subagent said before this event, if it said anything."""
        if event.change not in ("tool_start", "completed", "failed", "cancelled"):
            return None
        words, self._spoken[event.task_id] = "".join(self._spoken.get(event.task_id, ())), []
        parent = self._callers.get(event.task_id)
        reply = wire.MessageHead(session_id=self._session.id, id=_message_id(), model=self._model, parent=parent)
        return reply.line(Message(text=words)) if words.strip() else None

    def _next_message(self) -> None:
        """All blocks of one reply share an id. A reply is its words, if any, its usage, then the tools it asked for."""
        self._reply = wire.MessageHead(session_id=self._session.id, id=_message_id(), model=self._model, ids=self._ids)
        self._counted = False


def _message_id() -> str:
    return f"msg_{wire.new_uuid().replace('-', '')[:20]}"


def _images(event: ToolEnded) -> list[wire.Record]:
    found = [read_if_there(image.path) for image in event.images]
    return [wire.image_block(data) for data in found if data is not None]


class Partial:
    """The raw message events around the deltas, as the Anthropic API sends them.

    The calls of a reply are known when they start, which is after its words are counted: so its end waits for them.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._index = -1
        self._kind = ""
        self._counted: Usage | None = None
        self._called = False

    def lines(self, event: AnyEvent) -> list[wire.Record]:
        if event.parent is not None:
            return []
        match event:
            case ThinkingDelta(text=text):
                delta = {"type": "thinking_delta", "thinking": text}
                return [*self._open("thinking"), self._event("content_block_delta", index=self._index, delta=delta)]
            case TextDelta(text=text):
                delta = {"type": "text_delta", "text": text}
                return [*self._open("text"), self._event("content_block_delta", index=self._index, delta=delta)]
            case Message():
                return self._close_block()
            case Usage():
                records = self._finish()
                self._counted = event
                return records
            case ToolStarted() | ToolDenied() if self._counted is not None:
                return self._call(event)
            case ToolEnded() | TurnEnded():
                return self._finish()
            case Retrying():  # it starts over, with a message of its own
                records = self._close_block()
                self._index = -1
                return records
        return []

    def _call(self, event: ToolStarted | ToolDenied) -> list[wire.Record]:
        self._called = True
        name = USED.get(event.name, event.name)
        given = to_theirs(event.name, event.args) if isinstance(event.args, dict) else {}
        block = {"type": "tool_use", "id": event.call, "name": name, "input": {}}
        records = self._start("tool_use", block)
        delta = {"type": "input_json_delta", "partial_json": msgspec.json.encode(given).decode()}
        return [*records, self._event("content_block_delta", index=self._index, delta=delta), *self._close_block()]

    def _open(self, kind: str) -> list[wire.Record]:
        ended = self._finish() if self._counted is not None else []
        if self._kind == kind:
            return ended
        block = (
            {"type": "text", "text": ""} if kind == "text" else {"type": "thinking", "thinking": "", "signature": ""}
        )
        return [*ended, *self._start(kind, block)]

    def _start(self, kind: str, block: wire.Record) -> list[wire.Record]:
        records = []
        if self._index < 0:
            head: wire.Record = {
                "id": _message_id(),
                "type": "message",
                "role": "assistant",
                "content": [],
                "stop_reason": None,
            }
            model = ", ".join(self._session.info.models)
            message = {**head, "model": model, "stop_sequence": None, "usage": wire.usage()}
            records.append(self._event("message_start", message=message))
        records += self._close_block()
        self._kind = kind
        self._index += 1
        return [*records, self._event("content_block_start", index=self._index, content_block=block)]

    def _close_block(self) -> list[wire.Record]:
        if not self._kind:
            return []
        self._kind = ""
        return [self._event("content_block_stop", index=self._index)]

    def _finish(self) -> list[wire.Record]:
        usage, self._counted = self._counted, None
        called, self._called = self._called, False
        if self._index < 0 or usage is None:
            return []
        records = self._close_block()
        self._index = -1
        delta = {"stop_reason": "tool_use" if called else "end_turn", "stop_sequence": None}
        counts = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
        return [*records, self._event("message_delta", delta=delta, usage=counts), self._event("message_stop")]

    def _event(self, kind: str, **fields: object) -> wire.Record:
        body = wire.stream_event({"type": kind, **fields}, self._session.id)
        return {**body, "parent_tool_use_id": None}
