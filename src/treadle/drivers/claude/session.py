"""A session of Claude Code: its records become our events, its questions are judged by our rules.

Every tool call is announced to us by a hook before it runs, also those that Claude Code would not ask about, so that
what our rules deny is denied, and so that a tool is told as started when it really starts.
"""

from __future__ import annotations

import asyncio
import itertools
import time
import uuid
from typing import Any, cast

import msgspec

from treadle.drivers.card import Card
from treadle.drivers.claude import tools
from treadle.drivers.session import DrivenSession
from treadle.errors import LineTooLong, LocalError, RemoteError, TreadleError, Violation
from treadle.events import (
    CommandRun,
    ContextCompacted,
    ErrorInfo,
    Message,
    ModelRouted,
    Retrying,
    TextDelta,
    ThinkingDelta,
    TurnEnded,
    Usage,
    Warned,
)
from treadle.io.peer import Peer
from treadle.io.within import within
from treadle.session import Access, Answer, Change, CommandInfo, CommandResult, Prompt, SessionSpec
from treadle.sessions.session import Turn
from treadle.wire.claude import events as reading
from treadle.wire.claude.records import (
    AnyRecord,
    Assistant,
    ControlCancel,
    ControlRequest,
    ControlResponse,
    Result,
    StreamEvent,
    System,
    Unknown,
    User,
)

STEER_SECONDS = 2.0
"""For Claude Code to take up what was added to a turn that has just ended."""
HOOKS = {"PreToolUse": [{"matcher": "*", "hookCallbackIds": ["before"], "timeout": 600}]}
ASKING = {"AskUserQuestion": "question", "ExitPlanMode": "plan"}


class Call:
    """A tool call that the model has asked for."""

    def __init__(self, name: str, args: Any, parent: str | None) -> None:
        self.name = name
        self.args = args
        self.parent = parent


class ClaudeSession(DrivenSession):
    FATAL = (LineTooLong, Violation)

    def __init__(self, session_id: str, card: Card, spec: SessionSpec, peer: Peer[Any, Any]) -> None:
        super().__init__(session_id, card, spec, peer)
        self._ids = itertools.count(1)
        self._waiting: dict[str, asyncio.Future[Any]] = {}
        self._asked: dict[str, asyncio.Task[None]] = {}
        """What it has asked and we have not answered, by its request id."""
        self._calls: dict[str, Call] = {}
        self._tasks = reading.Tasks()
        self._commands_told: list[CommandInfo] = []
        self._totals: dict[str, Any] | None = None if spec.start.resume is not None else {}
        """Its totals by model at the last result; None when they began before us."""
        self._prompt_id = ""
        self._begun = False
        """Whether what comes now belongs to our prompt, and not to a turn that it started itself."""
        self._stopping = False
        self._streamed: dict[str | None, list[str]] = {}
        self._calls_counted: list[Usage] = []
        """What the calls of this turn used so far, for when no result tells."""
        self._steering: set[str] = set()
        """What a person has added to this turn and Claude Code has not taken up yet."""
        self._adopted: Turn | None = None
        self._adopted_begins = asyncio.Event()

    # The handshake

    async def shake_hands(self) -> None:
        wanted: dict[str, Any] = {"subtype": "initialize", "hooks": HOOKS}
        if self.spec.instructions.system is not None:
            wanted["systemPrompt"] = self.spec.instructions.system
        if self.spec.instructions.append is not None:
            wanted["appendSystemPrompt"] = self.spec.instructions.append
        async with self.peer.handshake("did not answer the initialize"):
            told = await self._request(wanted)
        if not isinstance(told, dict):
            told = {}
        commands = [each for each in told.get("commands") or [] if isinstance(each, dict)]
        self._commands_told = [
            CommandInfo(
                name=str(each.get("name")),
                description=str(each.get("description") or ""),
                arguments=str(each.get("argumentHint") or ""),
            )
            for each in commands
        ]
        account = told["account"] if isinstance(told.get("account"), dict) else {}
        models = [str(each.get("resolvedModel")) for each in told.get("models") or [] if isinstance(each, dict)]
        self._info = msgspec.structs.replace(
            self._info,
            version=str(told.get("claude_code_version") or ""),
            models=(self.spec.model,) if self.spec.model else tuple(models[:1]),
            key_source=str(account.get("apiKeySource") or account.get("tokenSource") or ""),
            subagents=tuple(str(each.get("name")) for each in told.get("agents") or [] if isinstance(each, dict)),
        )
        self.warn_of_drift()

    async def account(self) -> str | None:
        source = self._info.key_source
        return "" if source.lower() in ("", "none") else source

    async def _request(self, request: dict[str, Any]) -> Any:
        """Ask it something; its answer, or RemoteError with what it said."""
        id = f"treadle-{next(self._ids)}"
        answer = self._waiting[id] = asyncio.get_running_loop().create_future()
        try:
            await self.peer.say(ControlRequest(request_id=id, request=request))
            return await answer
        finally:
            del self._waiting[id]

    def _part(self, error: TreadleError) -> None:
        super()._part(error)
        self._spend_what_is_known()
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(error)

    # Turns

    async def _begin(self, turn: Turn) -> None:
        self._stopping = False
        self._streamed.clear()
        self._calls.clear()
        self._calls_counted.clear()
        self._steering.clear()
        if turn is self._adopted:
            self._adopted, self._begun = None, True
            self._adopted_begins.set()
            return
        self._begun = False
        self._prompt_id = str(uuid.uuid4())
        await self.peer.say(User(message={"role": "user", "content": turn.prompt.text}, uuid=self._prompt_id))

    async def _stop(self, turn: Turn) -> None:
        self._stopping = True
        for task in self._asked.values():
            task.cancel()
        await self._request({"subtype": "interrupt"})

    async def steer(self, turn: str, text: str) -> bool:
        """It takes a further prompt to the model at its next step."""
        if self._current is None or self._current.id != turn or self._work is None or self._stopping:
            return False
        id = str(uuid.uuid4())
        self._steering.add(id)
        await self.peer.say(User(message={"role": "user", "content": text}, uuid=id))
        return True

    def _hear(self, message: AnyRecord) -> None:
        match message:
            case StreamEvent():
                self._piece(message)
            case Assistant():
                self._block(message)
            case User():
                self._results(message)
            case System():
                self._around(message)
            case Result():
                self._ended(message)
            case ControlResponse(response=response):
                self._answered(response)
            case ControlRequest():
                self._asks(message)
            case ControlCancel(request_id=id):
                if (task := self._asked.pop(id, None)) is not None:
                    task.cancel()
            case Unknown(record=record):
                self._later(record)

    def _later(self, record: dict[str, Any]) -> None:
        """Records without a type of ours; what happens to a prompt that we sent is told by one of them."""
        if record.get("type") == "command_lifecycle" and record.get("state") in ("started", "completed"):
            self._taken_up(str(record.get("command_uuid")))

    def _taken_up(self, id: str) -> None:
        self._steering.discard(id)
        self._begun = self._begun or id == self._prompt_id

    def _piece(self, record: StreamEvent) -> None:
        event, parent = record.event, record.parent_tool_use_id
        match event.get("type"):
            case "content_block_delta":
                delta = event["delta"]
                if delta.get("type") == "text_delta":
                    self._streamed.setdefault(parent, []).append(delta["text"])
                    self.emit(TextDelta(text=delta["text"], parent=parent))
                elif delta.get("type") == "thinking_delta" and delta["thinking"]:
                    self.emit(ThinkingDelta(text=delta["thinking"], parent=parent))
            case "message_start":
                self._streamed.pop(parent, None)
                if parent is None:
                    self.step()
                self._counted(event["message"].get("usage"), str(event["message"].get("model") or ""), new=True)
            case "message_delta":
                self._counted(event.get("usage"), "", new=False)

    def _counted(self, used: Any, model: str, *, new: bool) -> None:
        if not isinstance(used, dict):
            return
        before = Usage(model=model) if new or not self._calls_counted else self._calls_counted.pop()
        names = {"input_tokens": "input_tokens", "output_tokens": "output_tokens"}
        names |= {"cache_read_input_tokens": "cache_read_tokens", "cache_creation_input_tokens": "cache_write_tokens"}
        counts = {ours: used[theirs] for theirs, ours in names.items() if isinstance(used.get(theirs), int)}
        self._calls_counted.append(msgspec.structs.replace(before, **counts))

    def _spend_what_is_known(self) -> None:
        """No result will come: what the calls said of themselves is all that is known, and the cost is not."""
        counted, self._calls_counted = self._calls_counted, []
        for usage in counted:
            if usage.prompt_tokens or usage.output_tokens:
                self.spend(usage)

    def _block(self, record: Assistant) -> None:
        parent, model = record.parent_tool_use_id, str(record.message.get("model") or "")
        for block in record.message.get("content") or []:
            match block.get("type"):
                case "text":
                    text = block["text"]
                    if not self._streamed.pop(parent, None):
                        self.emit(TextDelta(text=text, parent=parent))
                    self.emit(Message(text=text, model=model, parent=parent))
                    if parent is None and self._work is not None:
                        self._work.turn.text = text
                case "thinking" if block.get("thinking"):
                    self.emit(Message(text=block["thinking"], kind="thinking", model=model, parent=parent))
                case "tool_use":
                    self._calls[block["id"]] = Call(block["name"], block.get("input"), parent)

    def _results(self, record: User) -> None:
        if record.isReplay:
            self._taken_up(record.uuid)
            return
        content = record.message.get("content")
        for block in content if isinstance(content, list) else []:
            if isinstance(block, dict) and block.get("type") == "tool_result":
                self._result(block, record)

    def _result(self, block: dict[str, Any], record: User) -> None:
        id = block["tool_use_id"]
        call = self._calls.pop(id, None) or Call("", None, record.parent_tool_use_id)
        if id in self._denied:
            return
        text, failed = reading.result_text(block.get("content")), bool(block.get("is_error"))
        access = self._about(call.name, call.args)
        self.tool_started(id, call.name, access, call.parent)  # if no hook has told
        if call.name == "Bash" and access.command is not None:
            code = reading.exit_code(text, failed)
            self.emit(CommandRun(command=access.command, exit_code=code, output=text, call=id, parent=call.parent))
        if not failed and (change := reading.file_change(id, record.tool_use_result)) is not None:
            self.emit(msgspec.structs.replace(change, parent=call.parent))
        self.tool_ended(id, text, not failed, call.parent)

    def _around(self, record: System) -> None:
        match record.subtype:
            case "init":
                self._init(record)
            case "api_retry":
                status = record.error_status
                told = f"{record.error or 'the service failed'}" + (f" (status {status})" if status else "")
                info = ErrorInfo(code="provider_error", message=told, retryable=True)
                self.emit(Retrying(attempt=record.attempt, delay_ms=int(record.retry_delay_ms), error=info))
            case "permission_denied":
                call = self._calls.get(record.tool_use_id or "")
                args = call.args if call else None
                self.tool_denied(record.tool_use_id or "", record.tool_name, str(record.message), "hook", args)
            case "compact_boundary":
                sizes = record.compact_metadata or {}
                before, after = sizes.get("pre_tokens"), sizes.get("post_tokens")
                if isinstance(before, int):
                    self.emit(
                        ContextCompacted(tokens_before=before, tokens_after=after if isinstance(after, int) else 0)
                    )
            case "informational" if record.level in ("warning", "error"):
                self.emit(Warned(message=str(record.content), code="agent"))
            case _:
                if (event := self._tasks.heard(record)) is not None:
                    self.emit(event)

    def _init(self, record: System) -> None:
        if record.session_id:
            self._id = record.session_id
        if record.model and (record.model,) != self._info.models:
            self.emit(ModelRouted(model=record.model))
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

    def _ended(self, result: Result) -> None:
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

    async def _go_on(self, ended: TurnEnded) -> None:
        """What was added came too late for the last step: Claude Code takes it up now, and the turn goes on."""
        deadline = time.monotonic() + STEER_SECONDS
        while self._steering and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        if self._steering:
            self.over(ended)

    # What it asks

    def _answered(self, response: dict[str, Any]) -> None:
        waiting = self._waiting.get(str(response.get("request_id")))
        if waiting is None or waiting.done():
            return
        if response.get("subtype") == "success":
            waiting.set_result(response.get("response"))
        else:
            waiting.set_exception(RemoteError(f"claude refused: {response.get('error') or 'no reason given'}"))

    def _asks(self, record: ControlRequest) -> None:
        match record.request.get("subtype"):
            case "can_use_tool":
                work = self._can_use(record)
            case "hook_callback":
                work = self._about_to_run(record)
            case other:
                work = self._refuse(record, f"{other} is not offered here")
        task = asyncio.create_task(self._guarded(work))
        self._asked[record.request_id] = task
        self._jobs.add(task)
        task.add_done_callback(lambda done: self._put_away(record.request_id, done))

    def _put_away(self, id: str, task: asyncio.Task[None]) -> None:
        self._jobs.discard(task)
        self._asked.pop(id, None)

    async def _reply(self, record: ControlRequest, response: dict[str, Any]) -> None:
        body = {"subtype": "success", "request_id": record.request_id, "response": response}
        await self.peer.say(ControlResponse(response=body))

    async def _refuse(self, record: ControlRequest, why: str) -> None:
        body = {"subtype": "error", "request_id": record.request_id, "error": why}
        await self.peer.say(ControlResponse(response=body))

    def _about(self, name: str, args: Any) -> Access:
        access = tools.about(name, args)
        return self.access(name, args, access.kind, access.paths, command=access.command, url=access.url)

    async def _about_to_run(self, record: ControlRequest) -> None:
        """A tool is about to run: our rules say yes or no, or that somebody must be asked."""
        told = record.request.get("input") or {}
        name, args = str(told.get("tool_name")), told.get("tool_input")
        id = str(told.get("tool_use_id") or record.request.get("tool_use_id"))
        if name in ASKING:
            await self._reply(record, {})
            return
        access = self._about(name, args)
        parent = self._calls[id].parent if id in self._calls else None
        decision = self._guard(access)
        if decision.verdict == "deny":
            self.tool_denied(id, name, decision.reason, decision.by, args, parent)
        elif decision.verdict == "allow":
            self.tool_started(id, name, access, parent)
        said = {"hookEventName": "PreToolUse", "permissionDecision": decision.verdict}
        said["permissionDecisionReason"] = decision.reason or "the rules of this session allow it"
        await self._reply(record, {"hookSpecificOutput": said})

    async def _can_use(self, record: ControlRequest) -> None:
        asked = record.request
        name, args = str(asked.get("tool_name")), asked.get("input")
        id = str(asked.get("tool_use_id") or record.request_id)
        access = self._about(name, args)
        kind = cast(Any, ASKING.get(name, "permission"))
        text = str(asked.get("description") or "")
        answer = await self.permit(access, call=id, text=_question(args) or text, kind=kind, options=_options(args))
        if answer.decision == "deny":
            why = answer.text or "the person said no"
            await self._reply(record, {"behavior": "deny", "message": why})
            return
        changed = self._changed(name, args, answer)
        self.tool_started(id, name, self._about(name, changed), self._calls[id].parent if id in self._calls else None)
        response: dict[str, Any] = {"behavior": "allow", "updatedInput": changed}
        if granted := _granted(asked.get("permission_suggestions"), answer):
            response["updatedPermissions"] = granted
        await self._reply(record, response)

    def _changed(self, name: str, args: Any, answer: Answer) -> Any:
        if answer.changed_args is not None:
            return answer.changed_args
        if name == "AskUserQuestion" and isinstance(args, dict):
            questions = [each for each in args.get("questions") or [] if isinstance(each, dict)]
            return {**args, "answers": {str(each.get("question")): answer.text for each in questions}}
        return args

    # Commands, model and mode

    def commands(self) -> list[CommandInfo]:
        return self._commands_told

    async def _command(self, name: str, args: str) -> CommandResult | None:
        """Its own slash commands are prompts that it understands."""
        if name not in {each.name for each in self._commands_told}:
            return None
        turn = await self.prompt(Prompt(text=f"/{name} {args}".rstrip()))
        return CommandResult(message="", turn=turn)

    async def configure(self, change: Change) -> None:
        if change.model is not None:
            await self._set({"subtype": "set_model", "model": change.model})
            self.spec = msgspec.structs.replace(self.spec, model=change.model)
            self._info = msgspec.structs.replace(self._info, models=(change.model,))
        if change.mode is not None:
            await self._set({"subtype": "set_permission_mode", "mode": "plan" if change.mode == "plan" else "default"})
            self.rebind(change.mode)

    async def _set(self, request: dict[str, Any]) -> None:
        try:
            async with within(self.peer.patience.handshake):
                await self._request(request)
        except TimeoutError:
            raise LocalError(f"claude did not answer {request['subtype']}") from None


def _question(args: Any) -> str:
    questions = args.get("questions") if isinstance(args, dict) else None
    asked = [str(each.get("question")) for each in questions or [] if isinstance(each, dict)]
    if asked:
        return "\n".join(asked)
    return str(args["plan"]) if isinstance(args, dict) and isinstance(args.get("plan"), str) else ""


def _options(args: Any) -> tuple[str, ...]:
    questions = args.get("questions") if isinstance(args, dict) else None
    first = next((each for each in questions or [] if isinstance(each, dict)), {})
    return tuple(str(each.get("label")) for each in first.get("options") or [] if isinstance(each, dict))


def _granted(suggestions: Any, answer: Answer) -> list[Any]:
    """What it suggested to remember, when the person allowed more than this once: rules only, never a wider mode."""
    if answer.scope == "once" or not isinstance(suggestions, list):
        return []
    rules = [each for each in suggestions if isinstance(each, dict) and each.get("type") == "addRules"]
    return [each if answer.scope == "always" else {**each, "destination": "session"} for each in rules]
