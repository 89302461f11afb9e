"""The server: one MCP client on our stdin and stdout, and the agents that it puts to work.

Calls run side by side. A call that the client cancels stops what it started; when the client goes away, everything
stops.
"""

import asyncio
import itertools
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from inspect import isawaitable
from typing import Any

import msgspec

from treadle import __version__
from treadle.doors.changed import other_input
from treadle.doors.mcp import telling
from treadle.doors.mcp.runs import AgentRun, Runs, ask_while
from treadle.doors.mcp.tools import INSTRUCTIONS, TOOLS
from treadle.doors.outbox import Outbox
from treadle.errors import ConfigError, NotFound, RemoteError, RemoteProtocolError, TreadleError
from treadle.events import AnyEvent, Asked
from treadle.io.rpc import Rpc
from treadle.io.streams import Stream
from treadle.io.within import end_tasks
from treadle.policy.modes import stricter
from treadle.policy.profile import is_under
from treadle.session import Agent, Answer, SessionSpec, Start, parse_mode
from treadle.wire.common.jsonrpc import INVALID_PARAMS, Fault
from treadle.wire.common.rpc import RpcCall, RpcMessage, RpcNotice
from treadle.wire.common.schema import faults
from treadle.wire.mcp.connection import Connection
from treadle.wire.mcp.revisions import dispatch, done, failed, welcome

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
        return done({"runs": [telling.outcome(run) for run in self._runs]})

    async def _read_run(self, arguments: dict[str, Any], token: Any) -> dict[str, Any]:
        run = self._runs.get(arguments["run"])
        after = int(arguments.get("after", 0))
        seconds = min(float(arguments.get("wait_seconds", USUAL_WAIT)), LONGEST_WAIT)
        if run.busy and not run.questions and not telling.happened(run.events, after)[0]:
            await run.news(seconds)
        events, last = telling.happened(run.events, after)
        return done({**telling.outcome(run), "events": events, "next": last})

    async def _answer_run(self, arguments: dict[str, Any], token: Any) -> dict[str, Any]:
        run = self._runs.get(arguments["run"])
        request = arguments.get("request")
        if request is None and len(run.questions) == 1:
            (request,) = run.questions
        if request not in run.questions:
            hint = f"open are {', '.join(run.questions)}" if run.questions else "it asks nothing now"
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
        message = telling.progress(event)
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
    state = telling.outcome(run)
    result = done(state, telling.words(state))
    return {**result, "isError": run.status == "failed"}
