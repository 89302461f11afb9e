"""Codex as an Agent: each session has its own app-server; sessions share only Codex's home directory."""

import asyncio
import contextlib
import logging
from typing import Any

import msgspec

from treadle import __version__, events
from treadle.drivers.agent import DrivenAgent
from treadle.drivers.card import Card, version_of
from treadle.drivers.session import OURS, DrivenSession
from treadle.errors import (
    NotFound,
    RemoteError,
    RemoteProtocolError,
    TreadleError,
    Unsupported,
)
from treadle.io.paths import here
from treadle.io.peer import Peer
from treadle.io.rpc import CallFailed, Rpc
from treadle.io.tasks import within
from treadle.policy.guess import access_of
from treadle.session import Access, Answer, Change, Mode, ModelMenu, SessionSpec, StoredSession
from treadle.sessions.abilities import changed_effort, effort_of
from treadle.sessions.session import Turn
from treadle.wire.codex import translation as reading
from treadle.wire.codex.connection import Connection
from treadle.wire.codex.translation import (
    listed_thread,
    offered_models,
    past_events,
)
from treadle.wire.common.images import data_url
from treadle.wire.common.jsonrpc import METHOD_NOT_FOUND, Fault
from treadle.wire.common.rpc import RpcCall, RpcMessage, RpcNotice

log = logging.getLogger(__name__)

# A session of Codex: a thread of its own app-server.
#
# Codex is told to ask about everything that it does not know to be harmless. Our rules answer, or ask a person. What
# it does not ask about runs in its own sandbox, which the mode chooses.

SANDBOX: dict[Mode | None, str] = {"plan": "read-only", "yolo": "danger-full-access", None: "danger-full-access"}
POLICY = {"read-only": "readOnly", "workspace-write": "workspaceWrite", "danger-full-access": "dangerFullAccess"}
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
KINDS = ["cli", "vscode", "exec", "appServer"]
"""Whose threads are listed: those of its subagents are not."""
LISTED = 500
MODELS_SECONDS = 5.0
"""How long its list of models may take: one can go on without it."""
HELD_SECONDS = 0.3
"""A call counts as started when no question about it has come within this time."""


class CodexSession(DrivenSession):
    def __init__(self, card: Card, spec: SessionSpec, peer: Peer[Any, Any], options: dict[str, Any]) -> None:
        super().__init__(spec.start.resume or "", card, spec, peer)
        self._rpc = Rpc(peer.say, answer=self._answer_call, notice=self._on_notice)
        self._options = options
        self._thread = ""
        self._turn_id = ""
        self._turns: Any = None
        """What the thread held when it was opened again."""
        self._model = spec.model or ""
        self._items: dict[str, dict[str, Any]] = {}
        """Tool calls as they were announced."""
        self._held: dict[str, asyncio.TimerHandle] = {}
        """Announced calls about which it may still ask."""
        self._raw: dict[str, dict[str, Any]] = {}
        """Calls of the model that no item has reported yet."""
        self._streamed: set[str] = set()
        self._children: dict[str, str] = {}
        """Threads of subagents -> the call that started each."""
        self._parents: dict[str, str] = {}
        """Calls of subagents -> the call that started that subagent."""

    # The handshake

    async def shake_hands(self) -> None:
        async with self.peer.handshake("did not answer the initialize"):
            greeting = await self._greet()
            opened = await self._open_thread()
        thread = opened.get("thread") if isinstance(opened, dict) else None
        if not isinstance(thread, dict) or not isinstance(thread.get("id"), str):
            raise await self.peer.blame(RemoteProtocolError, "opened a thread without an id")
        self._thread = self._id = thread["id"]
        self._turns = thread.get("turns")
        self._model = str(opened.get("model") or self._model)
        agent = str(greeting.get("userAgent") or "") if isinstance(greeting, dict) else ""
        self._info = msgspec.structs.replace(
            self._info,
            version=version_of(agent.partition("/")[2]),
            models=(self._model,) if self._model else (),
        )
        self.warn_of_drift()
        self._warn_of_gaps()

    async def greet(self) -> None:
        """Find out about it without opening a thread."""
        async with self.peer.handshake("did not answer the initialize"):
            await self._greet()

    async def _greet(self) -> Any:
        about = {"name": "treadle", "title": "Treadle", "version": __version__}
        greeting = await self._rpc.call("initialize", {"clientInfo": about, "capabilities": {"experimentalApi": True}})
        await self._rpc.tell("initialized", {})
        return greeting

    async def stored_sessions(self, cwd: str | None) -> list[StoredSession]:
        """The threads that it lists, latest first."""
        params: dict[str, Any] = {"limit": LISTED, "sortKey": "updated_at", "modelProviders": [], "sourceKinds": KINDS}
        answer = await self._rpc.call("thread/list", {**params, **({"cwd": cwd} if cwd else {})})
        threads = answer.get("data") if isinstance(answer, dict) else None
        return [listed_thread(one) for one in threads or [] if isinstance(one, dict) and one.get("id")]

    def history(self) -> list[events.Event]:
        return past_events(self._turns, self._about)

    async def menu(self) -> ModelMenu:
        try:
            async with within(MODELS_SECONDS):
                answer = await self._rpc.call("model/list", {})
        except TimeoutError:
            raise RemoteError("codex did not list its models") from None
        data = answer.get("data") if isinstance(answer, dict) else None
        return ModelMenu(current=self._model, offered=tuple(offered_models(data)))

    async def _open_thread(self) -> Any:
        start = self.spec.start
        params = self._thread_params()
        if start.resume is None:
            return await self._rpc.call("thread/start", {**params, "ephemeral": not start.persist})
        if not start.persist:
            raise Unsupported("codex always saves a resumed or forked session", hint="drop --no-session-persistence")
        id = start.resume or await self._newest()
        if start.fork:
            return await self._rpc.call("thread/fork", {**params, "threadId": id})
        return await self._rpc.call("thread/resume", {**params, "threadId": id})

    def _thread_params(self) -> dict[str, Any]:
        options: dict[str, Any] = {
            "cwd": self.spec.cwd,
            "approvalPolicy": "untrusted",
            "approvalsReviewer": "user",
            "sandbox": self._sandbox(),
            "experimentalRawEvents": True,
        }
        if self.spec.model:
            options["model"] = self.spec.model
        if self.spec.instructions.system is not None:
            options["baseInstructions"] = self.spec.instructions.system
        if self.spec.instructions.append is not None:
            options["developerInstructions"] = self.spec.instructions.append
        config: dict[str, Any] = {}
        if effort := effort_of("codex", self.spec.thinking, EFFORTS):
            config["model_reasoning_effort"] = effort
        if self._answers:  # otherwise its model cannot ask, except in a plan mode that we do not use
            config["features"] = {"default_mode_request_user_input": True}
        if self.spec.tools.servers:
            config["mcp_servers"] = {name: _server(entry) for name, entry in self.spec.tools.servers.items()}
        if self.spec.add_dirs:
            config["sandbox_workspace_write"] = {"writable_roots": list(self.spec.add_dirs)}
        if config:
            options["config"] = config
        if self.spec.start.resume is not None:
            del options["experimentalRawEvents"]
        return options

    def _sandbox(self) -> str:
        chosen = self._options.get("sandbox")
        if self.spec.confinement.use == "on":  # our sandbox is around it, and Codex cannot make its own inside
            chosen = "danger-full-access"
        return chosen if chosen in POLICY else SANDBOX.get(self.spec.mode, "workspace-write")

    async def _newest(self) -> str:
        answer = await self._rpc.call("thread/list", {"limit": 1, "cwd": self.spec.cwd})
        threads = answer.get("data") if isinstance(answer, dict) else None
        if not threads or not isinstance(threads[0], dict):
            raise NotFound("codex has no session in this directory", hint="start one without --continue")
        return str(threads[0].get("id"))

    def _warn_of_gaps(self) -> None:
        if self.spec.rules.deny or self.spec.rules.ask or self.spec.guards.judge is not None:
            gap = "codex runs commands that it takes for harmless (ls, cat, echo) without asking"
            more = "the rules bind what it asks about, and its sandbox the rest"
            self.emit(events.Warned(message=f"{gap}; {more}", code="not_enforced"))

    async def account(self) -> str | None:
        answer = await self._rpc.call("account/read", {})
        if not isinstance(answer, dict):
            return None
        if isinstance(account := answer.get("account"), dict):
            return str(account.get("type") or "account")
        return "" if answer.get("requiresOpenaiAuth") else "a provider of its settings"

    def _part(self, error: TreadleError) -> None:
        super()._part(error)
        self._rpc.lost(error)

    # Turns

    async def _begin(self, turn: Turn) -> None:
        self._items.clear()
        self._raw.clear()
        self._streamed.clear()
        self._turn_id = ""
        images = [{"type": "image", "url": data_url(data)} for data in turn.prompt.images]
        content = [{"type": "text", "text": turn.prompt.text}, *images]
        params: dict[str, Any] = {"threadId": self._thread, "input": content}
        if self.spec.model:
            params["model"] = self.spec.model
        if self.spec.thinking.effort:
            params["effort"] = self.spec.thinking.effort
        answer = await self._rpc.call("turn/start", params)
        match answer:
            case {"turn": {"id": str(id)}}:
                self._turn_id = self._turn_id or id
            case _ if not self._turn_id:
                log.warning("the answer to turn/start names no turn: %.500s", answer)
                raise RemoteProtocolError("codex did not report which turn it began")

    async def _stop(self, turn: Turn) -> None:
        await self._rpc.close()
        where = {"threadId": self._thread, "turnId": self._turn_id}
        await self._rpc.call("turn/interrupt", where)
        with contextlib.suppress(CallFailed):  # an experimental method; we end what it leaves
            await self._rpc.call("thread/backgroundTerminals/clean", {"threadId": self._thread})

    async def _steer(self, turn: Turn, text: str) -> bool:
        if not self._turn_id:
            return False
        content = [{"type": "text", "text": text}]
        try:
            await self._rpc.call(
                "turn/steer", {"threadId": self._thread, "expectedTurnId": self._turn_id, "input": content}
            )
        except CallFailed:
            return False
        return True

    def _broken_answer(self, error: RemoteProtocolError) -> bool:
        return self._rpc.broken(error)

    def _hear(self, message: RpcMessage) -> None:
        self._rpc.take([message])

    def _on_notice(self, notice: RpcNotice) -> None:
        params = notice.params
        thread = params.get("threadId", self._thread)
        parent = self._children.get(thread)
        if self._work is None or thread != self._thread and parent is None:
            return  # late messages of an interrupted turn belong to no turn
        if parent is None and params.get("turnId", self._turn_id) != self._turn_id:
            return  # of an earlier turn: a resumed thread first reports what it used before
        match notice.method:
            case "item/agentMessage/delta":
                self._streamed.add(params["itemId"])
                self.emit(events.TextDelta(text=params["delta"], parent=parent))
            case "item/reasoning/summaryTextDelta" | "item/reasoning/textDelta":
                self.emit(events.ThinkingDelta(text=params["delta"], parent=parent))
            case "item/commandExecution/outputDelta":
                self._release(params["itemId"])
                self.emit(events.ToolOutput(call=params["itemId"], text=str(params["delta"]), parent=parent))
            case "item/started":
                self._started(params["item"], parent)
            case "item/completed":
                self._completed(params["item"], parent)
            case "thread/tokenUsage/updated" if parent is not None:
                self.spend(reading.usage(params["tokenUsage"]["last"], self._model))
            case _ if parent is None:
                self._on_turn_notice(notice.method, params)

    def _on_turn_notice(self, method: str, params: dict[str, Any]) -> None:
        match method:
            case "rawResponseItem/completed":
                self._raw_item(params["item"])
            case "thread/tokenUsage/updated":
                self.step()
                usage = reading.usage(params["tokenUsage"]["last"], self._model)
                window, used = params["tokenUsage"].get("modelContextWindow"), usage.prompt_tokens + usage.output_tokens
                self._info = msgspec.structs.replace(self._info, context_window=window, context_used=used)
                self.spend(usage)
            case "turn/started":
                self._turn_id = params["turn"]["id"]
            case "turn/completed":
                self._ended(turn if isinstance(turn := params.get("turn"), dict) else {})
            case "account/rateLimits/updated":
                self.limited_until = reading.reset_of(params.get("rateLimits"))
            case "error":
                self._failing(params)
            case "warning":
                self.emit(events.Warned(message=str(params.get("message")), code="agent"))
            case "model/rerouted":
                self._model = str(params.get("toModel") or self._model)
                self.emit(events.ModelRouted(model=self._model))

    def _failing(self, params: dict[str, Any]) -> None:
        info = reading.error_info(params.get("error"))
        if params.get("willRetry"):
            self.emit(events.Retrying(attempt=1, delay_ms=0, error=info))
        else:
            self.error(info)

    def _ended(self, turn: dict[str, Any]) -> None:
        if turn.get("id", self._turn_id) != self._turn_id or self._work is None:
            return
        ours = self._work.turn
        for id in [*self._held]:
            self._release(id)
        match turn.get("status"):
            case "completed":
                self.over(ours.ending("completed"))
            case "interrupted":
                self.over(ours.ending("interrupted"))
            case _:
                self.over(ours.ending("failed", reading.error_info(turn.get("error"))))

    # Items

    def _about(self, item: dict[str, Any]) -> Access:
        kind = str(item.get("type"))
        name, args = reading.tool_name(item), reading.tool_args(item)
        if kind == "commandExecution":
            return self.access(name, args, "execute", command=reading.plain_command(item.get("command")))
        if kind in ("mcpToolCall", "dynamicToolCall"):
            guessed = access_of(name, args)
            return self.access(name, args, guessed.kind, guessed.paths, command=guessed.command, url=guessed.url)
        return self.access(name, args, reading.TOOLS[kind][1], reading.paths(item))

    def _started(self, item: dict[str, Any], parent: str | None) -> None:
        if item.get("type") in reading.TOOLS:
            id = item["id"]
            self._items[id] = item
            if parent is not None:
                self._parents[id] = parent
            loop = asyncio.get_running_loop()
            self._held[id] = loop.call_later(HELD_SECONDS, self._release, id)

    def _release(self, id: str) -> None:
        """It was not asked about, or it was allowed: it runs."""
        if (timer := self._held.pop(id, None)) is not None:
            timer.cancel()
            item = self._items[id]
            self.tool_started(id, reading.tool_name(item), self._about(item), self._parents.get(id))

    def _completed(self, item: dict[str, Any], parent: str | None) -> None:
        match item.get("type"):
            case "agentMessage":
                text = item["text"]
                if item["id"] not in self._streamed and text:
                    self.emit(events.TextDelta(text=text, parent=parent))
                self.emit(events.Message(text=text, model=self._model, parent=parent))
                if self._work is not None and parent is None:
                    self._work.turn.text = text
            case "reasoning":
                if text := "\n".join(map(str, item.get("summary") or [])):
                    self.emit(events.Message(text=text, kind="thinking", model=self._model, parent=parent))
            case kind if kind in reading.TOOLS:
                if kind == "collabAgentToolCall" and item.get("tool") == "spawnAgent":
                    self._children |= dict.fromkeys(map(str, item.get("receiverThreadIds") or []), item["id"])
                self._tool_completed(item)

    def _tool_completed(self, item: dict[str, Any]) -> None:
        id = item["id"]
        self._items.setdefault(id, item)
        self._raw.pop(id, None)
        access, name, text = self._about(item), reading.tool_name(item), reading.result_text(item)
        parent = self._parents.get(id)
        if item.get("status") == "declined":
            self._forget(id)
            self.tool_denied(id, name, "codex did not run it", "hook", access.args, parent)
            return
        if id in self._denied:
            return
        self._release(id)
        self.tool_started(id, name, access, parent)
        ok = item.get("status") == "completed"
        if item.get("type") == "commandExecution":
            code = item.get("exitCode")
            code = code if isinstance(code, int) else None
            command = access.command or ""
            self.emit(events.CommandRun(command=command, exit_code=code, output=text, call=id, parent=parent))
            ok = ok and not code
        elif item.get("type") == "fileChange" and ok:
            for change in reading.file_changes(item):
                self.emit(msgspec.structs.replace(change, parent=parent))
        self.tool_ended(id, text, ok, parent)

    def _raw_item(self, item: dict[str, Any]) -> None:
        """A command that fails in its sandbox makes no item: the raw events are the only trace of it."""
        id = item.get("call_id")
        if not isinstance(id, str):
            return
        if item.get("type") in ("function_call", "custom_tool_call", "local_shell_call"):
            self._raw[id] = item
        elif item.get("type") in ("function_call_output", "custom_tool_call_output"):
            call = self._raw.pop(id, None)
            if call is None or id in self._items or id in self._denied or id in self._tools:
                return
            name, args = str(call.get("name")), _arguments(call)
            guessed = access_of(name, args)
            access = self.access(name, args, guessed.kind, guessed.paths, command=guessed.command)
            output = item.get("output")
            self.tool_started(id, name, access)
            self.tool_ended(id, output if isinstance(output, str) else str(output), ok=False)

    def _forget(self, id: str) -> None:
        if (timer := self._held.pop(id, None)) is not None:
            timer.cancel()

    # What it asks

    async def _answer_call(self, call: RpcCall) -> Any:
        params = call.params
        match call.method:
            case "item/commandExecution/requestApproval" | "item/fileChange/requestApproval":
                return {"decision": await self._decide(params)}
            case "item/tool/requestUserInput":
                return {"answers": await self._questions_of(params)}
            case "mcpServer/elicitation/request":
                return await self._elicited(params)
            case "execCommandApproval" | "applyPatchApproval":
                return {"decision": "denied"}
        raise Fault(METHOD_NOT_FOUND, f"{call.method} is not supported")

    async def _decide(self, params: dict[str, Any]) -> str:
        id = str(params.get("itemId"))
        if (timer := self._held.get(id)) is not None:
            timer.cancel()
        item = self._items.get(id) or {"type": "commandExecution", "id": id, "command": params.get("command")}
        if item.get("type") == "commandExecution" and params.get("command"):
            item = {**item, "command": params["command"]}
            if id in self._items:
                self._items[id] = item  # what is allowed is what is reported as started
        access = self._about(item)
        reason = str(params.get("reason") or "")
        answer = await self.permit(access, call=id, text=reason, parent=self._parents.get(id))
        if answer.decision == "deny":
            self._forget(id)
            if answer.text and answer.by not in OURS:
                self.job(self._explain(f"About the call that was refused: {answer.text}"))
            return "decline"
        self._release(id)
        return "accept" if answer.scope == "once" else "acceptForSession"

    async def _explain(self, words: str) -> None:
        """A refusal carries no words, so those of the person are added to the turn."""
        if self._current is not None and not await self._steer(self._current, words):
            self.emit(events.Warned(message=f"codex did not receive the reason: {words}", code="not_told"))

    async def _elicited(self, params: dict[str, Any]) -> dict[str, Any]:
        """Codex asks in this way whether a tool of an MCP server may run. Questions of a server itself are declined."""
        about, text = params.get("_meta"), str(params.get("message") or "")
        call = next((id for id, item in self._items.items() if self._is_asked_about(id, item, params)), None)
        if call is None or not isinstance(about, dict) or about.get("codex_approval_kind") != "mcp_tool_call":
            return {"action": "decline"}
        decided = await self._decide({"itemId": call, "reason": text})
        return {"action": "decline"} if decided == "decline" else {"action": "accept", "content": {}}

    def _is_asked_about(self, id: str, item: dict[str, Any], params: dict[str, Any]) -> bool:
        """It names the server and, in its words, the tool, but not which of several calls."""
        if item.get("type") != "mcpToolCall" or item.get("server") != params.get("serverName"):
            return False
        return f'"{item.get("tool")}"' in str(params.get("message")) and (id in self._held or id in self._tools)

    async def _questions_of(self, params: dict[str, Any]) -> dict[str, Any]:
        answers = {}
        for question in params.get("questions") or []:
            text, options = str(question.get("question")), question.get("options") or []
            labels = tuple(str(option.get("label")) for option in options if isinstance(option, dict))
            access = Access(tool="request_user_input", kind="read", args=question)
            answer: Answer = await self.permit(
                access, call=str(params.get("itemId")), text=text, kind="question", options=labels
            )
            texts = [answer.text] if answer.decision == "allow" and answer.text else []
            answers[str(question.get("id"))] = {"answers": texts}
        return answers

    # Model and mode

    async def _configure(self, change: Change) -> None:
        if change.model is not None:
            self.spec = msgspec.structs.replace(self.spec, model=change.model)
            self._model = change.model
            self._info = msgspec.structs.replace(self._info, models=(change.model,))
        if change.mode is not None:
            self.rebind(change.mode)
        if change.thinking is not None:
            changed_effort("codex", change.thinking, EFFORTS)
            self.spec = msgspec.structs.replace(self.spec, thinking=change.thinking)


def _server(entry: dict[str, Any]) -> dict[str, Any]:
    """An entry of a `.mcp.json` in the form of Codex's settings."""
    if entry.get("url"):
        return {"url": entry["url"], "http_headers": entry.get("headers") or {}}
    return {name: entry[name] for name in ("command", "args", "env", "cwd") if name in entry}


def _arguments(call: dict[str, Any]) -> Any:
    text = call.get("arguments") or call.get("input")
    if not isinstance(text, str):
        return call.get("action")
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return {"input": text}


class CodexAgent(DrivenAgent):
    async def _open(self, spec: SessionSpec, env: dict[str, str]) -> CodexSession:
        peer = await self.start(list(self.launch.argv), Connection("host"), spec, env)
        session = CodexSession(self.card, spec, peer, self.launch.options)
        await session.shake_hands()
        return session

    async def stored_sessions(self, cwd: str | None = None) -> list[StoredSession]:
        """The threads that it lists, requested from a separate process."""
        spec = SessionSpec(cwd=cwd or here())
        peer = await self.start(list(self.launch.argv), Connection("host"), spec, self.env({}))
        session = CodexSession(self.card, spec, peer, self.launch.options)
        try:
            await session.greet()
            return await session.stored_sessions(cwd)
        finally:
            await session.close()
