"""pi as an Agent. Prompts and instructions go over its input, not on its command line."""

import asyncio
import itertools
import os.path
from functools import partial
from typing import Any

import msgspec

from treadle import events
from treadle.drivers.agent import DrivenAgent
from treadle.drivers.card import Card
from treadle.drivers.session import DrivenSession
from treadle.errors import RemoteError, RemoteProtocolError, TreadleError, Unsupported
from treadle.io.peer import Peer
from treadle.policy.guess import access_of
from treadle.session import Access, Change, SessionSpec
from treadle.sessions.abilities import changed_effort, effort_of
from treadle.sessions.session import Turn
from treadle.wire.acp.connection import image_block
from treadle.wire.pi import connection as reading
from treadle.wire.pi.connection import ANSWER, Command, Connection, PiMessage

# A session of pi. It never asks by itself; an extension that we load into it asks us before each tool.

MARK = "treadle:"
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")


class PiSession(DrivenSession):
    OBEYS = True

    def __init__(self, session_id: str, card: Card, spec: SessionSpec, peer: Peer[Any, Any]) -> None:
        super().__init__(session_id, card, spec, peer)
        self._ids = itertools.count(1)
        self._waiting: dict[str, asyncio.Future[Any]] = {}
        self._calls: dict[str, tuple[str, Any]] = {}
        """Announced tool calls: name and arguments."""
        self._existed: dict[str, bool] = {}
        self._outputs: dict[str, str] = {}
        self._error = ""
        """The error of the last reply of this turn."""
        self._stopping = False
        self._retried = False
        self._begun = False

    # The handshake

    async def shake_hands(self) -> None:
        async with self.peer.handshake("did not answer get_state"):
            state = await self._request("get_state")
        if not isinstance(state, dict) or not isinstance(state.get("sessionId"), str):
            raise await self.peer.blame(RemoteProtocolError, "has no id for its session")
        self._id = state["sessionId"]
        model = state.get("model")
        if isinstance(model, dict):
            self._info = msgspec.structs.replace(self._info, models=(f"{model.get('provider')}/{model.get('id')}",))

    async def account(self) -> str | None:
        answer = await self._request("get_available_models")
        models = answer.get("models") if isinstance(answer, dict) else None
        providers = {str(each.get("provider")) for each in models or [] if isinstance(each, dict)}
        return ", ".join(sorted(providers))

    async def _request(self, type: str, **fields: Any) -> Any:
        id = f"treadle-{next(self._ids)}"
        answer = self._waiting[id] = asyncio.get_running_loop().create_future()
        try:
            await self.peer.say(Command(type=type, id=id, **fields))
            return await answer
        finally:
            del self._waiting[id]
            if not answer.cancel() and not answer.cancelled():
                answer.exception()  # where saying it failed, too, no one else reads this

    def _part(self, error: TreadleError) -> None:
        super()._part(error)
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(error)

    # Turns

    async def _begin(self, turn: Turn) -> None:
        self._calls.clear()
        self._outputs.clear()
        self._error, self._stopping, self._retried, self._begun = "", False, False, False
        await self._request("prompt", message=turn.prompt.text, images=tuple(map(image_block, turn.prompt.images)))

    async def _stop(self, turn: Turn) -> None:
        self._stopping = True
        await self._request("abort")

    async def _steer(self, turn: Turn, text: str) -> bool:
        if self._work is None or self._stopping:
            return False
        try:
            await self._request("steer", message=text)
        except RemoteError:
            return False
        return True

    def _hear(self, message: PiMessage) -> None:
        match message.type:
            case "message_update":
                piece = message.assistantMessageEvent
                if piece is not None and piece.delta:
                    if piece.type == "text_delta":
                        self.emit(events.TextDelta(text=piece.delta))
                    elif piece.type == "thinking_delta":
                        self.emit(events.ThinkingDelta(text=piece.delta))
            case "response":
                self._answered(message)
            case "extension_ui_request":
                self.job(self._asked(message))
            case "agent_start":
                self._begun = True
            case "message_end":
                self._message(message.message)
            case "tool_execution_start":
                self._calls[message.toolCallId] = message.toolName, message.args
            case "tool_execution_update":
                self._output(message)
            case "tool_execution_end":
                self._tool_ended(message)
            case "agent_end":
                self._ended()
            case "auto_retry_start":
                self._retried = True
                info = reading.error_info(message.errorMessage or "")
                self.emit(events.Retrying(attempt=message.attempt, delay_ms=message.delayMs, error=info))
            case "compaction_end" if isinstance(message.result, dict):
                before = message.result.get("tokensBefore")
                summary = str(message.result.get("summary") or "")
                self.emit(events.ContextCompacted(tokens_before=before or 0, tokens_after=0, summary=summary))
            case "extension_error":
                self.emit(events.Warned(message=f"an extension of pi failed: {message.error}", code="agent"))

    def _message(self, message: Any) -> None:
        if not isinstance(message, dict) or message.get("role") != "assistant":
            return
        model = str(message.get("model") or "")
        if thinking := reading.thinking_of(message):
            self.emit(events.Message(text=thinking, kind="thinking", model=model))
        if text := reading.text_of(message):
            self.emit(events.Message(text=text, model=model))
            if self._work is not None:
                self._work.turn.text = text
        self._error = str(message.get("errorMessage") or "") if message.get("stopReason") == "error" else ""
        if (usage := reading.usage(message)) is not None:
            self.step()
            self.spend(usage)

    def _ended(self) -> None:
        if self._work is None or not self._begun:
            return
        if self._error and not self._stopping:
            self._retried = False
            self.job(self._failed(self._error))
        else:
            self.over(self._work.turn.ending("interrupted" if self._stopping else "completed"))

    async def _failed(self, message: str) -> None:
        """It may retry by itself, and says so right after the end: any answer now comes after that notice."""
        await self._request("get_state")
        if not self._retried and self._work is not None:
            self.over(self._work.turn.ending("failed", reading.error_info(message)))

    def _answered(self, message: PiMessage) -> None:
        waiting = self._waiting.get(message.id or "")
        if waiting is None or waiting.done():
            return
        if message.success:
            waiting.set_result(message.data)
        else:
            waiting.set_exception(RemoteError(f"pi refused {message.command}: {message.error or 'it gave no reason'}"))

    # Tools

    def _about(self, name: str, args: Any) -> Access:
        guessed = access_of(name, args)
        kind = reading.KINDS.get(name, guessed.kind)
        return self.access(name, args, kind, guessed.paths, command=guessed.command, url=guessed.url)

    async def _asked(self, message: PiMessage) -> None:
        if message.method not in ("input", "confirm", "select", "editor"):
            return
        answer: dict[str, Any] | None = None
        if message.title == f"{MARK}instructions":
            given = self.spec.instructions
            answer = {name: text for name, text in (("system", given.system), ("append", given.append)) if text}
        elif message.title == f"{MARK}tool":
            answer = await self._judge(msgspec.json.decode(message.placeholder or "{}"))
        if answer is None:  # an extension of the person's own asks, and there is no one to show its dialog to
            await self.peer.say(Command(type=ANSWER, id=message.id or "", cancelled=True))
        else:
            await self.peer.say(Command(type=ANSWER, id=message.id or "", value=msgspec.json.encode(answer).decode()))

    async def _judge(self, asked: dict[str, Any]) -> dict[str, Any]:
        call, name, args = str(asked.get("call")), str(asked.get("tool")), asked.get("input")
        access = self._about(name, args)
        answer = await self.permit(access, call=call, about=partial(self._about, name))
        if answer.decision == "deny":
            return {"allow": False, "reason": answer.text or "the person said no"}
        changed = answer.changed_args
        access = access if changed is None else self._about(name, changed)
        self._existed[call] = bool(access.paths) and os.path.exists(access.paths[0])
        self._calls[call] = name, access.args
        self.tool_started(call, name, access)
        return {"allow": True} if changed is None else {"allow": True, "input": changed}

    def _output(self, message: PiMessage) -> None:
        """It sends the whole output each time; only what is new is passed on."""
        text, before = reading.text_of(message.partialResult), self._outputs.get(message.toolCallId, "")
        if message.toolCallId in self._tools and text.startswith(before) and len(text) > len(before):
            self._outputs[message.toolCallId] = text
            self.emit(events.ToolOutput(call=message.toolCallId, text=text[len(before) :]))

    def _tool_ended(self, message: PiMessage) -> None:
        call = message.toolCallId
        name, args = self._calls.pop(call, (message.toolName, message.args))
        self._outputs.pop(call, None)
        if call in self._denied:
            return
        access, text = self._about(name, args), reading.text_of(message.result)
        self.tool_started(call, name, access)
        if name == "bash" and access.command is not None:
            code = None if message.isError else 0
            self.emit(events.CommandRun(command=access.command, exit_code=code, output=text, call=call))
        elif access.kind == "write" and not message.isError and access.paths:
            self.emit(self._change(call, access, message.result))
        self.tool_ended(call, text, not message.isError)

    def _change(self, call: str, access: Access, result: Any) -> events.FileChanged:
        existed = self._existed.pop(call, True)
        details = result.get("details") if isinstance(result, dict) else None
        diff = str(details.get("diff") or "") if isinstance(details, dict) else ""
        content = access.args.get("content") if isinstance(access.args, dict) else None
        if not existed and isinstance(content, str):
            lines = content.splitlines()
            head = f"--- /dev/null\n+++ {access.paths[0]}\n@@ -0,0 +1,{len(lines)} @@\n"
            diff = head + "".join(f"+{line}\n" for line in lines)
        return events.FileChanged(path=access.paths[0], change="modified" if existed else "added", diff=diff, call=call)

    # Model and mode

    async def _configure(self, change: Change) -> None:
        if change.model is not None:
            provider, slash, model = change.model.partition("/")
            if not slash:
                raise RemoteError(f"pi names models as PROVIDER/MODEL, not {change.model!r}")
            await self._request("set_model", provider=provider, modelId=model)
            self._info = msgspec.structs.replace(self._info, models=(change.model,))
        if change.mode is not None:
            self.rebind(change.mode)
        if change.thinking is not None:
            effort = changed_effort("pi", change.thinking, EFFORTS)
            await self._request("set_thinking_level", level=level_of(effort))


def level_of(effort: str) -> str:
    """An effort in pi's words."""
    return "off" if effort == "none" else effort


EXTENSION = os.path.join(os.path.dirname(__file__), "extension.mjs")
NAMES = {"read_file": "read", "write_file": "write", "edit_file": "edit", "glob": "find"}
"""Our names for tools that pi has too."""
OFFERED = ("read", "bash", "edit", "write")
"""What it offers its model by itself."""


class PiAgent(DrivenAgent):
    async def _open(self, spec: SessionSpec, env: dict[str, str]) -> PiSession:
        argv = [*self.launch.argv, "--extension", EXTENSION, *_options(spec)]
        peer = await self.start(argv, Connection("host"), spec, env)
        session = PiSession("", self.card, spec, peer)
        await session.shake_hands()
        return session


def _options(spec: SessionSpec) -> list[str]:
    argv = ["--model", spec.model] if spec.model else []
    if effort := effort_of("pi", spec.thinking, EFFORTS):
        argv += ["--thinking", level_of(effort)]
    start = spec.start
    if start.resume is not None:
        if not start.persist:
            raise Unsupported("pi always saves a resumed session", hint="drop --no-session-persistence")
        if start.resume == "" and start.fork:
            raise Unsupported("pi can copy only a session that is named by its id", hint="--resume ID --fork-session")
        if start.resume == "":
            argv.append("--continue")
        else:
            argv += ["--fork" if start.fork else "--session", start.resume]
    elif not start.persist:
        argv.append("--no-session")
    if spec.tools.offered is not None or spec.tools.denied:
        offered = OFFERED if spec.tools.offered is None else [NAMES.get(name, name) for name in spec.tools.offered]
        denied = {NAMES.get(name, name) for name in spec.tools.denied}
        argv += ["--tools", ",".join(name for name in offered if name not in denied)]
    return argv
