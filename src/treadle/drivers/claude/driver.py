"""Claude Code as an Agent: how it is started, what its session is told before the first prompt, its turns, and the
sessions that it keeps.

No prompt, system prompt or key is on its command line, where every user of the machine could read it: they go over its
input and its environment.
"""

import asyncio
import glob
import os
import re
import time
import uuid
from collections.abc import Mapping
from typing import Any

import msgspec

from treadle import events
from treadle.drivers.agent import DrivenAgent
from treadle.drivers.card import Card, filled, place_of
from treadle.drivers.claude import gate
from treadle.drivers.claude.gate import (
    Call,
    ControlRequests,
    GatedSession,
    HostedTools,
    ToolGate,
    claude_name,
)
from treadle.errors import (
    ConfigError,
    LineTooLong,
    LocalError,
    RemoteError,
    StorageError,
    TreadleError,
    Violation,
)
from treadle.events import Event
from treadle.io.files import read_at_most, read_ends
from treadle.io.peer import Peer
from treadle.io.tasks import within
from treadle.policy.guess import access_of
from treadle.session import (
    Change,
    CommandInfo,
    CommandResult,
    ModelMenu,
    OfferedModel,
    OwnTool,
    Prompt,
    SessionSpec,
    StoredSession,
)
from treadle.sessions.abilities import changed_effort, effort_of
from treadle.sessions.session import Turn
from treadle.wire.claude import connection
from treadle.wire.claude import connection as reading
from treadle.wire.claude.connection import Connection, past, title
from treadle.wire.oneshot.connection import image_block

# The sessions that Claude Code keeps, found and read in its own files: no message of its asks for them. Blocks.

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.I)
LISTED = 500
"""How many sessions are looked at, the latest first."""
LONGEST = 64 * 1024 * 1024
"""A session with more bytes goes on without its history being shown."""
END = 64 * 1024
"""How many bytes at each end of a file are searched for a title."""


class History:
    """What a session held when it was opened again."""

    def __init__(self, card: Card, environ: Mapping[str, str], session: str, cwd: str) -> None:
        found = glob.glob(filled(place_of(card, environ), session, cwd), include_hidden=True) if session else []
        self._path = found[0] if found else ""
        self._size = os.path.getsize(self._path) if found else 0

    @property
    def too_long(self) -> bool:
        return self._size > LONGEST

    def events(self) -> list[Event]:
        if not self._path or self.too_long:
            return []
        return past(read_at_most(self._path, self._size), access_of)


def stored_sessions(card: Card, environ: Mapping[str, str], cwd: str | None) -> list[StoredSession]:
    pattern = place_of(card, environ).replace("{id}", "*")
    pattern = pattern.replace("{cwd}", "*") if cwd is None else filled(pattern, "", cwd)
    files = [(os.path.getmtime(path), path) for path in glob.glob(pattern, include_hidden=True) if _is_session(path)]
    found = []
    for updated, path in sorted(files, reverse=True)[:LISTED]:
        try:
            named, place = title(read_ends(path, END))
        except StorageError:
            continue  # it was removed meanwhile
        if named:  # a session without a prompt cannot be resumed
            found.append(StoredSession(id=_id(path), cwd=place or cwd or "", title=named, updated=updated))
    return found


def _is_session(path: str) -> bool:
    return UUID.fullmatch(_id(path)) is not None and os.path.isfile(path)


def _id(path: str) -> str:
    return os.path.basename(path).removesuffix(".jsonl")


# A session of Claude Code: its records become our events, and our rules answer its questions.
#
# A hook announces every tool call to us before it runs, also those that Claude Code would not ask about. So our rules
# can deny any of them, and a tool is reported as started when it really starts.

EFFORTS = ("low", "medium", "high", "xhigh", "max")
STEER_SECONDS = 2.0
"""How many seconds Claude Code has to take up what was added to a turn that has just ended."""
HOOKS = {"PreToolUse": "before", "PostToolUse": "after", "PostToolUseFailure": "after"}
"""The hooks through which Claude Code informs us, and their names."""
HOOK_SECONDS = 600


class ClaudeSession(GatedSession):
    FATAL = (LineTooLong, Violation)

    def __init__(
        self, session_id: str, card: Card, spec: SessionSpec, peer: Peer[Any, Any], history: History | None = None
    ) -> None:
        super().__init__(session_id, card, spec, peer)
        self._past = history
        if history is not None and history.too_long:
            self.emit(events.Warned(message="this session is too long for its history to be shown", code="history"))
        self._models: tuple[OfferedModel, ...] = ()
        self._last_call: events.Usage | None = None
        """What the last call of the main conversation used."""
        self._control = ControlRequests(peer.say)
        self._hosted = HostedTools()
        self._hosted.add(spec.program.tools)
        self._around_tools = ToolGate(self, self._control, self._hosted)
        self.calls: dict[str, Call] = {}
        self._tasks = reading.ClaudeTasks()
        self._offered_commands: list[CommandInfo] = []
        self._totals: dict[str, Any] | None = None if spec.start.resume is not None else {}
        """Its totals by model at the last result; None when they began before us."""
        self._prompt_id = ""
        self._begun = False
        """Whether what comes now belongs to our prompt, and not to a turn that it started itself."""
        self._stopping = False
        self._streamed: dict[str | None, list[str]] = {}
        self._calls_counted: list[events.Usage] = []
        """What the calls of this turn used so far, for when no result reports it."""
        self._steering: set[str] = set()
        """What a person has added to this turn and Claude Code has not taken up yet."""
        self._adopted: Turn | None = None
        self._adopted_begins = asyncio.Event()

    # The handshake

    async def shake_hands(self) -> None:
        wanted: dict[str, Any] = {"subtype": "initialize", "hooks": self._hooks()}
        if self.spec.instructions.system is not None:
            wanted["systemPrompt"] = self.spec.instructions.system
        if self.spec.instructions.append is not None:
            wanted["appendSystemPrompt"] = self.spec.instructions.append
        if self.spec.subagents:
            wanted["agents"] = {each.name: gate.subagent(each) for each in self.spec.subagents}
        if self.spec.instructions.skills is not None:
            wanted["skills"] = list(self.spec.instructions.skills)
        async with self.peer.handshake("did not answer the initialize"):
            greeting = await self._control.request(wanted)
            await self._offer_servers()
        if not isinstance(greeting, dict):
            greeting = {}
        commands = [each for each in greeting.get("commands") or [] if isinstance(each, dict)]
        self._offered_commands = [
            CommandInfo(
                name=str(each.get("name")),
                description=str(each.get("description") or ""),
                arguments=str(each.get("argumentHint") or ""),
            )
            for each in commands
        ]
        account = greeting["account"] if isinstance(greeting.get("account"), dict) else {}
        offered = [each for each in greeting.get("models") or [] if isinstance(each, dict)]
        models = [str(each.get("resolvedModel")) for each in offered]
        self._models = tuple(map(gate.model, offered))
        self._info = msgspec.structs.replace(
            self._info,
            version=str(greeting.get("claude_code_version") or ""),
            models=(self.spec.model,) if self.spec.model else tuple(models[:1]),
            key_source=str(account.get("apiKeySource") or account.get("tokenSource") or ""),
            subagents=tuple(str(each.get("name")) for each in greeting.get("agents") or [] if isinstance(each, dict)),
        )
        self.warn_of_drift()

    def _hooks(self) -> dict[str, Any]:
        """We are always called before a tool runs, and after it only for a program that wants to know."""
        program = self.spec.program
        names = [name for name, called in HOOKS.items() if called == "before" or program.post_tool is not None]
        return {name: [{"matcher": "*", "hookCallbackIds": [HOOKS[name]], "timeout": HOOK_SECONDS}] for name in names}

    async def _offer_servers(self) -> None:
        """The MCP servers that it was given. They go over its input, because their variables may hold keys."""
        given = {name: gate.server(entry) for name, entry in self.spec.tools.servers.items()}
        if not (servers := {**given, **self._hosted.servers()}):
            return
        try:
            answer = await self._control.request({"subtype": "mcp_set_servers", "servers": servers})
        except RemoteError as error:
            self.emit(events.Warned(message=f"{', '.join(servers)} cannot be used: {error}", code="not_used"))
            return
        errors = answer.get("errors") if isinstance(answer, dict) else None
        for name, why in (errors if isinstance(errors, dict) else {}).items():
            self.emit(events.Warned(message=f"the MCP server {name} cannot be used: {why}", code="not_used"))

    async def add_tools(self, tools: tuple[OwnTool, ...]) -> None:
        """Add tools of the program that opened the session, before the first prompt."""
        self._hosted.add(tools)
        async with self.peer.handshake("did not take the tools"):
            await self._offer_servers()

    async def account(self) -> str | None:
        source = self._info.key_source
        return "" if source.lower() in ("", "none") else source

    def _part(self, error: TreadleError) -> None:
        super()._part(error)
        self._spend_partial_usage()
        self._control.lost(error)

    # Turns

    async def _begin(self, turn: Turn) -> None:
        self._stopping = False
        self._streamed.clear()
        self.calls.clear()
        self._calls_counted.clear()
        self._steering.clear()
        if turn is self._adopted:
            self._adopted, self._begun = None, True
            self._adopted_begins.set()
            return
        self._begun = False
        self._prompt_id = str(uuid.uuid4())
        content: Any = turn.prompt.text
        if turn.prompt.images:
            text = [{"type": "text", "text": content}] if content.strip() else []  # the service refuses an empty block
            content = [*text, *map(image_block, turn.prompt.images)]
        message = {"role": "user", "content": content}
        await self.peer.say(
            connection.User(message=message, uuid=self._prompt_id, client_composed=turn.prompt.verbatim)
        )

    async def _stop(self, turn: Turn) -> None:
        self._stopping = True
        self._control.drop_all()
        await self._control.request({"subtype": "interrupt"})

    async def _steer(self, turn: Turn, text: str) -> bool:
        """Add to the turn: it passes a further prompt to the model at its next step."""
        if self._work is None or self._stopping:
            return False
        id = str(uuid.uuid4())
        self._steering.add(id)
        await self.peer.say(connection.User(message={"role": "user", "content": text}, uuid=id))
        return True

    def _hear(self, message: connection.AnyRecord) -> None:
        match message:
            case connection.StreamEvent():
                self._piece(message)
            case connection.Assistant():
                self._block(message)
            case connection.User():
                self._results(message)
            case connection.System():
                self._system_record(message)
            case connection.ClaudeResult():
                self._ended(message)
            case connection.ControlResponse(response=response):
                self._control.answered(response)
            case connection.ControlRequest():
                self._asks(message)
            case connection.ControlCancel(request_id=id):
                self._control.taken_back(id)
            case connection.UnknownRecord(record=record):
                self._later(record)

    def _later(self, record: dict[str, Any]) -> None:
        """Handle records without a type of ours: what happened to a prompt that we sent, and how long a limit lasts."""
        match record:
            case {"type": "command_lifecycle", "state": "started" | "completed"}:
                self._taken_up(str(record.get("command_uuid")))
            case {"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": int(until)}}:
                self.limited_until = until

    def _taken_up(self, id: str) -> None:
        self._steering.discard(id)
        self._begun = self._begun or id == self._prompt_id

    def _piece(self, record: connection.StreamEvent) -> None:
        event, parent = record.event, record.parent_tool_use_id
        match event.get("type"):
            case "content_block_delta":
                delta = event["delta"]
                if delta.get("type") == "text_delta":
                    self._streamed.setdefault(parent, []).append(delta["text"])
                    self.emit(events.TextDelta(text=delta["text"], parent=parent))
                elif delta.get("type") == "thinking_delta" and delta["thinking"]:
                    self.emit(events.ThinkingDelta(text=delta["thinking"], parent=parent))
            case "message_start":
                self._streamed.pop(parent, None)
                if parent is None:
                    self.step()
                self._counted(event["message"].get("usage"), str(event["message"].get("model") or ""), new=True)
                self._note_last_call(parent)
            case "message_delta":
                self._counted(event.get("usage"), "", new=False)
                self._note_last_call(parent)

    def _note_last_call(self, parent: str | None) -> None:
        if parent is None and self._calls_counted:
            self._last_call = self._calls_counted[-1]

    def _counted(self, used: Any, model: str, *, new: bool) -> None:
        if not isinstance(used, dict):
            return
        before = events.Usage(model=model) if new or not self._calls_counted else self._calls_counted.pop()
        names = {"input_tokens": "input_tokens", "output_tokens": "output_tokens"}
        names |= {"cache_read_input_tokens": "cache_read_tokens", "cache_creation_input_tokens": "cache_write_tokens"}
        counts = {ours: used[theirs] for theirs, ours in names.items() if isinstance(used.get(theirs), int)}
        self._calls_counted.append(msgspec.structs.replace(before, **counts))

    def _spend_partial_usage(self) -> None:
        """No result will come: what the calls reported is all that is known, and the cost is not."""
        counted, self._calls_counted = self._calls_counted, []
        for usage in counted:
            if usage.prompt_tokens or usage.output_tokens:
                self.spend(usage)

    def _block(self, record: connection.Assistant) -> None:
        parent, model = record.parent_tool_use_id, str(record.message.get("model") or "")
        incomplete = None
        for block in record.message.get("content") or []:
            match block:
                case {"type": "text", "text": str(text)}:
                    if not self._streamed.pop(parent, None):
                        self.emit(events.TextDelta(text=text, parent=parent))
                    self.emit(events.Message(text=text, model=model, parent=parent))
                    if parent is None and self._work is not None:
                        self._work.turn.text = text
                case {"type": "thinking", "thinking": str(text)} if text:
                    self.emit(events.Message(text=text, kind="thinking", model=model, parent=parent))
                case {"type": "tool_use", "id": str(id), "name": str(name)}:
                    self.calls[id] = Call(name, block.get("input"), parent)
                case {"type": "text" | "tool_use" as kind}:
                    incomplete = kind
        if incomplete is not None:
            raise ValueError(f"a block of the type {incomplete} is incomplete")

    def _results(self, record: connection.User) -> None:
        if record.isReplay:
            self._taken_up(record.uuid)
            return
        content = record.message.get("content")
        for block in content if isinstance(content, list) else []:
            if isinstance(block, dict) and block.get("type") == "tool_result":
                self._result(block, record)

    def _result(self, block: dict[str, Any], record: connection.User) -> None:
        id = block["tool_use_id"]
        call = self.calls.pop(id, None) or Call("", None, record.parent_tool_use_id)
        if id in self._denied:
            return
        text, failed = reading.result_text(block.get("content")), bool(block.get("is_error"))
        access = self.about(call.name, call.args)
        self.tool_started(id, call.name, access, call.parent)  # if no hook has reported it
        if call.name == "Bash" and access.command is not None:
            code = reading.exit_code(text, failed)
            self.emit(
                events.CommandRun(command=access.command, exit_code=code, output=text, call=id, parent=call.parent)
            )
        if not failed and (change := reading.file_change(id, record.tool_use_result)) is not None:
            self.emit(msgspec.structs.replace(change, parent=call.parent))
        self.tool_ended(id, text, not failed, call.parent)

    def _system_record(self, record: connection.System) -> None:
        match record.subtype:
            case "init":
                self._init(record)
            case "api_retry":
                status = record.error_status
                problem = f"{record.error or 'the service failed'}" + (f" (status {status})" if status else "")
                info = events.ErrorInfo(code="provider_error", message=problem, retryable=True)
                self.emit(events.Retrying(attempt=record.attempt, delay_ms=int(record.retry_delay_ms), error=info))
            case "permission_denied":
                call = self.calls.get(record.tool_use_id or "")
                args = call.args if call else None
                self.tool_denied(record.tool_use_id or "", record.tool_name, str(record.message), "hook", args)
            case "compact_boundary":
                sizes = record.compact_metadata or {}
                before, after = sizes.get("pre_tokens"), sizes.get("post_tokens")
                if isinstance(before, int):
                    self.emit(
                        events.ContextCompacted(
                            tokens_before=before, tokens_after=after if isinstance(after, int) else 0
                        )
                    )
            case "informational" if record.level in ("warning", "error"):
                self.emit(events.Warned(message=str(record.content), code="agent"))
            case _:
                if (event := self._tasks.heard(record)) is not None:
                    self.emit(event)

    def starter_of(self, agent: Any) -> str | None:
        return self._tasks.starters.get(str(agent))

    def _init(self, record: connection.System) -> None:
        if record.session_id:
            self._id = record.session_id
        if record.model and (record.model,) != self._info.models:
            self.emit(events.ModelRouted(model=record.model))
        servers = [each for each in record.mcp_servers if isinstance(each, dict)]
        self._info = msgspec.structs.replace(
            self._info,
            models=(record.model,) if record.model else self._info.models,
            tools=tuple(map(str, record.tools)),
            version=record.claude_code_version or self._info.version,
            key_source=record.apiKeySource or self._info.key_source,
            mcp_servers={
                str(each.get("name")): "connected" if each.get("status") == "connected" else "failed"
                for each in servers
            },
        )
        if self._current is None and not self._queue and self._closing is None:
            self._adopt()

    def _adopt(self) -> None:
        """It works without having been asked: a background task has ended and woken it. That is a turn too."""
        turn = self._adopted = Turn(Prompt(text="", source="task"))
        self._adopted_begins.clear()
        self._queue.append(turn)
        self._wake()

    def _ahead(self) -> bool:
        return super()._ahead() or self._adopted is not None

    async def _in_step(self) -> None:
        await super()._in_step()
        if self._adopted is not None:
            await self._adopted_begins.wait()

    def _ended(self, result: connection.ClaudeResult) -> None:
        if (last := self._last_call) is not None:
            window = reading.context_window(result, last.model)
            used = last.prompt_tokens + last.output_tokens
            self._info = msgspec.structs.replace(self._info, context_window=window, context_used=used)
        for usage in reading.usages(result, self._totals):
            self.spend(usage)
        self._calls_counted.clear()
        self._totals = result.modelUsage
        if result.session_id:
            self._id = result.session_id
        work = self._work
        if work is None or not self._begun and not self._stopping and not result.is_error:
            return  # a turn of its own that ended while our prompt waits
        outcome, error = reading.ending(result, self._stopping)
        turn = work.turn
        if outcome == "completed":
            turn.text = result.result if result.result is not None else turn.text
        ended = turn.ending(outcome, error, result.stop_reason or "")
        if outcome == "completed" and self._steering:
            self.job(self._go_on(ended))
        else:
            self.over(ended)

    async def _go_on(self, ended: events.TurnEnded) -> None:
        """What was added came too late for the last step: Claude Code takes it up now, and the turn goes on."""
        deadline = time.monotonic() + STEER_SECONDS
        while self._steering and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        if self._steering:
            self.over(ended)

    # What it asks

    def _asks(self, record: connection.ControlRequest) -> None:
        task = asyncio.create_task(self._guarded(self._around_tools.answer(record)))
        self._control.asked[record.request_id] = task
        self._jobs.add(task)
        task.add_done_callback(lambda done: self._put_away(record.request_id, done))

    def _put_away(self, id: str, task: asyncio.Task[None]) -> None:
        self._jobs.discard(task)
        self._control.asked.pop(id, None)

    # Commands, model and mode

    def commands(self) -> list[CommandInfo]:
        return self._offered_commands

    async def _command(self, name: str, args: str) -> CommandResult | None:
        """Its own slash commands are prompts that it understands."""
        if name not in {each.name for each in self._offered_commands}:
            return None
        turn = await self.prompt(Prompt(text=f"/{name} {args}".rstrip()))
        return CommandResult(message="", turn=turn)

    def history(self) -> list[events.Event]:
        return self._past.events() if self._past is not None else []

    async def menu(self) -> ModelMenu:
        return ModelMenu(current=self.spec.model or "default", offered=self._models)

    async def _interrupt_other(self, target: str, reason: str) -> None:
        if target in self._stoppable:
            await self._set({"subtype": "stop_task", "task_id": target})

    async def _configure(self, change: Change) -> None:
        if change.model is not None:
            await self._set({"subtype": "set_model", "model": change.model})
            self.spec = msgspec.structs.replace(self.spec, model=change.model)
            self._info = msgspec.structs.replace(self._info, models=(change.model,))
        if change.mode is not None:
            await self._set({"subtype": "set_permission_mode", "mode": "plan" if change.mode == "plan" else "default"})
            self.rebind(change.mode)
        if change.thinking is not None:
            effort = changed_effort("claude", change.thinking, EFFORTS)
            await self._set({"subtype": "apply_flag_settings", "settings": {"effortLevel": effort}})
            self.spec = msgspec.structs.replace(self.spec, thinking=change.thinking)

    async def _set(self, request: dict[str, Any]) -> None:
        try:
            async with within(self.peer.patience.handshake):
                await self._control.request(request)
        except TimeoutError:
            raise LocalError(f"claude did not answer {request['subtype']}") from None


WIRE = (
    *("--output-format", "stream-json", "--verbose", "--input-format", "stream-json"),
    *("--permission-prompt-tool", "stdio", "--include-partial-messages", "--replay-user-messages"),
)


class ClaudeAgent(DrivenAgent):
    async def _open(self, spec: SessionSpec, env: dict[str, str]) -> ClaudeSession:
        session_id, which = _session_choice(spec)
        argv = [*self.launch.argv, *WIRE, *which, *_options(spec, self.launch.options)]
        history = History(self.card, env, spec.start.resume or "", spec.cwd)
        peer = await self.start(argv, Connection("host"), spec, env)
        session = ClaudeSession(session_id, self.card, spec, peer, history)
        await session.shake_hands()
        return session

    async def stored_sessions(self, cwd: str | None = None) -> list[StoredSession]:
        return await asyncio.to_thread(stored_sessions, self.card, self.env({}), cwd)


def _session_choice(spec: SessionSpec) -> tuple[str, list[str]]:
    """The id of the session, as far as it is known before the first turn, and how it is chosen."""
    start = spec.start
    if start.resume is not None and not start.fork:
        return (start.resume, ["--resume", start.resume]) if start.resume else ("", ["--continue"])
    wanted = start.id or str(uuid.uuid4())
    if not UUID.fullmatch(wanted):
        raise ConfigError(f"{wanted!r} cannot be the id of a session of Claude Code", hint="give a UUID")
    if start.resume is None:
        return wanted, ["--session-id", wanted]
    old = ["--resume", start.resume] if start.resume else ["--continue"]
    return wanted, [*old, "--fork-session", "--session-id", wanted]


def _options(spec: SessionSpec, options: dict[str, Any]) -> list[str]:
    argv = ["--model", spec.model] if spec.model else []
    if effort := effort_of("claude", spec.thinking, EFFORTS):
        argv += ["--effort", effort]
    argv += ["--permission-mode", "plan" if spec.mode == "plan" else "default"]
    if spec.tools.offered is not None:
        argv += ["--tools", ",".join(map(claude_name, spec.tools.offered))]
    if spec.tools.denied:
        argv += ["--disallowedTools", ",".join(map(claude_name, spec.tools.denied))]
    for directory in spec.add_dirs:
        argv += ["--add-dir", directory]
    for directory in spec.instructions.plugins:
        argv += ["--plugin-dir", directory]
    if spec.tools.only_servers or not spec.instructions.project:
        argv.append("--strict-mcp-config")
    if not spec.start.persist:
        argv.append("--no-session-persistence")
    sources = options.get("setting_sources")
    if spec.instructions.sources is not None:
        sources = ",".join(spec.instructions.sources)
    if not spec.instructions.project:
        sources = ""
    if isinstance(sources, str):
        argv.append(f"--setting-sources={sources}")
    return argv
