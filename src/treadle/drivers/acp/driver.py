"""Any program that speaks the Agent Client Protocol as an Agent."""

import asyncio
import codecs
import os
import os.path
import shlex
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from typing import Any

import msgspec

from treadle import __version__, session
from treadle.drivers.acp import options
from treadle.drivers.acp.options import DENIED, NOT_FOUND, traits_of
from treadle.drivers.agent import DrivenAgent
from treadle.drivers.card import Card
from treadle.drivers.confined import in_a_file
from treadle.drivers.session import OURS, DrivenSession
from treadle.errors import (
    Denied,
    RemoteError,
    RemoteProtocolError,
    StorageError,
    TreadleError,
    Unsupported,
    VersionMismatch,
)
from treadle.events import (
    CommandRun,
    Event,
    FileChanged,
    TextDelta,
    ToolDenied,
    ToolEnded,
    ToolOutput,
    ToolStarted,
    Usage,
    Warned,
)
from treadle.io import files
from treadle.io.paths import DISK, here
from treadle.io.peer import Peer
from treadle.io.process.child import Child, Tail
from treadle.io.rpc import CallFailed, Rpc
from treadle.io.sandbox.start import start
from treadle.io.tasks import end_tasks, within
from treadle.policy.environment import reduced
from treadle.policy.guess import access_of
from treadle.policy.rules import RuleSet, is_under
from treadle.sandboxed.confining import Confining
from treadle.session import Access, AgentInfo, SessionSpec, StoredSession
from treadle.sessions.session import Turn
from treadle.wire.acp.connection import (
    PROTOCOL_VERSION,
    Connection,
    as_list,
    image_block,
    text_block,
    texts_in,
)
from treadle.wire.acp.tools import DENIED as tools_DENIED
from treadle.wire.acp.tools import ToolRecord, UsageMeter, unified
from treadle.wire.acp.translation import AcpIncoming, HistoryReplay, instructed
from treadle.wire.common.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, Fault
from treadle.wire.common.rpc import RpcCall, RpcNotice

# Files and commands that an agent reads, writes and runs through us: under our rules, and reported as events.

MOST = 8 << 20
"""The largest file in bytes that an agent is given, so that the answer fits on a line."""


class Files:
    def __init__(self, host: "AcpSession") -> None:
        self._host = host
        self._calls = 0
        self.written: set[str] = set()
        """What was written in this turn, by its real path."""

    async def read(self, params: dict[str, Any]) -> dict[str, Any]:
        path = self._path(params)
        if not os.path.lexists(path):  # agents look for many files, and no one wants to be asked about each
            raise Fault(NOT_FOUND, f"no such file: {path}")
        await self._host.use(Access(tool="read", kind="read", paths=(path,)), self._call())
        text = await asyncio.to_thread(_read, path)
        line, limit = params.get("line"), params.get("limit")
        if isinstance(line, int) or isinstance(limit, int):
            lines = text.splitlines(keepends=True)
            first = max(line - 1, 0) if isinstance(line, int) else 0
            text = "".join(lines[first : first + limit] if isinstance(limit, int) else lines[first:])
        return {"content": text}

    async def write(self, params: dict[str, Any]) -> dict[str, Any]:
        path, content = self._path(params), params.get("content")
        if not isinstance(content, str):
            raise Fault(INVALID_PARAMS, "content must be a text")
        args = {"file_path": path, "content": content}
        call = await self._host.use(Access(tool="write", kind="write", paths=(path,), args=args), self._call())
        writing = self._host.spec.guards.writing
        try:
            with writing((os.path.realpath(path),)) if writing is not None else nullcontext():
                old = await asyncio.to_thread(_write, path, content)
        except Denied as error:
            raise Fault(DENIED, f"not allowed: {error}") from error
        self.written.add(os.path.realpath(path))
        change = unified(path, old or "", content)
        event = FileChanged(path=path, change="added" if old is None else "modified", diff=change, call=call)
        self._host.emit(event)
        return {}

    def _path(self, params: dict[str, Any]) -> str:
        path = params.get("path")
        if not isinstance(path, str) or "\0" in path:
            raise Fault(INVALID_PARAMS, "path must be a text")
        return os.path.normpath(os.path.join(self._host.spec.cwd, path))

    def _call(self) -> str:
        self._calls += 1
        return f"fs-{self._calls}"


def _read(path: str) -> str:
    try:
        data = files.read_at_most(path, MOST + 1)
    except FileNotFoundError:
        raise Fault(NOT_FOUND, f"no such file: {path}") from None
    except OSError as error:
        raise Fault(INTERNAL_ERROR, f"{path} cannot be read: {error.strerror}") from error
    if len(data) > MOST:
        raise Fault(INTERNAL_ERROR, f"{path} is larger than {MOST} bytes")
    return data.decode("utf-8", "replace")


def _write(path: str, content: str) -> str | None:
    """Write the file. Returns what was there before; None when there was nothing."""
    try:
        old = files.read_at_most(path, MOST).decode("utf-8", "replace")
    except FileNotFoundError:
        old = None
    except OSError as error:
        raise Fault(INTERNAL_ERROR, f"{path} cannot be written: {error.strerror}") from error
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        files.write_atomic(path, content.encode("utf-8", "replace"), 0o644, keep_mode=True)
    except (OSError, StorageError) as error:
        raise Fault(INTERNAL_ERROR, f"{path} cannot be written: {error}") from error
    return old


# Commands that an agent runs through us: checked by our rules, run under our keeper, ended with the session.

OUTPUT = 1 << 20
"""How many bytes of output are kept when the agent does not say."""
STOP_GRACE = 1.0
"""How many seconds a command has to end by itself when its turn is stopped."""


class Terminal:
    def __init__(self, child: Child, limit: int) -> None:
        self.child = child
        self.output = Tail(limit)
        self.on_text: Callable[[str], None] | None = None
        """Called with each piece of output, once it is known which call it belongs to."""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        while data := await self.child.stdio.read():
            self.output.feed(data)
            if self.on_text is not None and (text := self._decoder.decode(data)):
                self.on_text(text)

    def attach(self, on_text: Callable[[str], None]) -> None:
        if self.on_text is None:
            self.on_text = on_text
            if text := self._decoder.decode(self.output.content):
                on_text(text)

    async def wait(self) -> dict[str, Any]:
        await self.child.wait()
        await asyncio.wait([self.reading], timeout=1.0)
        return self.status() or {}

    def status(self) -> dict[str, Any] | None:
        code = self.child.exit_code
        if code is None:
            return None
        return {"exitCode": code, "signal": None} if code >= 0 else {"exitCode": None, "signal": str(-code)}

    async def end(self) -> None:
        await self.child.stop()
        await end_tasks(self.reading)
        self.child.close()


class Terminals:
    def __init__(self, host: "AcpSession") -> None:
        self._host = host
        self._open: dict[str, Terminal] = {}
        self._ended: dict[str, Terminal] = {}
        """Terminals released in this turn: the call that used one may end later."""
        self._made = 0
        self._before: set[str] = set()
        """Terminals that were open when the turn began."""
        self._stopped = False

    def begin(self) -> None:
        """A turn begins."""
        self._ended.clear()
        self._before = set(self._open)
        self._stopped = False

    async def stop(self) -> None:
        """The turn is stopped, so end what it runs. Not every agent does, least of all when it has just begun."""
        self._stopped = True
        fresh = [terminal for name, terminal in self._open.items() if name not in self._before]
        await asyncio.gather(*(terminal.child.stop(STOP_GRACE) for terminal in fresh))

    def find(self, name: str) -> Terminal | None:
        return self._open.get(name) or self._ended.get(name)

    async def answer(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method == "terminal/create":
            return await self._create(params)
        terminal = self._open.get(str(params.get("terminalId")))
        if terminal is None:
            raise Fault(NOT_FOUND, f"there is no terminal {params.get('terminalId')!r}")
        match method:
            case "terminal/output":
                return _output(terminal)
            case "terminal/wait_for_exit":
                return await terminal.wait()
            case "terminal/kill":
                await terminal.child.stop()
                return {}
            case "terminal/release":
                await self._release(str(params["terminalId"]))
                return {}
        raise Fault(METHOD_NOT_FOUND, f"unknown method: {method}")

    async def _create(self, params: dict[str, Any]) -> dict[str, Any]:
        command, args = params.get("command"), params.get("args") or []
        if not isinstance(command, str) or not command or not _all_texts(args):
            raise Fault(INVALID_PARAMS, "a terminal needs a command, and arguments that are texts")
        # With arguments it is a program; without, agents send a whole line for a shell.
        argv = [command, *args] if args else ["/bin/sh", "-c", command]
        line = shlex.join(argv) if args else command
        spec = self._host.spec
        cwd = os.path.realpath(os.path.join(spec.cwd, str(params.get("cwd") or "")))
        if not any(is_under(cwd, os.path.realpath(base)) for base in (spec.cwd, *spec.add_dirs)):
            raise Fault(INVALID_PARAMS, f"{cwd} is outside of the workspace")
        self._made += 1
        name = f"terminal-{self._made}"
        await self._host.use(Access(tool="bash", kind="execute", command=line, args={"command": line}), name)
        limit = params.get("outputByteLimit")
        try:
            child = await start(
                self._host.confined(),
                argv,
                cwd=cwd,
                env={**reduced(os.environ), **spec.env, **_variables(params.get("env"))},
                stderr="stdout",
            )
        except TreadleError as error:
            raise Fault(INVALID_PARAMS, str(error)) from error
        self._open[name] = Terminal(child, limit if isinstance(limit, int) and 0 < limit < OUTPUT else OUTPUT)
        if self._stopped:  # it was stopped while the command was being started
            await self.stop()
        return {"terminalId": name}

    async def _release(self, name: str) -> None:
        terminal = self._ended[name] = self._open.pop(name)
        await terminal.end()

    async def close(self) -> None:
        while self._open:
            await self._release(next(iter(self._open)))


def _output(terminal: Terminal) -> dict[str, Any]:
    text = terminal.output.text
    status = terminal.status()
    answer: dict[str, Any] = {"output": text, "truncated": terminal.output.dropped > 0}
    return answer if status is None else {**answer, "exitStatus": status}


def _all_texts(args: Any) -> bool:
    return isinstance(args, list) and all(isinstance(arg, str) for arg in args)


def _variables(entries: Any) -> dict[str, str]:
    return {
        one["name"]: one["value"]
        for one in (entries if isinstance(entries, list) else [])
        if isinstance(one, dict) and isinstance(one.get("name"), str) and isinstance(one.get("value"), str)
    }


# A session of an agent that speaks the Agent Client Protocol.
#
# Its updates become our events, our rules decide about the permissions it asks for, and it gets files and terminals
# from us inside the workspace, under the same rules.

UNASKED = 0.5
"""After this many seconds without a question, an announced call is taken to be running."""


class AcpSession(DrivenSession):
    OBEYS = True

    def __init__(
        self,
        card: Card,
        spec: session.SessionSpec,
        peer: Peer[Any, Any],
        *,
        name: str,
        confining: Confining,
        env: Mapping[str, str],
    ) -> None:
        super().__init__("", card, spec, peer)
        self._name = name
        self._env = env
        self.methods: tuple[options.SignIn, ...] = ()
        """How one can sign in to it, once it has greeted us."""
        self._confining = confining
        self._rpc = Rpc(peer.say, answer=self._answer, notice=self._notice)
        self._traits = traits_of("")
        self._can: dict[str, Any] = {}
        self._incoming = AcpIncoming(access_of, UsageMeter())
        self._replay: HistoryReplay | None = None
        self._past: list[Event] = []
        self._setup = options.Setup({})
        self._prompting: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._refused = False  # whether it has said that it ends the turn because a call was denied
        self._instructed = spec.start.resume is not None
        self._unsent: list[str] = []
        """Why calls were refused, in a person's words: the protocol has no place for them but the next prompt."""
        self._asking: set[str] = set()  # calls whose permission is being asked
        self._files = Files(self)
        self._terminals = Terminals(self)

    # The handshake

    async def shake_hands(self) -> None:
        async with self.peer.handshake("did not open a session"):
            await self._greet()
            await options.opened(self._name, self._rpc, self.methods, self._env, self._open)
            await self._prepare()
        self.warn_of_drift()
        self._warn_of_limits()

    async def greet(self) -> None:
        """Find out about it without opening a session."""
        async with self.peer.handshake("did not answer its greeting"):
            await self._greet()

    async def sign_in(self, method: str) -> None:
        try:
            await self._rpc.call("authenticate", {"methodId": method})
        except CallFailed as error:
            raise options.of_call(self._name, error) from error

    async def _greet(self) -> None:
        greeting = await self._rpc.call(
            "initialize",
            {
                "protocolVersion": PROTOCOL_VERSION,
                "clientCapabilities": self._offer(),
                "clientInfo": {"name": "treadle", "title": "Treadle", "version": __version__},
            },
        )
        greeting = greeting if isinstance(greeting, dict) else {}
        if (speaks := greeting.get("protocolVersion")) != PROTOCOL_VERSION:
            raise VersionMismatch(f"{self._name} speaks version {speaks!r} of the protocol, we {PROTOCOL_VERSION}")
        info: dict[str, Any] = found if isinstance(found := greeting.get("agentInfo"), dict) else {}
        self._traits = traits_of(str(info.get("name") or ""))
        self._can = greeting["agentCapabilities"] if isinstance(greeting.get("agentCapabilities"), dict) else {}
        self.methods = options.offered(greeting)
        self._incoming.meter.span = self._traits.counts
        can = {**self._info.capabilities, "images": options.images(self._can)}
        if self.card.prefix or self.card.untested:
            can |= options.continuing(self._can)
        self._info = msgspec.structs.replace(self._info, name=self._name, version=str(info.get("version") or ""))
        self.narrow(can)

    def _offer(self) -> dict[str, Any]:
        """Decided by the name on the card: the agent's own name comes only with the answer."""
        offered = self.card.name not in options.KEEPS_TO_ITSELF
        files = {"readTextFile": offered, "writeTextFile": offered}
        return {"fs": files, "terminal": offered, "_meta": {tools_DENIED: True}}

    async def _open(self) -> None:
        """Open a new session, resume one, or copy one."""
        in_a_file = bool(self.card.servers_file)
        servers, left = options.reachable({} if in_a_file else self.spec.tools.servers, self._can)
        if left:
            why = f"{self._name} cannot reach the MCP servers {', '.join(left)}: it takes none of that kind"
            self.emit(Warned(message=why, code="not_used"))
        params: dict[str, Any] = {"cwd": self.spec.cwd, "mcpServers": as_list(servers)}
        if self.spec.add_dirs and self._offers_session("additionalDirectories"):
            params["additionalDirectories"] = list(self.spec.add_dirs)
        start = self.spec.start
        if start.resume is None:
            answer = await self._rpc.call("session/new", params)
        else:
            params["sessionId"] = start.resume or options.newest(await self.stored_sessions(self.spec.cwd), self._name)
            answer = await self._go_on(params, fork=start.fork)
        self._setup = options.Setup(answer if isinstance(answer, dict) else {})
        self._id = self._setup.id or str(params.get("sessionId") or "")
        if not self._id:
            raise RemoteError(f"{self._name} opened a session without an id")

    async def _go_on(self, params: dict[str, Any], *, fork: bool) -> Any:
        if fork:
            if not self._offers_session("fork"):
                raise Unsupported(f"{self._name} cannot fork a session")
            return await self._rpc.call("session/fork", params)
        self._id = params["sessionId"]
        if self._can.get("loadSession") and self._traits.loads:
            self._replay = HistoryReplay(self._incoming)
            try:
                return await self._rpc.call("session/load", params)
            finally:
                self._past, self._replay = self._replay.finish(), None
                self._incoming.meter.resumed()
        if self._offers_session("resume"):
            return await self._rpc.call("session/resume", params)
        why = "" if self._traits.loads else ": its session/load destroys the session that it should load"
        raise Unsupported(f"{self._name} cannot resume an earlier session{why}")

    async def stored_sessions(self, cwd: str | None = None) -> list[session.StoredSession]:
        """The sessions that the agent lists."""
        if not self._offers_session("list"):
            return []
        answer = await self._rpc.call("session/list", {"cwd": cwd} if cwd else {})
        return options.listed(answer)

    def _offers_session(self, name: str) -> bool:
        offered = self._can.get("sessionCapabilities")
        return isinstance(offered, dict) and offered.get(name) is not None

    async def _prepare(self) -> None:
        """Set the mode in which it asks us, the model, and what else must be set before the first prompt."""
        for option, value in self._traits.options.items():
            if self._setup.value(option) not in (None, value):
                await options.set_option(self._rpc, self._id, option, value)
        await self._set_mode(self.spec.mode)
        if self.spec.model:
            await options.set_model(self._rpc, self._id, self._setup, self.spec.model, self._name)
        self._incoming.meter.model = self.spec.model or ""
        model = self.spec.model or self._setup.model
        self._info = msgspec.structs.replace(self._info, models=(model,) if model else ())

    def _warn_of_limits(self) -> None:
        if not self._traits.known:
            limit = "itself decides what it asks about; what it does not ask about is not judged"
            self.emit(Warned(message=f"{self._name} {limit}", code="not_enforced"))
        if self.spec.instructions.system is not None:
            limit = "keeps its own system prompt; ours is put in front of the first prompt"
            self.emit(Warned(message=f"{self._name} {limit}", code="emulated"))

    # A turn

    async def _begin(self, turn: Turn) -> None:
        self._stopping.clear()
        self._refused = False
        self._incoming.begin()
        self._terminals.begin()
        self._files.written.clear()
        text = turn.prompt.text
        if not self._instructed:
            self._instructed = True
            text = instructed(text, self.spec.instructions.system, self.spec.instructions.append)
        if self._unsent and not text.lstrip().startswith("/"):
            text = "\n\n".join([*self._unsent, text])
            self._unsent.clear()
        params = {"sessionId": self._id, "prompt": [text_block(text), *map(image_block, turn.prompt.images)]}
        self._prompting = asyncio.create_task(self._prompt(turn, params), name=f"prompt of {turn.id}")

    async def _prompt(self, turn: Turn, params: dict[str, Any]) -> None:
        try:
            result = await self._rpc.call("session/prompt", params)
        except CallFailed as error:
            self._finish(turn)
            self.fail(options.of_call(self._name, error))
        except TreadleError as error:
            self._finish(turn)
            self.fail(error)
        else:
            self._finish(turn)
            self._note_context()
            for usage in self._incoming.meter.turn(result):
                self.spend(usage)
            self._end(turn, result)

    def _finish(self, turn: Turn) -> None:
        self._tell(self._incoming.finish("the turn ended before it did"))
        turn.text = self._incoming.answer

    def _note_context(self) -> None:
        used, window = self._incoming.meter.context
        self._info = msgspec.structs.replace(self._info, context_window=window, context_used=used)

    def _end(self, turn: Turn, result: Any) -> None:
        if self._work is not None:
            self._work.finished = True
        stop = result.get("stopReason") if isinstance(result, dict) else None
        failure = options.of_stop(self._name, stop, self._incoming.last_chunk, self._traits.failure)
        if failure is not None:
            self.fail(failure)
        elif self._refused or stop == "cancelled" and self._denied and not self._stopping.is_set():
            self.over(turn.ending("completed", stop_reason="denied"))
        elif stop == "cancelled":
            turn.text = self._incoming.everything
            reason = "the agent cancelled the turn" if not self._stopping.is_set() else "cancelled"
            self.over(turn.ending("interrupted", options.cancelled(reason), stop_reason="cancelled"))
        else:
            self.over(turn.ending("completed", stop_reason=stop or ""))

    async def _stop(self, turn: Turn) -> None:
        self._stopping.set()
        turn.text = self._incoming.everything
        await self._rpc.tell("session/cancel", {"sessionId": self._id})
        await self._terminals.stop()

    def _part(self, error: TreadleError) -> None:
        self._rpc.lost(error)
        super()._part(error)

    # What it says

    def _broken_answer(self, error: RemoteProtocolError) -> bool:
        return self._rpc.broken(error)

    def _hear(self, message: Any) -> None:
        self._rpc.take([message])

    def _notice(self, notice: RpcNotice) -> None:
        update = notice.params.get("update")
        if notice.method != "session/update" or not isinstance(update, dict):
            return  # vendors have notifications of their own
        if self._replay is not None:
            self._replay.update(update)
        elif self._denied and self._traits.says_refused(update):
            self._refused = True  # the denial was reported; these words are no answer
        elif self._work is None:
            self._incoming.update(update)  # such as the commands that it offers; no turn is running
            self._incoming.begin()
        else:
            self._tell(self._incoming.update(update))
            if "toolCallId" in update:
                self._watch(update)

    def _tell(self, events: list[Event]) -> None:
        for event in events:
            match event:
                case TextDelta():  # most are
                    self.emit(event)
                case ToolStarted():
                    record = self._incoming.tools.get(event.call)
                    access = self._access(record) if record else session.Access(tool=event.name, kind=event.kind)
                    access = msgspec.structs.replace(access, args=event.args)
                    self.tool_started(event.call, event.name, access, event.parent)
                case ToolEnded():
                    shown = self._shown(event.call)
                    # Two agents report a tool as completed that a cancel has ended.
                    ok = event.ok and not self._stopping.is_set()
                    self.tool_ended(event.call, event.result or shown, ok, event.parent)
                case ToolDenied():
                    self.tool_denied(event.call, event.name, event.reason, event.by, event.args, event.parent)
                case FileChanged():
                    path = os.path.join(self.spec.cwd, event.path)
                    if os.path.realpath(path) not in self._files.written:  # it was reported when it was written
                        self.emit(msgspec.structs.replace(event, path=path))
                case Usage():
                    self.step()
                    self._note_context()
                    self.spend(event)
                case _:
                    self.emit(event)

    def _shown(self, call: str) -> str:
        """What a call wrote to our terminals; the command that ran there is included."""
        record = self._incoming.tools.get(call)
        found = [self._terminals.find(name) for name in record.terminals] if record is not None else []
        texts = []
        for terminal in found:
            if terminal is not None and record is not None:
                text, code = terminal.output.text, terminal.child.exit_code
                texts.append(text)
                command = self._access(record).command or ""
                self.emit(CommandRun(command=command, exit_code=code, output=text, call=call))
        return "".join(texts)

    def _watch(self, update: dict[str, Any]) -> None:
        """An announced call may run without a question, and then nothing is reported until it has ended."""
        record = self._incoming.tools.get(str(update.get("toolCallId")))
        if record is None:
            return
        for terminal in map(self._terminals.find, record.terminals):
            if terminal is not None and record.started:
                terminal.attach(partial(self._output, record.call))
        if not record.started and not record.denied:
            asyncio.get_running_loop().call_later(UNASKED, self._must_be_running, record)

    def _output(self, call: str, text: str) -> None:
        if self._work is not None and text:
            self.emit(ToolOutput(call=call, text=text))

    def _must_be_running(self, record: ToolRecord) -> None:
        if self._work is not None and record.call not in self._asking and record in self._incoming.tools.values():
            self._tell(self._incoming.start(record))

    def _access(self, record: ToolRecord) -> session.Access:
        access = self._incoming.access(record)
        return self.access(access.tool, access.args, access.kind, access.paths, command=access.command, url=access.url)

    # What it asks

    async def _answer(self, call: RpcCall) -> Any:
        match call.method:
            case "session/request_permission":
                return await self._permission(call.params)
            case "fs/read_text_file":
                return await self._files.read(call.params)
            case "fs/write_text_file":
                return await self._files.write(call.params)
        if call.method.startswith("terminal/"):
            return await self._terminals.answer(call.method, call.params)
        raise Fault(METHOD_NOT_FOUND, f"unknown method: {call.method}")  # at once, because one agent waits 2 s for each

    async def _permission(self, params: dict[str, Any]) -> dict[str, Any]:
        call = params.get("toolCall")
        record = self._incoming.record(call) if isinstance(call, dict) else None
        if record is None:
            raise Fault(INVALID_PARAMS, "a permission is for a tool call with an id")
        self._asking.add(record.call)
        self._tell(self._incoming.flush() if self._work is not None else [])
        asking = asyncio.create_task(self._permitted(record, call if isinstance(call, dict) else {}))
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait([asking, stopping], return_when=asyncio.FIRST_COMPLETED)
            if not asking.done() or self._work is None or self._stopping.is_set():
                return {"outcome": {"outcome": "cancelled"}}
            return options.chosen(params.get("options"), asking.result())
        finally:
            self._asking.discard(record.call)
            await end_tasks(asking, stopping)

    async def _permitted(self, record: ToolRecord, call: dict[str, Any]) -> bool:
        access = self._access(record)
        decision = self._guard(access)
        # The title is text for a person: a rule that allows it does not prove that this is the command that will run.
        unsure = decision.by == "rule" and not self._traits.title_is_command and self._incoming.from_title(record)
        text = texts_in(call.get("content"))
        if call.get("kind") == "switch_mode":
            answer = await self.permit(access, call=record.call, kind="plan", text=text or record.title)
        else:
            text = decision.reason or text
            answer = await self.permit(access, call=record.call, text=text, judged=unsure, parent=record.parent)
        if answer.decision == "allow":
            record.permitted = True
            self._tell(self._incoming.start(record))
            return True
        record.denied = True
        if answer.text and answer.by not in OURS:
            self._unsent.append(f"About the call {record.title!r} that was refused: {answer.text}")
        if record.started:  # it was reported as running before it asked
            self.tool_ended(record.call, f"denied: {answer.text}", ok=False)
        return False

    def confined(self) -> session.Confinement | None:
        """How a command that runs through us is confined: like one of our own agent."""
        return self._confining.for_command()

    async def use(self, access: session.Access, call: str) -> str:
        """Judge something that it does through us. Returns its call; raises Fault when it is not allowed.

        A person who has allowed a call is not asked again about what the call does; what a rule denies stays denied.
        """
        access = self.access(access.tool, access.args, access.kind, access.paths, command=access.command)
        under_way = [record for record in self._incoming.tools.values() if record.started and not record.ended]
        permitted = next((one.call for one in under_way if one.permitted and one.kind == access.kind), None)
        if permitted is not None and self._guard(access).verdict != "deny":
            return permitted
        answer = await self.permit(access, call=call)
        if answer.decision == "deny":
            raise Fault(options.DENIED, f"not allowed: {answer.text}")
        return permitted or call

    # Settings

    def commands(self) -> list[session.CommandInfo]:
        return self._incoming.commands

    async def _command(self, name: str, args: str) -> session.CommandResult | None:
        """Its own slash commands are prompts that it understands."""
        if name not in {each.name for each in self._incoming.commands}:
            return None
        turn = await self.prompt(session.Prompt(text=f"/{name} {args}".rstrip()))
        return session.CommandResult(message="", turn=turn)

    async def _configure(self, change: session.Change) -> None:
        if change.model is not None:
            await self._within(options.set_model(self._rpc, self._id, self._setup, change.model, self._name))
            self.spec = msgspec.structs.replace(self.spec, model=change.model)
            self._info = msgspec.structs.replace(self._info, models=(change.model,))
            self._incoming.meter.model = change.model
        if change.mode is not None:
            await self._within(self._set_mode(change.mode))
            self.rebind(change.mode)
            self._confining.obey(self._guard.rules, change.mode)

    async def _within(self, work: Any) -> None:
        try:
            async with within(self.peer.patience.handshake):
                await work
        except TimeoutError:
            raise RemoteError(f"{self._name} did not answer") from None

    async def _set_mode(self, mode: session.Mode | None) -> None:
        """Its own mode only decides whether it asks us; our rules and mode decide what needs no question."""
        wanted = self._traits.plan_mode if mode == "plan" and self._traits.plan_mode else self._traits.asking_mode
        if wanted is None or wanted == (self._incoming.mode or self._setup.mode):
            return
        if wanted not in self._setup.modes:
            problem = f"{self._name} no longer has the mode {wanted!r}, so what it does without asking is not judged"
            self.emit(Warned(message=problem, code="not_enforced"))
            return
        if self._setup.has_modes:
            await self._rpc.call("session/set_mode", {"sessionId": self._id, "modeId": wanted})
        else:
            await options.set_option(self._rpc, self._id, "mode", wanted)
        self._incoming.mode = wanted

    def history(self) -> list[Event]:
        return self._past

    async def menu(self) -> session.ModelMenu:
        return self._setup.menu()

    # Ending

    async def _leave(self) -> None:
        await self._terminals.close()
        await super()._leave()

    async def _close(self) -> None:
        await self._terminals.close()
        await self._rpc.close()
        await end_tasks(self._prompting)
        try:
            await super()._close()
        finally:
            self._confining.close()


class AcpAgent(DrivenAgent):
    @property
    def name(self) -> str:
        return f"{self.card.name}:{shlex.join(self.launch.argv)}" if self.card.prefix else self.card.name

    async def probe(self) -> AgentInfo:
        if self.card.prefix:  # it is not known how to ask such a program for its version
            return AgentInfo(name=self.name, capabilities=dict(self.card.capabilities))
        return await super().probe()

    async def _open(self, spec: SessionSpec, env: dict[str, str]) -> AcpSession:
        with in_a_file(spec, self.card.servers_file) as (spec, words):
            session = await self._started(spec, env, [*words, *self._directories(spec)])
            try:
                await session.shake_hands()
            except BaseException:
                await session.close()
                raise
            return session

    def _directories(self, spec: SessionSpec) -> list[str]:
        places = spec.add_dirs if self.card.directory else ()
        return [self.card.directory.format(path=place) for place in places]

    async def _started(self, spec: SessionSpec, env: dict[str, str], words: Sequence[str] = ()) -> AcpSession:
        peer = await self.start([*self.launch.argv, *words], Connection("client"), spec, env)
        confining = peer.enclosed
        if not isinstance(confining, Confining):
            # Commands that it runs through us are confined like those of our own agent.
            confining = Confining.of(spec, spec.add_dirs, spec.confinement, f"{self.card.name}-{os.getpid()}")
            confining.obey(RuleSet(spec.rules, DISK.real(spec.cwd), DISK), spec.mode)
            peer.enclosed = confining
        return AcpSession(self.card, spec, peer, name=self.name, confining=confining, env=env)

    @asynccontextmanager
    async def greeted(self, cwd: str | None = None) -> AsyncIterator[AcpSession]:
        """It runs and has greeted us, but has no session: to see what it says of itself, or to sign in."""
        session = await self._started(SessionSpec(cwd=cwd or here()), self.env({}))
        try:
            await session.greet()
            yield session
        finally:
            await session.close()

    async def stored_sessions(self, cwd: str | None = None) -> list[StoredSession]:
        """The sessions that it lists, requested from a separate process."""
        async with self.greeted(cwd) as session:
            return await session.stored_sessions(cwd)
