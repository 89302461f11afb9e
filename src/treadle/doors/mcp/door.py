"""The server: one MCP client on our stdin and stdout, and the agents that it puts to work.

Calls run side by side. A call that the client cancels stops what it started; when the client goes away, everything
stops.
"""

import asyncio
import itertools
import os
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial
from inspect import isawaitable
from typing import Any, Literal, TypeAlias

import msgspec

from treadle import __version__
from treadle.doors.approvals import other_input
from treadle.doors.fields import FieldTable
from treadle.doors.outbox import Outbox
from treadle.errors import Busy, ConfigError, NotFound, RemoteError, RemoteProtocolError, TreadleError
from treadle.events import (
    AnyEvent,
    Asked,
    FileChanged,
    Message,
    TextDelta,
    ToolDenied,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    Warned,
)
from treadle.io.rpc import Rpc
from treadle.io.streams import Stream
from treadle.io.tasks import end_tasks
from treadle.policy.rules import is_under, stricter
from treadle.session import Agent, Answer, Prompt, Session, SessionSpec, Start, parse_mode
from treadle.sessions.session import new_id
from treadle.sessions.totals import ServedTurn, TurnSummary
from treadle.wire.common.jsonrpc import INVALID_PARAMS, Fault
from treadle.wire.common.rpc import RpcCall, RpcMessage, RpcNotice
from treadle.wire.common.schema import NON_EMPTY, TEXT, Schema, faults, one_of, record
from treadle.wire.mcp.connection import Connection
from treadle.wire.mcp.revisions import dispatch, done, failed, welcome

# The tools of the server: what each takes, in words that a model understands.

INSTRUCTIONS = (
    "These tools put a coding agent to work in a directory of this machine. `run` gives it a prompt and waits for its"
    " answer. For work that takes longer than your tool timeout use `start`, then `read` until it is done. When an"
    " agent asks for something (status `waiting`), `answer` it; ask your user unless they said what to do."
)

_NUMBER: Schema = {"type": "integer", "minimum": 0}
_RUN = {**NON_EMPTY, "description": "The id of a run, as `run` and `start` give it."}
_WORK: dict[str, Schema] = {
    "run": {**TEXT, "description": "Go on with this run: the agent remembers what was said in it."},
    "resume": {**TEXT, "description": "Go on with a saved session, by the session id of an earlier run."},
    "agent": {**TEXT, "description": "Another agent than the default: native, claude, codex, gemini, acp:COMMAND..."},
    "model": {**TEXT, "description": "The model, as this agent names it."},
    "directory": {**TEXT, "description": "Work in this directory below the server's own."},
    "mode": {
        **one_of("plan", "suggest", "auto-edit", "full-auto"),
        "description": "What it may do without asking. It can only be stricter than what the server was started with.",
    },
    "seconds": {**_NUMBER, "description": "Stop the work after so many seconds."},
}
_PROMPT = {**NON_EMPTY, "description": "What the agent is to do."}


def _tool(name: str, description: str, schema: Schema, *, reads: bool = False) -> dict[str, Any]:
    return {
        "name": name,
        "description": description,
        "inputSchema": {**schema, "additionalProperties": False},  # an answer that says more must not count as less
        "annotations": {"readOnlyHint": reads, "destructiveHint": not reads, "openWorldHint": not reads},
    }


TOOLS: dict[str, dict[str, Any]] = {
    tool["name"]: tool
    for tool in (
        _tool(
            "run",
            "Give an agent a prompt and wait for its answer. Tells progress. Returns early, with status `waiting`, when"
            " the agent asks something that no one could be asked about; `answer` it, then `read`.",
            record({"prompt": _PROMPT}, _WORK),
        ),
        _tool("start", "Give an agent a prompt and return at once.", record({"prompt": _PROMPT}, _WORK)),
        _tool(
            "status",
            "How a run is getting on, or all of them: what it does, what it asks, what it used.",
            record({}, {"run": _RUN}),
            reads=True,
        ),
        _tool(
            "read",
            "What a run has said and done since a point, and its result when it is done. Waits for news.",
            record(
                {"run": _RUN},
                {
                    "after": {**_NUMBER, "description": "The `next` of the last read; 0 is from the beginning."},
                    "wait_seconds": {**_NUMBER, "description": "Wait so long for news, at most 50. Default 20."},
                },
            ),
            reads=True,
        ),
        _tool(
            "answer",
            "Answer what an agent asks: a permission, a question or a plan.",
            record(
                {"run": _RUN, "decision": one_of("allow", "deny")},
                {
                    "request": {**TEXT, "description": "Which question, when several are open."},
                    "text": {**TEXT, "description": "The answer to a question, or why not."},
                    "scope": {**one_of("once", "session"), "description": "`session`: the same is not asked again."},
                },
            ),
        ),
        _tool("cancel", "Stop what a run is doing. It can continue with a new prompt.", record({"run": _RUN})),
    )
}


# Agents at work for an MCP client. Each run is a session that takes prompts and has an id.

Status: TypeAlias = Literal["running", "waiting", "completed", "failed", "interrupted", "limited"]
OPEN = 16
"""How many runs are kept; beyond that, the one that has been idle longest is closed."""
STORED_EVENTS = 2000
"""How many events of each run are kept for `read`."""


class AgentRun:
    """One session. `watchers` see each event of the current turn."""

    def __init__(self, name: str, session: Session, agent: str, cwd: str) -> None:
        self.id = name
        self.session = session
        self.agent = agent
        self.cwd = cwd
        self.status: Status = "running"
        self.events: list[AnyEvent] = []
        self.watchers: list[Callable[[AnyEvent], None]] = []
        self._served: ServedTurn | None = None
        self._news = asyncio.Event()
        self._following: asyncio.Task[None] | None = None

    async def prompt(self, text: str) -> None:
        if self.busy:
            raise Busy(f"the run {self.id} is still running", hint="wait for it with `read`, or `cancel` it")
        served = ServedTurn(self.session, after=self._served.seen if self._served is not None else 0)
        await served.prompt(Prompt(text=text))
        self._served, self.status = served, "running"
        self._following = asyncio.create_task(self._follow(served), name=f"events of {self.id}")

    async def _follow(self, served: ServedTurn) -> None:
        try:
            async with served:
                async for event in served:
                    self._take(event)
            self.status = served.ended.outcome if served.ended is not None else "failed"
        finally:
            self._tell()

    @property
    def questions(self) -> dict[str, Asked]:
        return self._served.questions if self._served is not None else {}

    @property
    def turn(self) -> str:
        return self._served.id if self._served is not None else ""

    def _take(self, event: AnyEvent) -> None:
        self.events.append(event)
        del self.events[:-STORED_EVENTS]
        if isinstance(event, TurnEnded):
            self.status = event.outcome
        if self.busy:
            self.status = "waiting" if self.questions else "running"
        for watcher in [*self.watchers]:
            watcher(event)
        self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    @property
    def busy(self) -> bool:
        return self._served is not None and self.status in ("running", "waiting")

    def summary(self) -> TurnSummary:
        return self._served.totals.summary() if self._served is not None else TurnSummary()

    async def answer(self, request: str, answer: Answer) -> bool:
        return self._served is not None and await self._served.answer(request, answer)

    async def news(self, seconds: float | None) -> None:
        """Wait until something has happened, but no longer than this."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()

    async def settled(self, seconds: float | None = None, *, questions: bool = True) -> None:
        """Wait until the turn has ended or, with `questions`, until someone must answer something."""
        loop = asyncio.get_running_loop()
        end = None if seconds is None else loop.time() + seconds
        while self.busy and not (questions and self.questions):
            left = None if end is None else end - loop.time()
            if left is not None and left <= 0:
                return
            await self.news(left)

    async def close(self) -> None:
        await self.session.close()
        if self._following is not None:
            await asyncio.gather(self._following, return_exceptions=True)


class Runs:
    def __init__(self, find: Callable[[str], Agent], agent: str, base: SessionSpec) -> None:
        self._find = find
        self._agent = agent
        self._base = base
        self._runs: dict[str, AgentRun] = {}

    def __iter__(self) -> Any:
        return iter(self._runs.values())

    def get(self, name: str) -> AgentRun:
        run = self._runs.get(name)
        if run is None:
            known = ", ".join(self._runs) or "none"
            raise NotFound(f"there is no run {name!r}", hint=f"the runs are {known}; `resume` continues a session")
        return run

    async def open(self, *, agent: str | None, **changes: Any) -> AgentRun:
        await self._make_room()
        spec = msgspec.structs.replace(self._base, **changes)
        name = agent or self._agent
        session = await self._find(name).open(spec)
        run = AgentRun(new_id("run"), session, name, spec.cwd)
        self._runs[run.id] = run
        return run

    async def _make_room(self) -> None:
        resting = [run for run in self._runs.values() if not run.busy]
        if len(self._runs) < OPEN:
            return
        if not resting:
            raise Busy(f"{OPEN} runs are already running", hint="wait for one to end, or cancel one")
        del self._runs[resting[0].id]
        await resting[0].close()

    async def close(self) -> None:
        await asyncio.gather(*(run.close() for run in self._runs.values()), return_exceptions=True)


Elicit: TypeAlias = Callable[[Asked], Awaitable[Answer | None]]
"""Puts a question to the person at the client; None when no one can be asked."""


async def ask_while(run: AgentRun, elicit: Elicit) -> None:
    """Pass the run's questions to the person at the client, until cancelled or one cannot be answered this way."""
    while True:
        for request, asked in [*run.questions.items()]:
            answer = await elicit(asked)
            if answer is None:
                return
            await run.answer(request, answer)
        await run.news(None)


# How runs are reported to a client: what happened, what is asked, and the result. Plain JSON.

LONGEST = 2000
"""How many characters of a tool's result the client gets; the agent has seen all of it."""
MOST = 40_000
"""How many characters one answer has at most, because a client's model has to read it."""


def outcome(run: AgentRun) -> dict[str, Any]:
    """The state of a run, with its result if it has one."""
    summary = run.summary()
    state: dict[str, Any] = {
        "run": run.id,
        "session": run.session.id,
        "agent": run.agent,
        "directory": run.cwd,
        "status": run.status,
    }
    if run.questions:
        state["questions"] = [question(asked) for asked in run.questions.values()]
    if run.busy:
        return state
    usage = summary.usage
    state["text"] = summary.text
    if usage.calls:
        counted = {
            "input_tokens": usage.prompt_tokens,
            "output_tokens": usage.output_tokens,
            "cost_usd": usage.cost_usd,
        }
        state["usage"] = {name: value for name, value in counted.items() if value is not None}
    if summary.files:
        state["files"] = [{"path": file.path, "change": file.change} for file in summary.files]
    if summary.denials:
        state["denied"] = [f"{denial.name}: {denial.reason}" for denial in summary.denials]
    if summary.error is not None:
        state["error"] = {"code": summary.error.code, "message": summary.error.message}
    return state


def words(state: dict[str, Any]) -> str:
    """The same as text, for a model that sees only text: the answer first."""
    parts = [str(state["text"])] if state.get("text") else []
    parts.append(f"[run {state['run']}: {state['status']}]")
    parts += [f"[asks: {one['text']} (request {one['request']})]" for one in state.get("questions", [])]
    parts += [f"[{file['change']}: {file['path']}]" for file in state.get("files", [])]
    parts += [f"[denied: {denial}]" for denial in state.get("denied", [])]
    if "error" in state:
        parts.append(f"[error {state['error']['code']}: {state['error']['message']}]")
    return "\n".join(parts)[:MOST]


def question(asked: Asked) -> dict[str, Any]:
    shown: dict[str, Any] = {"request": asked.request, "kind": asked.kind, "text": asked.text}
    more = {"tool": asked.name, "command": asked.command, "paths": list(asked.paths), "options": list(asked.options)}
    return {**shown, **{name: value for name, value in more.items() if value}}


def happened(events: Iterable[AnyEvent], after: int) -> tuple[list[dict[str, Any]], int]:
    """The events after number `after` that a client needs, and the number of the last one reported."""
    found: list[dict[str, Any]] = []
    size, last, streamed = 0, after, False
    for event in events:
        if event.seq <= after:
            continue
        if size > MOST:
            break
        last = event.seq
        if isinstance(event, TextDelta) and event.parent is None:
            streamed = True  # all of it comes as one message later
            continue
        shown = _shown(event)
        if shown is not None:
            found.append(shown)
            size += sum(len(str(value)) for value in shown.values())
    if streamed and not found:
        found.append({"type": "writing"})
    return found, last


def _shown(event: AnyEvent) -> dict[str, Any] | None:
    match event:
        case Message(kind="text") if event.parent is None:
            return {"type": "text", "text": event.text[:MOST]}
        case ToolStarted():
            return {"type": "tool", "tool": event.name, "about": title(event)}
        case ToolEnded():
            return {"type": "result", "tool": event.name, "ok": event.ok, "text": event.result[:LONGEST]}
        case ToolDenied():
            return {"type": "denied", "tool": event.name, "reason": event.reason}
        case FileChanged():
            return {"type": "file", "path": event.path, "change": event.change}
        case Asked():
            return {"type": "asked", **question(event)}
        case Warned() if event.code != "gap":
            return {"type": "warning", "text": event.message}
    return None


def title(event: ToolStarted) -> str:
    return " ".join((event.command or ", ".join(event.paths) or "").split())[:200]


def progress(event: AnyEvent) -> str | None:
    """Progress worth reporting while a client waits."""
    match event:
        case ToolStarted():
            return f"{event.name}: {title(event)}".rstrip(": ")
        case Message(kind="text") if event.parent is None:
            return " ".join(event.text.split())[:200]
        case Asked():
            return f"asks: {event.text}"[:200]
        case ToolDenied():
            return f"not run: {event.name}: {event.reason}"[:200]
    return None


NAME = "treadle"
LONGEST_WAIT = 50.0
"""The longest that `read` waits, in seconds: clients give up on a call after a minute."""
USUAL_WAIT = 20.0


class McpDoor:
    """`find` returns an agent by name; `base` is what every session is opened with, and limits what may be asked."""

    def __init__(
        self,
        find: Callable[[str], Agent],
        agent: str,
        stream: Stream,
        *,
        base: SessionSpec,
        warn: Callable[[str], None],
    ) -> None:
        self._stream = stream
        self._base = base
        self._warn = warn
        self._fields = FieldTable("mcp", INVALID_PARAMS)
        self._connection = Connection("server")
        self._out = Outbox(stream, warn)
        self._rpc = Rpc(self._say, answer=self._answer, notice=self._notice, complains=True)
        self._runs = Runs(find, agent, base)
        self._elicits = False
        self._tools: dict[str, Callable[[dict[str, Any], Any], Awaitable[dict[str, Any]]]] = {
            "run": self._run,
            "start": self._start,
            "status": self._status,
            "read": self._read_run,
            "answer": self._answer_run,
            "cancel": self._cancel,
        }

    async def run(self) -> int:
        """Serve until the client closes our input or stops reading."""
        reading, writing = asyncio.create_task(self._read()), asyncio.create_task(self._out.run())
        try:
            await asyncio.wait([reading, writing], return_when=asyncio.FIRST_COMPLETED)
            return 0
        finally:
            reading.cancel()
            await self._rpc.close()
            await self._runs.close()
            writing.cancel()
            await asyncio.gather(reading, writing, return_exceptions=True)

    async def _read(self) -> None:
        while data := await self._stream.read():
            self._rpc.take(self._connection.receive(data))
            await self._out.room(4)
        with suppress(RemoteProtocolError):
            self._rpc.take(self._connection.end())
        quick = [task for task in self._rpc.answering.values()]
        if quick and not any(run.busy for run in self._runs):
            await asyncio.wait(quick, timeout=5.0)
            await self._out.flushed()

    async def _say(self, message: RpcMessage) -> None:
        self._out.put(self._connection.send(message))
        await self._out.room()

    def _notice(self, notice: RpcNotice) -> None:
        if notice.method == "notifications/cancelled":
            task = self._rpc.answering.get(notice.params.get("requestId", ""))
            if task is not None:
                task.cancel()

    async def _answer(self, call: RpcCall) -> Any:
        if unread := self._fields.judge(call.method, call.params):
            self._warn(f"{call.method}: not used here: {', '.join(unread)}")
        offered: dict[str, Any] = {"initialize": self._initialize, "tools": lambda: [*TOOLS.values()]}
        answer = dispatch(call.method, call.params, call=self._call, **offered)
        return await answer if isawaitable(answer) else answer

    def _initialize(self, params: dict[str, Any]) -> dict[str, Any]:
        declared = params.get("capabilities")
        self._elicits = isinstance(declared, dict) and isinstance(declared.get("elicitation"), dict)
        return welcome(params.get("protocolVersion"), NAME, __version__, INSTRUCTIONS)

    # Tools

    async def _call(self, params: dict[str, Any]) -> dict[str, Any]:
        name, arguments = params.get("name"), params.get("arguments")
        if not isinstance(name, str) or name not in TOOLS:
            raise Fault(INVALID_PARAMS, f"there is no tool {name!r}", {"tools": list(TOOLS)})
        arguments = {} if arguments is None else arguments
        if wrong := faults(TOOLS[name]["inputSchema"], arguments):
            return failed({"error": f"{name}: the arguments are not right", "detail": "; ".join(wrong)})
        meta = params.get("_meta")
        token = meta.get("progressToken") if isinstance(meta, dict) else None
        try:
            return await self._tools[name](arguments, token)
        except TreadleError as error:
            return failed({"error": error.message, "code": error.code, "detail": str(error)})

    async def _run(self, arguments: dict[str, Any], token: Any) -> dict[str, Any]:
        run = await self._prompted(arguments)
        watcher = partial(self._progress, token, itertools.count(1))
        run.watchers.append(watcher)
        helpers: list[asyncio.Task[None]] = []
        try:
            if self._elicits:
                helpers = [
                    asyncio.create_task(ask_while(run, self._elicit)),
                    asyncio.create_task(run.settled(questions=False)),
                ]
                await asyncio.wait(helpers, return_when=asyncio.FIRST_COMPLETED)
            await run.settled()
        except asyncio.CancelledError:
            await run.session.interrupt(run.turn, "the client cancelled the call")
            raise
        finally:
            run.watchers.remove(watcher)
            await end_tasks(*helpers)
        return _tool_result(run)

    async def _start(self, arguments: dict[str, Any], token: Any) -> dict[str, Any]:
        return _tool_result(await self._prompted(arguments))

    async def _status(self, arguments: dict[str, Any], token: Any) -> dict[str, Any]:
        if "run" in arguments:
            return _tool_result(self._runs.get(arguments["run"]))
        return done({"runs": [outcome(run) for run in self._runs]})

    async def _read_run(self, arguments: dict[str, Any], token: Any) -> dict[str, Any]:
        run = self._runs.get(arguments["run"])
        after = int(arguments.get("after", 0))
        seconds = min(float(arguments.get("wait_seconds", USUAL_WAIT)), LONGEST_WAIT)
        if run.busy and not run.questions and not happened(run.events, after)[0]:
            await run.news(seconds)
        events, last = happened(run.events, after)
        return done({**outcome(run), "events": events, "next": last})

    async def _answer_run(self, arguments: dict[str, Any], token: Any) -> dict[str, Any]:
        run = self._runs.get(arguments["run"])
        request = arguments.get("request")
        if request is None and len(run.questions) == 1:
            (request,) = run.questions
        if request not in run.questions:
            hint = f"open are {', '.join(run.questions)}" if run.questions else "it has no open question"
            raise NotFound("no such question is open", hint=hint)
        answer = Answer(
            decision=arguments["decision"], text=arguments.get("text", ""), scope=arguments.get("scope", "once")
        )
        await run.session.answer(request, answer)
        run.questions.pop(request, None)
        run.status = "waiting" if run.questions else "running"
        return _tool_result(run)

    async def _cancel(self, arguments: dict[str, Any], token: Any) -> dict[str, Any]:
        run = self._runs.get(arguments["run"])
        await run.session.interrupt(run.turn, "cancelled by the client")
        await run.settled(5.0, questions=False)
        return _tool_result(run)

    # Work

    async def _prompted(self, arguments: dict[str, Any]) -> AgentRun:
        if arguments.get("run"):
            run = self._runs.get(arguments["run"])
        else:
            run = await self._runs.open(agent=arguments.get("agent"), **self._changes(arguments))
        await run.prompt(arguments["prompt"])
        return run

    def _changes(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """What a client may set for a session: never more than the one who started the server has allowed."""
        base = self._base
        cwd = os.path.realpath(os.path.join(base.cwd, arguments.get("directory") or ""))
        if not is_under(cwd, os.path.realpath(base.cwd)) or not os.path.isdir(cwd):
            raise ConfigError(f"{arguments['directory']!r} is not a directory below {base.cwd}")
        mode = parse_mode(arguments["mode"]) if "mode" in arguments else None
        changes: dict[str, Any] = {
            "cwd": cwd,
            "mode": stricter(base.mode, mode),
            "model": arguments.get("model") or base.model,
            "start": Start(resume=arguments.get("resume") or None),
        }
        if arguments.get("seconds"):
            changes["limits"] = msgspec.structs.replace(base.limits, max_seconds=float(arguments["seconds"]))
        return changes

    # What a client is told and asked while a call runs

    def _progress(self, token: Any, numbers: Any, event: AnyEvent) -> None:
        message = progress(event)
        if token is None or message is None:
            return
        params = {"progressToken": token, "progress": next(numbers), "message": message}
        self._out.put(self._connection.send(RpcNotice(method="notifications/progress", params=params)))

    async def _elicit(self, asked: Asked) -> Answer | None:
        field: dict[str, Any] = {"type": "string", "title": "Your answer"}
        if asked.kind != "question":
            field["enum"] = ["allow", "allow for this session", "deny"]
        elif asked.options:
            field["enum"] = list(asked.options)
        about = "\n".join(filter(None, [asked.text, asked.command or ", ".join(asked.paths)]))
        params = {
            "message": about,
            "requestedSchema": {"type": "object", "properties": {"answer": field}, "required": ["answer"]},
        }
        try:
            reply = await self._rpc.call("elicitation/create", params)
        except RemoteError:
            return None
        return _read_answer(asked, reply)


def _read_answer(asked: Asked, reply: Any) -> Answer:
    """An answer that cannot be understood is a no."""
    content = reply.get("content") if isinstance(reply, dict) and reply.get("action") == "accept" else None
    text = content.get("answer") if isinstance(content, dict) else None
    if not isinstance(text, str) or text == "deny":
        return Answer(decision="deny")
    if asked.kind == "question":
        return Answer(decision="allow", text=text)
    if text not in ("allow", "allow for this session"):
        return Answer(decision="deny")
    changed = other_input(asked, content, reply)
    return Answer(decision="allow", scope="once" if text == "allow" else "session", changed_args=changed)


def _tool_result(run: AgentRun) -> dict[str, Any]:
    state = outcome(run)
    result = done(state, words(state))
    return {**result, "isError": run.status == "failed"}
