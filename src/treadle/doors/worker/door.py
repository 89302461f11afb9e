"""Any agent as a worker process: requests in, responses and events out.

Requests are served in the order they came, one after the other, with four exceptions that act at once even while a send
runs: `cancel`, `status`, `answer` and `steer`. The wire's own rules are in wire/worker/; a line that breaks them is
answered in its turn and changes nothing.
"""

import asyncio
import contextlib
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, get_args

from msgspec.structs import replace

from treadle.agent.providers.names import PREFIXES
from treadle.doors.fields import FieldTable
from treadle.doors.outbox import Outbox
from treadle.errors import ConfigError, RemoteProtocolError, TreadleError, VersionMismatch
from treadle.events import AnyEvent, Asked, ModelRouted, TextDelta, Warned
from treadle.io.link import Link
from treadle.io.paths import here
from treadle.io.streams import Stream
from treadle.io.tasks import end_tasks, start_held, unless
from treadle.session import (
    Agent,
    Answer,
    Instructions,
    Limits,
    Mode,
    Prompt,
    Rules,
    Session,
    SessionSpec,
    Start,
    Toolset,
)
from treadle.sessions.session import error_info
from treadle.sessions.totals import ServedTurn, TurnSummary
from treadle.settings.config import load
from treadle.wire.common.jsonrpc import Fault
from treadle.wire.worker.connection import NOT_INITIALIZED, BadLine, Connection, encode, protocol_error
from treadle.wire.worker.events import WorkerOutgoing, counts, envelope
from treadle.wire.worker.messages import (
    AnswerOk,
    AnswerRequest,
    AnyPayload,
    AnyResponse,
    CallMade,
    CancelRequest,
    ErrorEnvelope,
    EventLine,
    Failure,
    Heartbeat,
    Init,
    InitConfig,
    InitOk,
    ResultUsage,
    Send,
    SendResult,
    Shutdown,
    ShutdownOk,
    StatusOk,
    StatusRequest,
    Steer,
    SteerOk,
    TurnState,
)
from treadle.wire.worker.versions import (
    BASE,
    PROTOCOL_VERSION,
    Version,
    capabilities,
    negotiate,
    parse_version,
    profile,
)

# A client's requests that wait for their turn. A client that writes ahead without end is refused.

ROOM, ROOM_BYTES = 10_000, 64 * 1024 * 1024
"""How many requests, and bytes, may wait."""


class End:
    """The client will ask nothing more."""


Item: TypeAlias = Init | Send | StatusRequest | AnswerRequest | Steer | Shutdown | RemoteProtocolError | End


class Pending:
    """Iterate to look at what waits, without taking it."""

    def __init__(self) -> None:
        self._items: deque[Item] = deque()
        self._bytes = 0
        self._cancelled: set[int] = set()
        self._arrived = asyncio.Event()

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items)

    @property
    def idle(self) -> bool:
        """Whether someone waits in `take` for something to do."""
        return not self._arrived.is_set()

    def put(self, item: Item) -> None:
        self._items.append(item)
        self._bytes += _weight(item)
        self._arrived.set()

    async def take(self) -> Item:
        while not self._items:
            self._arrived.clear()
            await self._arrived.wait()
        item = self._items.popleft()
        self._bytes -= _weight(item)
        return item

    @property
    def full(self) -> bool:
        """Whether too many requests wait."""
        return len(self._items) >= ROOM or self._bytes >= ROOM_BYTES

    def take_statuses(self) -> list[StatusRequest]:
        found = [item for item in self._items if isinstance(item, StatusRequest)]
        for item in found:
            self._items.remove(item)
        return found

    def cancel(self, target: str) -> None:
        """Cancel the waiting sends of that id."""
        self._cancelled |= {id(item) for item in self._items if isinstance(item, Send) and item.id == target}

    def was_cancelled(self, send: Send) -> bool:
        """Whether this send was cancelled before it was taken. Ask once for each."""
        found = id(send) in self._cancelled
        self._cancelled.discard(id(send))
        return found


def _weight(item: Item) -> int:
    return len(item.message) if isinstance(item, Send) else 0


# Translates between the worker wire and our sessions: what an init asks for, and the result of a finished turn.

HEARTBEAT_MS = 5000
"""The default of HEDDLE_HEARTBEAT_INTERVAL (seed 000)."""


def heartbeat_seconds(environ: Mapping[str, str], warn: Callable[[str], None]) -> float:
    given = environ.get("HEDDLE_HEARTBEAT_INTERVAL", "").strip()
    if not given:
        return HEARTBEAT_MS / 1000
    if given.isascii() and given.isdigit() and 0 < int(given) < 10**9:
        return int(given) / 1000
    warn(f"HEDDLE_HEARTBEAT_INTERVAL is {given[:40]!r}, not a positive number of milliseconds; using {HEARTBEAT_MS}")
    return HEARTBEAT_MS / 1000


def pinned_version(environ: Mapping[str, str], warn: Callable[[str], None]) -> str | None:
    given = environ.get("HEDDLE_PROTOCOL_VERSION", "").strip()
    if given and parse_version(given) is None:
        warn(f"HEDDLE_PROTOCOL_VERSION is {given[:40]!r}, not a version such as {PROTOCOL_VERSION}; it is ignored")
        return None
    return given or None


WORKING = {"bash", "write_file", "edit_file"}
"""A client that leaves one of these out wants it not done, which an agent that keeps all of its tools must refuse."""
GRACE = 0.8
"""Seconds that an interrupted command has to end by itself: it is gone when the client, who waits 2 s, is answered."""


def session_spec(config: InitConfig, environ: Mapping[str, str], warn: Callable[[str], None]) -> SessionSpec:
    """Raises ConfigError when the client or the environment asks for something impossible."""
    for field in ("approval_mode", "permissions", "budget", "cwd", "resume"):
        if getattr(config, field) is not None and not config.asked(field):
            warn(f"config.{field} is ignored, as config.capabilities does not name it")
    cwd = _cwd(config)
    permissions = config.permissions if config.asked("permissions") else None
    return SessionSpec(
        cwd=cwd,
        model=_model(config, environ),
        instructions=Instructions(system=config.system_prompt or None),
        tools=Toolset(offered=config.tools),
        routine=("iterations", *(("toolset",) if WORKING <= {*config.tools} else ())),
        rules=Rules(allow=permissions.allow, ask=permissions.ask, deny=permissions.deny) if permissions else Rules(),
        mode=_mode(config, cwd, environ),
        limits=_limits(config),
        start=Start(resume=config.resume if config.asked("resume") else None),
        answers=config.asked("answers"),
        env=_provider(environ),
        extra={"grace": GRACE, "strict_repeats": True},
    )


def state_root(config: InitConfig) -> str | None:
    """The directory that an isolated worker keeps its state in. Raises what cannot be done."""
    runtime = config.runtime
    if runtime is None:
        return None
    for name in ("state_root", "transcript_path"):
        path = getattr(runtime, name)
        if path is not None and not os.path.isabs(path):
            raise ConfigError(f"runtime.{name} must be an absolute path")
    if runtime.transcript_path is not None:
        raise ConfigError("runtime.transcript_path cannot be chosen", hint="leave it out: the reply names it")
    if runtime.mode == "default":
        if runtime.state_root is not None:
            raise ConfigError("runtime.state_root is for the mode isolated", hint='add "mode": "isolated"')
        return None
    if runtime.state_root is None:
        raise ConfigError("runtime.state_root is missing: the mode isolated needs it")
    if runtime.inherit_ambient_config:
        raise ConfigError("an isolated runtime reads no settings but those in its state_root")
    return runtime.state_root


def _provider(environ: Mapping[str, str]) -> dict[str, str]:
    """The ecosystem's own name for a server that speaks its gateway's dialect, in our terms."""
    base, key = environ.get("HEDDLE_BASE_URL", "").strip(), environ.get("OPENROUTER_API_KEY", "")
    if not base:
        return {}
    return {"OPENROUTER_BASE_URL": base, **({"OPENROUTER_API_KEY": key} if key else {})}


def _model(config: InitConfig, environ: Mapping[str, str]) -> str | None:
    """With that gateway's address, every model is its model: errors then name it and the variable of its key."""
    model = config.model or environ.get("HEDDLE_MODEL") or None
    if model is None or not environ.get("HEDDLE_BASE_URL", "").strip() or model.partition(":")[0] in PREFIXES:
        return model
    return f"openrouter:{model}"


def _cwd(config: InitConfig) -> str:
    if config.cwd is None or not config.asked("cwd"):
        return here()
    if not os.path.isabs(config.cwd) or not os.path.isdir(config.cwd):
        raise ConfigError(f"config.cwd is {config.cwd!r}, which is not the absolute path of a directory")
    return config.cwd


def _mode(config: InitConfig, cwd: str, environ: Mapping[str, str]) -> Mode | None:
    if config.approval_mode is not None and config.asked("approval_mode"):
        return config.approval_mode
    given = environ.get("HEDDLE_APPROVAL_MODE", "").strip()
    for mode in get_args(Mode):
        if mode == given:
            found: Mode = mode
            return found
    if given:
        raise ConfigError(f"HEDDLE_APPROVAL_MODE is {given!r}", hint=f"the modes are {', '.join(get_args(Mode))}")
    return load(cwd, environ).settings.mode


def _limits(config: InitConfig) -> Limits:
    if config.max_iterations is not None and config.max_iterations < 1:
        raise ConfigError(f"config.max_iterations is {config.max_iterations}", hint="it must be at least 1")
    budget = config.budget if config.asked("budget") else None
    if budget is None:
        return Limits(max_iterations=config.max_iterations)
    return Limits(
        max_iterations=config.max_iterations,
        max_cost_usd=budget.max_cost_usd,
        max_tokens=budget.max_tokens,
        max_seconds=budget.max_seconds,
    )


CANCELLED = ErrorEnvelope(code="cancelled", message="cancelled", retryable=False)
FULL = ErrorEnvelope(code="busy", message="too many sends wait already; send this one again later", retryable=True)


def result(id: str, summary: TurnSummary, version: Version, ids: Mapping[str, Any]) -> SendResult:
    """The result of a send, from the totals of its turn. `ids`: session_id, task_id, worker_id."""
    calls = tuple(
        CallMade(use.started.name, use.started.args, use.started.call if version >= (0, 5) else None)
        for use in summary.tools
    )
    error: ErrorEnvelope | None = None
    if summary.outcome == "interrupted":
        error = CANCELLED
    elif summary.outcome != "completed":
        error = (
            envelope(summary.error)
            if summary.error
            else ErrorEnvelope(code="provider_error", message="the session ended without saying why", retryable=True)
        )
    return SendResult(
        id=id,
        status="error" if error else "ok",
        response=None if error else summary.text,
        tool_calls_made=calls,
        usage=_usage(summary, version),
        iterations=_answered(error, summary),
        error=error,
        failure=_failure(error, summary, calls, version) if error else None,
        model_latency_ms=summary.model_ms,
        tool_latency_ms=summary.tool_ms,
        total_latency_ms=summary.total_ms,
        **ids,
    )


def failed(id: str, error: ErrorEnvelope, version: Version, ids: Mapping[str, Any]) -> SendResult:
    """The result of a send that never ran."""
    return SendResult(
        id=id,
        status="error",
        tool_calls_made=(),
        iterations=0,
        error=error,
        failure=_failure(error, TurnSummary(), (), version),
        model_latency_ms=0,
        tool_latency_ms=0,
        total_latency_ms=0,
        **ids,
    )


def _usage(summary: TurnSummary, version: Version) -> ResultUsage | None:
    """What the service counted. A call without a count adds nothing: no guesses."""
    usage = summary.counted
    generation = summary.request_id if version >= (0, 3) else None
    return ResultUsage(**counts(usage, version), generation_id=generation) if usage.calls else None


def _answered(error: ErrorEnvelope | None, summary: TurnSummary) -> int:
    """Model calls that succeeded: the one that a send failed with did not."""
    return max(0, summary.iterations - (error is not None and error.code == "provider_error"))


def _failure(
    error: ErrorEnvelope, summary: TurnSummary, calls: tuple[CallMade, ...], version: Version
) -> Failure | None:
    if version < (0, 4):
        return None
    details = error.details if isinstance(error.details, dict) else {}
    return Failure(
        code=error.code,
        termination_reason=error.message,
        iterations=_answered(error, summary),
        tool_calls_made=len(calls),
        last_tool_name=calls[-1].name if calls else None,
        loop_count=details.get("loop_count"),
        loop_threshold=details.get("loop_threshold"),
        cancellation_source="user" if error.code == "cancelled" else None,
        last_tool=calls[-1] if calls and version >= (0, 5) else None,
    )


log = logging.getLogger(__name__)

CANCEL_SECONDS = 1.5
"""Time limit after a cancel: clients wait two seconds for the result."""
LEAVING_SECONDS = 1.0
"""Time limit for the last lines, when a signal ends us."""


class Active:
    """The current send."""

    def __init__(self, id: str, out: WorkerOutgoing, served: ServedTurn) -> None:
        self.id = id
        self.out = out
        self.served = served
        self.seq = 0
        self.started = time.monotonic()
        self.cancelled = False
        self._called_off = asyncio.Event()

    def cancel(self) -> None:
        self.cancelled = True
        self._called_off.set()

    async def overdue(self) -> None:
        """Returns when a cancel has had no effect in time."""
        await self._called_off.wait()
        await asyncio.sleep(CANCEL_SECONDS)

    def summary(self) -> TurnSummary:
        """Its result. A cancelled send that has not ended by now counts as interrupted."""
        found = self.served.totals.summary()
        return found if found.outcome is not None or not self.cancelled else replace(found, outcome="interrupted")


class Opened:
    """What an accepted init decided."""

    def __init__(self, session: Session, config: InitConfig, model: str, version: Version) -> None:
        self.session = session
        self.model = model
        self.config = config
        self.version = version
        self.ids = {"session_id": session.id, "task_id": config.task_id, "worker_id": config.worker_id}
        self.seen = 0
        self.messages = 0
        self.routed: str | None = None


class Worker:
    def __init__(
        self,
        agent: Agent,
        stream: Stream,
        *,
        environ: Mapping[str, str],
        warn: Callable[[str], None],
        settle: Callable[[str], Callable[[str], str]] | None = None,
    ) -> None:
        """`settle` moves all state of this process into a directory; it returns where a session's transcript is
        then.
        """
        self._agent = agent
        self._settle_in = settle
        self._environ = environ
        self._warn = warn
        self._fields = FieldTable("worker", 0)
        self._connection = Connection("worker", check=self._check)
        self._link = Link(stream, self._connection)
        self._pending = Pending()
        self._out = Outbox(stream, warn)
        self._opened: Opened | None = None
        self._active: Active | None = None
        self._heard_all = False
        """Whether the client has closed our input, so that no one can answer a question any more."""
        self._helpers: set[asyncio.Task[None]] = set()
        self._interval = heartbeat_seconds(environ, warn)

    async def run(self) -> int:
        """Serve until the client is done with us. Returns the exit code: 0, or 1 when it went away in the middle."""
        reading, writing, serving = (
            asyncio.create_task(work, name=f"worker {name}")
            for name, work in (("reader", self._read()), ("writer", self._out.run()), ("server", self._serve()))
        )
        try:
            waiting = {reading, writing, serving}
            while not (serving.done() or writing.done()):
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
            if serving.done():
                await self._out.flushed()
            answered = serving.done() or self._pending.idle
            return 0 if answered and self._out.empty else 1
        except asyncio.CancelledError:  # a signal: the one who waits for a result gets one
            self._call_all_off()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LEAVING_SECONDS):
                    await self._out.flushed()
            raise
        except Exception as error:
            # A bug of ours. A client that waits for an answer must not wait for ever.
            log.exception("the worker has a bug")
            reason = f"The worker has a bug and ends: {type(error).__name__}: {error}"
            self._out.put(encode(protocol_error(BadLine(reason))))  # whatever the wire allows in this state
            await self._out.flushed()
            return 1
        finally:
            await end_tasks(reading, writing, serving, *self._helpers)
            if self._opened is not None:
                await self._opened.session.close()

    # In

    async def _read(self) -> None:
        try:
            async for items in self._link.batches():
                self._take(items)
                await self._out.room(4)  # more room than events may take, so that a cancel gets past a busy agent
        except RemoteProtocolError as error:
            self._take([error])
        self._heard_all = True
        if self._active is not None:
            for request in [*self._active.served.questions]:
                self._deny_question(self._active.served, request)
        self._pending.put(End())

    def _check(self, kind: str, given: dict[str, Any]) -> str:
        try:
            if unread := self._fields.judge(kind, given):
                self._warn(f"{kind}: not used here: {', '.join(unread)}")
        except Fault as refused:
            return str(refused)
        return ""

    def _take(self, items: Sequence[Any]) -> None:
        """Requests that act at once do so here; the rest waits its turn."""
        for item in items:
            if isinstance(item, CancelRequest):
                self._cancel(item.target_id)
            elif isinstance(item, AnswerRequest | Steer | StatusRequest) and self._opened is not None:
                self._at_once(self._opened, item)
            elif isinstance(item, Send) and self._pending.full:
                # If we stopped reading, we would not hear cancels.
                self._say(failed(item.id, FULL, *self._known()))
            else:
                self._pending.put(item)

    def _known(self) -> tuple[Version, dict[str, Any]]:
        return (self._opened.version, self._opened.ids) if self._opened is not None else (BASE, {})

    def _at_once(self, opened: Opened, item: AnswerRequest | Steer | StatusRequest) -> None:
        match item:
            case StatusRequest():
                self._say_status(opened, item)
            case AnswerRequest() if opened.config.asked("answers"):
                self._help(self._answer(opened.session, item))
            case Steer() if opened.config.asked("steer"):
                self._help(self._steer(opened.session, item))
            case _:
                needed = "answers" if isinstance(item, AnswerRequest) else "steer"
                self._refuse(item.id, f"config.capabilities of the init must name {needed!r} for this")

    def _help(self, work: Coroutine[Any, Any, Any]) -> None:
        start_held(self._helpers, work)

    # Out

    def _say(self, message: AnyResponse) -> None:
        self._out.put(self._connection.send(message))

    def _refuse(self, id: str, reason: str) -> None:
        self._say(protocol_error(BadLine(reason, id)))

    # In turn

    async def _serve(self) -> None:
        while True:
            match item := await self._pending.take():
                case Init():
                    await self._init(item)
                case Send():
                    await self._send(item)
                case Shutdown():
                    for later in self._pending:
                        self._settle(later)
                    self._say(ShutdownOk(id=item.id))
                    return
                case End():
                    return
                case _:
                    self._settle(item)

    def _settle(self, item: Item) -> None:
        """Handle what takes no time: a bad line, or a request that would have acted at once but waited for the init."""
        if isinstance(item, RemoteProtocolError):
            self._say(protocol_error(item))
        elif isinstance(item, StatusRequest | AnswerRequest | Steer):
            if self._opened is None:
                self._refuse(item.id, NOT_INITIALIZED)
            else:
                self._at_once(self._opened, item)

    async def _init(self, request: Init) -> None:
        if self._opened is not None:
            self._refuse(request.id, "Already initialized.")
            return
        pinned = pinned_version(self._environ, self._warn)
        try:
            text, version = negotiate(request.protocol_version, pinned)
            spec = session_spec(request.config, self._environ, self._warn)
            transcript = self._isolated(request.config)
            session = await self._agent.open(spec)
        except VersionMismatch as error:
            refusal = ErrorEnvelope(code=error.code, message=error.message, retryable=False)
            self._say(InitOk(id=request.id, session_id="", protocol_version=pinned or PROTOCOL_VERSION, error=refusal))
            return
        except Exception as error:
            self._refuse(request.id, error_info(error).message)
            return
        self._opened = Opened(session, request.config, request.config.model or spec.model or "", version)
        self._say(
            InitOk(
                id=request.id,
                session_id=session.id,
                protocol_version=text,
                capabilities=capabilities(session.info.tools, request.config.capabilities, version),
                profile=profile(request.config, session.info.tools, version),
                runtime=_runtime_reply(request.config, transcript, session.id) if version >= (0, 4) else None,
            )
        )

    def _isolated(self, config: InitConfig) -> Callable[[str], str] | None:
        """Move into the directory that the client names, if it names one."""
        root = state_root(config)
        if root is None:
            return None
        if self._settle_in is None or self._agent.name != "native":
            raise ConfigError(
                "this worker cannot store its state elsewhere", hint="leave out runtime, or use the native agent"
            )
        return self._settle_in(root)

    # A send

    async def _send(self, request: Send) -> None:
        opened = self._opened
        cancelled = self._pending.was_cancelled(request)
        if opened is None:
            self._refuse(request.id, NOT_INITIALIZED)
            return
        if cancelled:
            self._say(failed(request.id, CANCELLED, opened.version, opened.ids))
            return
        served = ServedTurn(opened.session, after=opened.seen, left="its events could not be passed on")
        out = WorkerOutgoing(
            opened.version, answers=opened.config.asked("answers"), warnings=opened.config.asked("warnings")
        )
        active = Active(request.id, out, served)
        beating = asyncio.create_task(self._beat(opened, active))
        self._active = active
        try:
            await served.prompt(Prompt(text=request.message))
            self._catch_up(opened)
            if active.cancelled:
                self._help(served.interrupt("cancelled"))
            await self._until_over(opened, active)
            ending = result(request.id, active.summary(), opened.version, opened.ids)
        except Exception as error:
            await served.close()
            ending = failed(request.id, envelope(error_info(error)), opened.version, opened.ids)
        finally:
            self._active = None
            beating.cancel()
            opened.seen = served.seen
            served.leave()
        if opened.version >= (0, 5):
            self._events(opened, active, [TurnState("completed")])
        opened.messages += 1 + ending.iterations
        self._say(ending)

    async def _until_over(self, opened: Opened, active: Active) -> None:
        """Answer a cancelled send within the client's patience, even when what it started takes longer to end."""
        await unless(active.overdue(), self._stream_turn(opened, active))

    async def _stream_turn(self, opened: Opened, active: Active) -> None:
        while batch := await active.served.batch():
            for event in batch:
                if type(event) is not TextDelta:
                    self._notice(opened, active, event)
            if payloads := active.out.translate(batch):
                self._events(opened, active, payloads)
            if active.served.ended is None:
                await self._out.room()

    def _notice(self, opened: Opened, active: Active, event: AnyEvent) -> None:
        if isinstance(event, Warned) and not opened.config.asked("warnings"):
            self._warn(event.message)
        elif isinstance(event, ModelRouted):
            opened.routed = event.model
        elif isinstance(event, Asked) and self._heard_all:
            self._deny_question(active.served, event.request)

    def _deny_question(self, served: ServedTurn, request: str) -> None:
        why = "the client has closed the connection, so no one can answer"
        self._help(served.answer(request, Answer(decision="deny", text=why, by="nobody")))

    def _events(self, opened: Opened, active: Active, payloads: Iterable[AnyPayload]) -> None:
        send, (session, task, worker) = active.id, opened.ids.values()
        lines = [
            EventLine(payload, seq, send, session, task, worker) for seq, payload in enumerate(payloads, active.seq)
        ]
        active.seq += len(lines)
        self._out.put(self._connection.send_events(lines))

    async def _beat(self, opened: Opened, active: Active) -> None:
        while True:
            await asyncio.sleep(self._interval)
            if self._out.empty:
                self._events(opened, active, [Heartbeat(round((time.monotonic() - active.started) * 1000))])

    def _catch_up(self, opened: Opened) -> None:
        """Answer status requests that were written ahead of the init they waited for."""
        for item in self._pending.take_statuses():
            self._say_status(opened, item)

    # At once

    def _say_status(self, opened: Opened, request: StatusRequest) -> None:
        self._say(
            StatusOk(
                id=request.id,
                model=opened.model,
                messages_count=opened.messages + (1 if self._active else 0),
                session_id=opened.session.id,
                active=self._active is not None,
                last_routed_model=opened.routed if opened.version >= (0, 3) else None,
            )
        )

    def _cancel(self, target: str) -> None:
        """Cancel the active send, and those of that id that still wait. An unknown id is ignored."""
        self._pending.cancel(target)
        active, opened = self._active, self._opened
        if active is None or opened is None or active.id != target or active.cancelled:
            return
        active.cancel()
        if opened.version >= (0, 5):
            self._events(opened, active, [TurnState("cancelling")])
        self._help(active.served.interrupt("cancelled"))

    def _call_all_off(self) -> None:
        """End every send that runs or waits as cancelled."""
        opened, active = self._opened, self._active
        if opened is None:
            return
        if active is not None:
            active.cancel()
            self._active = None
            self._say(result(active.id, active.summary(), opened.version, opened.ids))
        for item in self._pending:
            if isinstance(item, Send):
                self._say(failed(item.id, CANCELLED, opened.version, opened.ids))

    def _running(self, send: str) -> str | None:
        """The turn of that send, if it is the current one."""
        return self._active.served.id or None if self._active is not None and self._active.id == send else None

    async def _answer(self, session: Session, request: AnswerRequest) -> None:
        answer = Answer(
            decision=request.decision, scope=request.scope, text=request.text, changed_args=request.args, by="client"
        )
        accepted = self._running(request.target_id) is not None
        if accepted:
            try:
                await session.answer(request.request_id, answer)
            except TreadleError:
                accepted = False
        self._say(AnswerOk(id=request.id, accepted=accepted))

    async def _steer(self, session: Session, request: Steer) -> None:
        turn, accepted, why = self._running(request.target_id), False, None
        try:
            accepted = turn is not None and await session.steer(turn, request.message)
        except TreadleError as error:
            why = str(error)
        self._say(SteerOk(id=request.id, accepted=accepted, reason=why))


def _runtime_reply(config: InitConfig, transcript: Callable[[str], str] | None, session: str) -> dict[str, Any] | None:
    """What the reply says about the runtime, if the client asked for one."""
    if config.runtime is None or transcript is None:
        return None
    return {
        "mode": config.runtime.mode,
        "state_root": config.runtime.state_root,
        "transcript_path": transcript(session),
    }
