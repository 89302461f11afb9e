"""`--input-format stream-json`: many prompts on stdin, one result each, with the control requests of Claude Code's SDK.

A program that drives Claude Code through `claude-agent-sdk` can drive any session this way: prompts, interruption,
mode, model, and permission questions that its own callback answers.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import msgspec

from treadle.doors.oneshot.greeting import Adaptable, Heard, facts_of, judge_of
from treadle.doors.oneshot.hooks import HostHooks
from treadle.doors.oneshot.requests import HostRequests
from treadle.doors.oneshot.run import OneShot
from treadle.errors import NotFound, RemoteError, RemoteProtocolError, TreadleError, Unsupported
from treadle.events import Answered, Asked, Task, TaskChanged
from treadle.io.link import Link
from treadle.io.streams import Stream
from treadle.session import Answer, Change, Instructions, Session, parse_mode
from treadle.wire.oneshot import arguments
from treadle.wire.oneshot import records as wire
from treadle.wire.oneshot.content import prompt_of
from treadle.wire.oneshot.records import mode_changed, task_lines

# Permission questions that a program answers, and the lasting rules that come with an answer.
#
# `--permission-prompt-tool mcp__SERVER__TOOL` sends them to a tool of an MCP server, which answers in JSON, as for
# Claude Code: `{"behavior": "allow", "updatedInput": {...}}` or `{"behavior": "deny", "message": "..."}`.

Warn = Callable[[str], None]
AskTool = Callable[[dict[str, Any]], Awaitable[str]]


async def apply(updates: Any, session: Session, warn: Warn) -> None:
    """Apply what a program allows or forbids from now on. What cannot be applied is a warning: the run goes on."""
    for update in updates if isinstance(updates, list) else ():
        table = update if isinstance(update, dict) else {}
        rules = arguments.rules_of(table)
        if table.get("type") == "setMode":
            with _warned(warn):
                await session.configure(Change(mode=parse_mode(str(table.get("mode")))))
        elif rules and isinstance(session, Adaptable):
            for verdict, rule in rules:
                with _warned(warn):
                    session.add_rule(verdict, rule)
            if table.get("destination") != "session":
                warn("the rules of a permission update hold for this session and are not kept")
        else:
            warn("a permission update of the host is left out: such calls are asked about again")


@contextmanager
def _warned(warn: Warn) -> Iterator[None]:
    try:
        yield
    except TreadleError as error:
        warn(f"a permission update of the host is left out: {error}")


async def put_to_tool(session: Session, ask: AskTool, warn: Warn) -> None:
    """Ask this tool every permission question of a session, until the session is closed."""
    async with asyncio.TaskGroup() as tasks:
        async for event in session.events(after=-1):
            if isinstance(event, Asked):
                tasks.create_task(_put(event, session, ask, warn))


async def _put(asked: Asked, session: Session, ask: AskTool, warn: Warn) -> None:
    question = arguments.question(asked)
    try:
        text = await ask({name: question[name] for name in ("tool_name", "input", "tool_use_id")})
        reply = msgspec.json.decode(text, type=dict[str, Any])
        answer = arguments.answered(reply, asked)
        if answer.decision == "allow":
            await apply(reply.get("updatedPermissions"), session, warn)
    except TreadleError as error:
        answer = Answer(decision="deny", text=f"the permission tool failed: {error}", by="host")
    except msgspec.MsgspecError:
        answer = Answer(decision="deny", text="the permission tool answered with no JSON object", by="host")
    try:
        await session.answer(asked.request, answer)
    except NotFound as error:
        warn(f"an answer came too late: {error}")


NO_INSTRUCTIONS = Instructions()
ASKS_BACK = ("initialize", "set_model", "mcp_set_servers")
"""Requests for which hooks and servers of the host may be asked before they are answered."""


class WaitingPrompt(NamedTuple):
    uuid: str
    record: dict[str, Any]
    of_host: bool
    """Whether the host sent it, and may take it back; otherwise it is ours."""


class StreamInput:
    """Reads records until the end of input, then finishes what was asked and returns the last exit code."""

    def __init__(
        self,
        session: Session,
        runner: OneShot,
        stream: Stream,
        warn: Callable[[str], None],
        *,
        early: Sequence[Heard] = (),
        answers: bool = True,
        hooks: HostHooks | None = None,
        servers: tuple[str, ...] = (),
        instructions: Instructions = NO_INSTRUCTIONS,
        replay: bool = False,
    ) -> None:
        """`answers`: whether the host can be asked anything. `hooks`: those that the session was opened with, if any.
        `early`: what the host said before there was a session, which was opened with the `initialize` in it.

        `servers` are MCP servers in the host's own process; `instructions` are those that the session was opened with.
        With `replay` each prompt is written back, with the uuid by which the host can name it.
        """
        self._answers = answers
        self._hooks = hooks
        self._replay = replay
        self._control = HostRequests(
            session,
            runner,
            self._ask_host,
            warn,
            hooks=hooks,
            servers=servers,
            instructions=instructions,
            greeting=_table(_table(early[0]).get("request")) if early else None,
        )
        self._early = early
        self._initialized = asyncio.Event()
        self._initialized.set()
        self._configuring = 0
        """Requests at work that the next prompt waits for."""
        self._begun = False
        """Whether the hooks were told that the session begins."""
        self._tasks: asyncio.TaskGroup
        self._requests: dict[str, asyncio.Future[dict[str, Any]]] = {}
        if hooks is not None:
            hooks.connect(partial(facts_of, session), self._ask_host, runner.interrupt, judge_of(session))
        self._session = session
        self._runner = runner
        self._stream = stream
        self._wire = runner.wire
        self._link = Link(stream, self._wire)
        self._warn = warn
        self._prompts: asyncio.Queue[WaitingPrompt | None] = asyncio.Queue()
        """None is the end."""
        self._queued: list[str] = []
        """The uuids of the host's prompts that are not begun."""
        self._control.queue = self
        if runner.hosting is not None:
            runner.hosting.waiting = lambda: len(self._queued)
        self._asking: dict[str, Asked] = {}
        self._background: dict[str, Task] = {}
        """The tasks in the background, as they were last."""
        self._tool_uses: Counter[str] = Counter()
        """How many tools each task has used."""

    async def run(self) -> int:
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                reading = tasks.create_task(self._read())
                asking = tasks.create_task(self._ask())
                try:
                    return await self._answer()
                finally:
                    reading.cancel()
                    asking.cancel()
        except* TreadleError as group:
            failed = group.exceptions[0]
        raise failed

    async def interrupt(self, reason: str) -> None:
        """End what is under way, and skip what was still to come."""
        while not self._prompts.empty():
            self._prompts.get_nowait()
        self._queued.clear()
        self._prompts.put_nowait(None)
        await self._runner.interrupt(reason)

    def waiting(self) -> list[str]:
        """The uuids of the prompts that have come and are not begun."""
        return list(self._queued)

    def withdraw(self, uuid: str) -> bool:
        """Forget a prompt that is not begun; False when there is none of this uuid."""
        if uuid not in self._queued:
            return False
        self._queued.remove(uuid)
        self._wire.withdrawn()
        return True

    async def _answer(self) -> int:
        code = 0
        while (given := await self._prompts.get()) is not None:
            await self._initialized.wait()
            uuid, record = given.uuid, given.record
            if uuid in self._queued:
                self._queued.remove(uuid)
            elif given.of_host:
                continue  # the host took it back
            try:
                content = prompt_of(_table(record.get("message")).get("content"))
            except Unsupported as error:
                code = await self._runner.refuse(str(error))
                continue
            if isinstance(self._session, Adaptable):
                self._session.begin_prompt()
            if self._replay:
                await self._write(wire.replayed(content.text, uuid, self._session.id))
            reason, before = await self._check_prompt(content.text)
            if reason is not None:
                refusing = self._runner.refuse if self._control.refused else self._runner.blocked
                code = await refusing(reason)
                continue
            # With `client_composed`, the host composed the prompt; no one typed it.
            code = await self._runner.run(
                before + content.text,
                content.images,
                content.documents,
                verbatim=bool(record.get("client_composed")),
                uuid=str(record.get("uuid") or ""),
            )
            if self._runner.turn is not None:
                self._control.turns[uuid] = self._runner.turn
        return code

    async def _check_prompt(self, prompt: str) -> tuple[str | None, str]:
        """A reason to refuse the prompt, or None; and what the host's hooks put in front of it."""
        if self._control.refused:
            return f"initialize was refused: {self._control.refused}", ""
        if self._hooks is None:
            return None, ""
        begun = "" if self._begun else await self._hooks.started("startup", ", ".join(self._session.info.models))
        self._begun = True
        reason, before = await self._hooks.prompted(prompt)
        return reason, begun + before

    async def _read(self) -> None:
        for record in self._early:
            await self._take(record)
        try:
            async for record in self._link:
                await self._take(record)
        except RemoteProtocolError as error:
            await self._take(error)
        await self._prompts.put(None)

    async def _take(self, record: wire.Record | RemoteProtocolError) -> None:
        if isinstance(record, RemoteProtocolError):
            self._warn(f"a line on stdin is left out: {record}")
            return
        kind = record.get("type")
        if kind == "user":
            known = str(record.get("uuid") or wire.new_uuid())
            self._queued.append(known)
            await self._prompts.put(WaitingPrompt(known, record, of_host=True))
        elif kind == "control_request":
            await self._take_request(record.get("request_id", ""), _table(record.get("request")))
        elif kind == "control_response":
            await self._answered(_table(record.get("response")))
        elif kind != "keep_alive":
            self._warn(f"a record of type {kind!r} on stdin is left out")

    # HostRequests

    async def _take_request(self, request_id: str, request: dict[str, Any]) -> None:
        """Handle a request in a task: if it needs answers of the host, as from its MCP servers, reading must go on."""
        subtype = request.get("subtype")
        if subtype in ASKS_BACK:
            self._configuring += 1
            self._initialized.clear()
        if subtype in (*ASKS_BACK, "mcp_reconnect"):
            self._tasks.create_task(self._respond(request_id, request))
        else:
            await self._respond(request_id, request)

    async def _respond(self, request_id: str, request: dict[str, Any]) -> None:
        try:
            body = {"subtype": "success", "response": await self._control.obey(request)}
        except TreadleError as error:
            body = {"subtype": "error", "error": str(error)}
        finally:
            if request.get("subtype") in ASKS_BACK:
                self._configuring -= 1
                if not self._configuring:
                    self._initialized.set()
        await self._write({"type": "control_response", "response": {**body, "request_id": request_id}})
        if request.get("subtype") == "set_permission_mode" and body["subtype"] == "success":
            await self._write(mode_changed(str(request.get("mode")), self._session.id))

    async def _ask_host(self, request: dict[str, Any]) -> dict[str, Any]:
        """A control request of ours, answered by the host."""
        request_id = wire.new_uuid()
        answered: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._requests[request_id] = answered
        try:
            await self._write({"type": "control_request", "request_id": request_id, "request": request})
            return await answered
        finally:
            del self._requests[request_id]

    async def _ask(self) -> None:
        """Pass the session's permission questions to the host, and withdraw those that no longer need an answer."""
        async for event in self._session.events(after=-1):
            if isinstance(event, Asked) and self._answers:
                request_id = wire.new_uuid()
                self._asking[request_id] = event
                asked = {"type": "control_request", "request_id": request_id, "request": arguments.question(event)}
                await self._write(asked)
            elif isinstance(event, Answered):
                for request_id in [name for name, asked in self._asking.items() if asked.request == event.request]:
                    del self._asking[request_id]
                    await self._write({"type": "control_cancel_request", "request_id": request_id})
            elif isinstance(event, TaskChanged):
                await self._tell_task(event)

    async def _tell_task(self, event: TaskChanged) -> None:
        """Tell of a background task; when it ends while nothing runs, the agent gets a turn to hear of it."""
        if event.task is not None and event.task.mode == "background":
            self._background[event.task_id] = event.task
        running = [task for task in self._background.values() if task.status in ("queued", "running")]
        self._tool_uses[event.task_id] += event.change == "tool_start"
        lines = task_lines(event, self._session.id, running, self._tool_uses[event.task_id])
        for line in lines:
            await self._write(line)
        over = lines and lines[-1]["subtype"] == "task_notification" and event.task_id in self._background
        if over and not self._runner.busy:
            words = f"The background task {event.task_id} has ended. Go on if there is something left to do."
            prompt = {"message": {"content": words}, "client_composed": True}
            await self._prompts.put(WaitingPrompt(wire.new_uuid(), prompt, of_host=False))

    async def _answered(self, response: dict[str, Any]) -> None:
        waiting = self._requests.get(str(response.get("request_id")))
        if waiting is not None and not waiting.done():
            if response.get("subtype") == "error":
                waiting.set_exception(RemoteError(str(response.get("error") or "the host failed")))
            else:
                waiting.set_result(_table(response.get("response")))
            return
        asked = self._asking.pop(str(response.get("request_id")), None)
        if asked is None:
            return
        reply = _table(response.get("response"))
        if response.get("subtype") == "error":
            reply = {"behavior": "deny", "message": str(response.get("error") or "")}
        answer = arguments.answered(reply, asked)
        if answer.decision == "allow":
            await apply(reply.get("updatedPermissions"), self._session, self._warn)
        try:
            await self._session.answer(asked.request, answer)
            if answer.decision == "deny" and reply.get("interrupt") is True:
                await self._runner.interrupt("the host ended the turn")
        except NotFound as error:
            self._warn(f"an answer came too late: {error}")

    async def _write(self, record: wire.Record) -> None:
        await self._stream.write(self._wire.send(record))


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
