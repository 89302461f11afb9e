"""What every session has, native or driven: the event log, the turn queue, pending questions with deadlines, and the
rule that every turn ends with exactly one TurnEnded.

A kind of session defines what a turn does (`_turn`) and how it releases its resources (`_close`); the rest is here.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import time
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

import msgspec

from treadle import events
from treadle.errors import (
    BudgetExceeded,
    Busy,
    Cancelled,
    ConfigError,
    LimitReached,
    LocalError,
    NotFound,
    TimedOut,
    TreadleError,
    Unsupported,
)
from treadle.events import (
    Answered,
    AnyEvent,
    Asked,
    Closed,
    CommandRun,
    ContextCompacted,
    ErrorInfo,
    Event,
    Failed,
    FileChanged,
    Message,
    Outcome,
    TaskChanged,
    ToolEnded,
    ToolOutput,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    Usage,
    Warned,
)
from treadle.io.tasks import within
from treadle.session import (
    AgentInfo,
    Answer,
    Change,
    CommandInfo,
    CommandResult,
    EventReader,
    Limits,
    Prompt,
    TurnId,
)
from treadle.sessions import abilities
from treadle.sessions.totals import Totals, over, price_of, unmetered
from treadle.wire.common.jsontext import repaired

if TYPE_CHECKING:
    from treadle.sessions.telemetry import SessionSpans

# What a log of internals (`TREADLE_LOG`) says about an event: what happened and who decided, never what was said.


def log_line(event: events.Event) -> str | None:
    """One line, or None for events that would only fill the log, such as text."""
    match event:
        case events.TurnStarted():
            return "turn started"
        case events.ToolStarted():
            return f"tool {event.name} started, call {event.call}"
        case events.ToolEnded():
            return f"tool call {event.call} {'succeeded' if event.ok else 'failed'}"
        case events.ToolDenied():
            return f"tool {event.name} denied by {event.by}: {event.reason}"
        case events.Asked():
            return f"asked {event.request} ({event.kind}) about {event.name or 'the person'}, deadline {event.deadline}"
        case events.Answered():
            return f"answered {event.request}: {event.decision} by {event.by}"
        case events.Retrying():
            return f"try {event.attempt} failed, next in {event.delay_ms} ms: {event.error.code} {event.error.message}"
        case events.ModelRouted():
            return f"routed to {event.model}"
        case events.Usage():
            return f"usage: {event.prompt_tokens} tokens in, {event.output_tokens} out"
        case events.ContextCompacted():
            return "context compacted"
        case events.TaskChanged():
            return f"task {event.task_id} {event.change}"
        case events.Warned():
            return f"warned ({event.code}): {event.message}"
        case events.Failed():
            return f"failed: {event.error.code} {event.error.message}"
        case events.TurnEnded():
            why = f": {event.error.code} {event.error.message}" if event.error else ""
            return f"turn ended as {event.outcome}{why}"
        case events.Closed():
            return "session closed"
        case _:
            return None


# A session's events: numbered, replayable, many readers, bounded memory.
#
# There are two kinds of readers. A lossless reader makes the session wait when it is a window behind (see `room`); an
# observer is never waited for, and is told how many events it missed.

WINDOW = 4096
"""Events that a lossless reader may be behind before the session waits for it."""
KEEP = 8192
"""Events that are kept for readers that come later; never fewer than a window."""
MOST = 32 << 20
"""How many characters of long texts are kept. Beyond that, events that every lossless reader has seen are dropped."""

LATEST = 64

_LONG: dict[type, str] = {
    ToolStarted: "args",
    ToolEnded: "result",
    ToolOutput: "text",
    FileChanged: "diff",
    CommandRun: "output",
    Message: "text",
    TurnEnded: "text",
    ContextCompacted: "summary",
    TaskChanged: "data",
}
_stamp = msgspec.structs.force_setattr


class EventLog:
    def __init__(
        self, clock: Callable[[], float] = time.time, window: int = WINDOW, keep: int = KEEP, most: int = MOST
    ) -> None:
        if keep < window:
            raise ValueError("a log must keep at least a window of events, or lossless readers would lose some")
        self._clock = clock
        self._window = window
        self._keep = keep
        self._most = most
        self._size = 0
        self._events: list[AnyEvent] = []
        self._dropped = 0
        self._readers: weakref.WeakSet[LogReader] = weakref.WeakSet()
        self._waiting: list[asyncio.Future[None]] = []
        self._held: list[asyncio.Future[None]] = []
        self._slowest = 0
        self.closed = False

    @property
    def last(self) -> int:
        """The number of the newest event."""
        return self._dropped + len(self._events)

    def append(self, event: Event, turn: str) -> None:
        """Stamp the event and make it readable. An event that already names its turn keeps it."""
        assert not self.closed, "an event after Closed"
        events = self._events
        _stamp(event, "seq", self._dropped + len(events) + 1)
        _stamp(event, "ts", self._clock())
        if turn and not event.turn:
            _stamp(event, "turn", turn)
        events.append(event)  # type: ignore[arg-type]
        if type(event) in _LONG:  # the many small events must cost nothing here
            self._size += _size(event)
        if self._size > self._most:
            self._drop_oldest()
        if len(events) >= self._keep + self._window:
            self._forget(self._window)
        if self._waiting:
            _wake(self._waiting)

    def _drop_oldest(self) -> None:
        """Drop the oldest events until half of the limit is left, but none that a lossless reader still needs.

        The latest events always stay, for observers that are about to read.
        """
        left, count = self._size, 0
        for event in self._events[: max(min(self._read_by_all() - self._dropped, len(self._events) - LATEST), 0)]:
            if left <= self._most // 2:
                break
            left -= _size(event) if type(event) in _LONG else 0
            count += 1
        self._forget(count)

    def _forget(self, count: int) -> None:
        if self._size:
            self._size -= sum(_size(event) for event in self._events[:count] if type(event) in _LONG)
        del self._events[:count]
        self._dropped += count

    def _read_by_all(self) -> int:
        """The number of the last event that every lossless reader has taken."""
        return min((reader.cursor for reader in self._readers if not reader.observer), default=self.last)

    async def room(self) -> None:
        """Wait until no lossless reader is more than a window behind."""
        if self.last - self._slowest < self._window:
            return
        while not self.closed:
            self._slowest = self._read_by_all()
            if self.last - self._slowest < self._window:
                return
            await _wait(self._held)

    def read(self, after: int = 0, *, observer: bool = False) -> LogReader:
        reader = LogReader(self, self.last if after < 0 else min(after, self.last), observer)
        self._readers.add(reader)
        # A reader that starts in the past is now the slowest. One that is garbage-collected must not hold the session.
        self._slowest = min(self._slowest, reader.cursor)
        weakref.finalize(reader, _wake, self._held)
        return reader

    def close(self) -> None:
        self.closed = True
        _wake(self._waiting)
        _wake(self._held)

    def take(self, reader: LogReader) -> list[AnyEvent]:
        """The events that this reader has not seen, without waiting."""
        first = self._dropped + 1
        missed = first - reader.cursor - 1
        if missed > 0:
            reader.cursor = self._dropped
            gap = Warned(message=f"{missed} earlier events are no longer stored", code="gap", ts=self._clock())
            return [gap, *self._advance(reader)]
        return self._advance(reader)

    def _advance(self, reader: LogReader) -> list[AnyEvent]:
        found = self._events[reader.cursor - self._dropped :]
        reader.cursor = self.last
        if self._held:
            _wake(self._held)
        return found

    async def wait(self) -> None:
        await _wait(self._waiting)


class LogReader:
    """Implements session.EventReader."""

    def __init__(self, log: EventLog, cursor: int, observer: bool) -> None:
        self._log = log
        self._pending: list[AnyEvent] = []
        self.cursor = cursor
        self.observer = observer

    def __aiter__(self) -> AsyncIterator[AnyEvent]:
        return self

    async def __anext__(self) -> AnyEvent:
        if not self._pending:
            self._pending = await self.batch()
            self._pending.reverse()
            if not self._pending:
                raise StopAsyncIteration
        return self._pending.pop()

    async def batch(self) -> list[AnyEvent]:
        while not (found := self.ready()) and not self._log.closed:
            await self._log.wait()
        return found

    def ready(self) -> list[AnyEvent]:
        rest, self._pending = self._pending[::-1], []
        return rest or self._log.take(self)

    def close(self) -> None:
        """Stop making the session wait for this reader."""
        self.observer = True
        self._log.take(self)


def _size(event: Event) -> int:
    """The length of all texts in the field that can be long, which may hold a tool's arguments."""
    size, parts = 0, [getattr(event, _LONG[type(event)])]
    for part in parts:
        if isinstance(part, str):
            size += len(part)
        elif isinstance(part, dict):
            parts += part.values()
        elif isinstance(part, list | tuple):
            parts += part
    return size


def _wake(waiting: list[asyncio.Future[None]]) -> None:
    woken, waiting[:] = waiting[:], []
    for future in woken:
        if not future.done():
            future.set_result(None)


async def _wait(waiting: list[asyncio.Future[None]]) -> None:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    waiting.append(future)
    await future


log = logging.getLogger(__name__)

QUEUED_TURNS = 32
QUESTION_SECONDS = 300.0


def new_id(prefix: str) -> str:
    return f"{prefix}_{os.urandom(8).hex()}"


def error_info(error: BaseException) -> ErrorInfo:
    """Any exception as an ErrorInfo. One that is not a TreadleError is a bug of ours: an internal error."""
    if isinstance(error, TreadleError):
        return ErrorInfo(
            code=error.code,
            message=str(error),
            retryable=error.retryable,
            details=error.details,
            retry_after_ms=error.retry_after_ms,
        )
    return ErrorInfo(code="internal_error", message=f"{type(error).__name__}: {error}")


class Turn:
    """A running or waiting turn. It holds what was reached so far, so that an interrupted turn can still report it."""

    def __init__(self, prompt: Prompt) -> None:
        self.id: TurnId = new_id("turn")
        self.prompt = prompt
        self.task: asyncio.Task[TurnEnded] | None = None
        self.ended = asyncio.Event()
        self.interrupted: str | None = None
        self.exceeded: BudgetExceeded | None = None
        """Why it is being stopped."""
        self.limit: asyncio.Timeout | None = None
        self.text = ""
        self.iterations = 0
        self.steering: deque[str] = deque()
        self.hears = True
        """Whether another step will come, before which further text from a person can be inserted."""

    def steer(self, text: str) -> bool:
        """Insert text before the next step; False when there will be none."""
        if self.hears:
            self.steering.append(text)
        return self.hears

    def ending(self, outcome: Outcome, error: ErrorInfo | None = None, stop_reason: str = "") -> TurnEnded:
        return TurnEnded(
            outcome=outcome,
            text=self.text,
            error=error,
            iterations=self.iterations,
            stop_reason=stop_reason or (error.code if error else ""),
        )


class BaseSession(ABC):
    def __init__(
        self,
        session_id: str,
        info: AgentInfo,
        *,
        answers: bool = False,
        queue_limit: int = QUEUED_TURNS,
        question_seconds: float = QUESTION_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._id = session_id
        self._info = info
        self._answers = answers
        self._queue: deque[Turn] = deque()
        self._queue_limit = queue_limit
        self._question_seconds = question_seconds
        self._clock = clock
        self._log = EventLog(clock)
        self._current: Turn | None = None
        self._gate = asyncio.Lock()
        """Held by the running turn, or by a command that must not run during a turn."""
        self._pump: asyncio.Task[None] | None = None
        self._questions: dict[str, tuple[Asked, asyncio.Future[Answer]]] = {}
        self._stoppable: dict[str, str] = {}
        """Calls and tasks that run, and the ability that is needed to stop each alone."""
        self._commands: dict[asyncio.Task[CommandResult | None], str] = {}
        self._closing: asyncio.Future[None] | None = None
        self.limits = Limits()
        """What a turn may take and the session may spend; set by the one who opens the session of an outside agent."""
        self.spent = Totals()
        """What all turns have used, as the agent reports it."""
        self._known_usd = 0.0
        self._unmetered = ""
        """What was said to be missing there."""
        self.handover = ""
        """Told before the first prompt, and then no more."""
        self._spans: SessionSpans | None = None
        if any(name.startswith("OTEL_EXPORTER_OTLP_") for name in os.environ):
            self._send_spans()

    def _send_spans(self) -> None:
        """Send spans to the collector that the environment names."""
        from treadle.sessions import telemetry

        try:
            self._spans = telemetry.SessionSpans(self._id) if telemetry.is_on() else None
        except ConfigError as error:
            self.emit(Warned(message=f"{error.message}: {error.hint}", code="telemetry"))

    # Defined by each kind of session

    @abstractmethod
    async def _turn(self, turn: Turn) -> TurnEnded:
        """Do what the prompt asks and emit events; keep turn.text and turn.iterations current.

        It may raise: a TreadleError is a failure with that code, and anything else is reported as a bug. An interrupt
        arrives as cancellation. Everything durable must be on disk when this returns or raises.
        """

    async def _steer(self, turn: Turn, text: str) -> bool:
        """Give this turn a text before its next step; False when it has none left."""
        return False

    async def _configure(self, change: Change) -> None:
        """Change the model, the mode or the effort."""
        raise LocalError(f"{self._info.name} cannot be changed during a session")

    async def _command(self, name: str, args: str) -> CommandResult | None:
        """Run a slash command. An interrupt arrives as cancellation; the command may still return what it has."""
        return None

    async def _close(self) -> None:  # noqa: B027
        """Release what this kind of session holds. Its turns have ended by then."""

    async def _interrupt_other(self, target: str, reason: str) -> None:  # noqa: B027
        """Handle an interrupt whose target is not a turn: it may be a call or a task of this kind of session."""

    # The contract

    @property
    def id(self) -> str:
        return self._id

    @property
    def info(self) -> AgentInfo:
        return self._info

    @property
    def busy(self) -> bool:
        return self._gate.locked() or bool(self._queue)

    def alone(self) -> asyncio.Lock:
        """`async with session.alone():` for work that must not overlap a turn: turns wait. Raises Busy during one."""
        if self.busy:
            raise Busy("Another prompt or command is already running", hint="wait for it to end, or interrupt it")
        return self._gate

    def events(self, after: int = 0, *, observer: bool = False) -> EventReader:
        return self._log.read(after, observer=observer)

    takes_documents = False

    async def prompt(self, prompt: Prompt) -> TurnId:
        if self._closing is not None:
            raise LocalError("this session is closed", hint="open a new one, or resume it by its id")
        if len(self._queue) >= self._queue_limit:
            raise Busy(f"{self._queue_limit} turns are waiting already", hint="wait for one to end")
        # A prompt from a command line can hold lone surrogates, which no wire and no file could carry.
        text = repaired(f"{self.handover}\n\n{prompt.text}" if self.handover else prompt.text)
        if prompt.images:
            self._require("images")
        if prompt.documents and not self.takes_documents:
            raise Unsupported(f"{self.info.name} accepts no documents", hint="save it as a file and name its path")
        turn = Turn(prompt if text == prompt.text else msgspec.structs.replace(prompt, text=text))
        self.handover = ""
        self._queue.append(turn)
        self._wake()
        return turn.id

    async def steer(self, turn: TurnId, text: str) -> bool:
        self._require("steer")
        current = self._current
        return current is not None and current.id == turn and await self._steer(current, text)

    def commands(self) -> list[CommandInfo]:
        return []

    async def command(self, name: str, args: str) -> CommandResult | None:
        """The command is cancelled when its caller is, or when the session closes."""
        work = asyncio.create_task(self._command(name, args), name=f"/{name} of {self._id}")
        self._commands[work] = f"/{name}"
        work.add_done_callback(self._commands.pop)
        try:
            await asyncio.wait([work])
        finally:
            work.cancel()
            await settled(work)
        return CommandResult(message="", ok=False) if work.cancelled() else work.result()

    async def answer(self, request: str, answer: Answer) -> None:
        asked, question = self._questions.get(request, (None, None))
        if asked is None or question is None or question.done():
            raise NotFound(f"no open question {request!r}", hint="it may have been answered, or its time has run out")
        question.set_result(self._feasible(asked, answer))

    def _feasible(self, asked: Asked, answer: Answer) -> Answer:
        """An answer that cannot be carried out as given is a denial, never the nearest thing."""
        if answer.decision == "deny" or answer.changed_args is None:
            return answer
        if answer.changed_args == asked.args:
            return msgspec.structs.replace(answer, changed_args=None)
        if abilities.can(self._info.capabilities, "changed_input"):
            return answer
        limit = f"{self._info.name} {abilities.ABILITIES['changed_input'].refusal}, so {asked.name or 'it'} was denied"
        self.emit(Warned(message=f"{limit}; the approved input is in the denial", code="changed_input"))
        return abilities.instead_of_changed(self._info.name, answer)

    async def interrupt(self, target: str, reason: str = "") -> None:
        if self._current is not None and self._current.id == target:
            await self._interrupt_turn(self._current, reason)
            return
        for turn in self._queue:
            if turn.id == target:
                self._queue.remove(turn)
                self._skip(turn, reason)
                return
        commands = [work for work, name in self._commands.items() if name == target]
        for work in commands:
            work.cancel()
        if commands:
            await asyncio.wait(commands)
        else:
            if target in self._stoppable:
                self._require(self._stoppable[target])
            await self._interrupt_other(target, reason)

    async def configure(self, change: Change) -> None:
        changes = {"switch_model": change.model, "mode": change.mode, "effort": change.thinking}
        for ability, wanted in changes.items():
            if wanted is not None:
                self._require(ability)
        await self._configure(change)

    async def close(self) -> None:
        if self._closing is not None:
            await asyncio.shield(self._closing)
            return
        self._closing = asyncio.get_running_loop().create_future()
        for work in self._commands:
            work.cancel()
        try:
            while self._queue:
                self._skip(self._queue.popleft(), "the session was closed")
            if self._current is not None:
                await self._interrupt_turn(self._current, "the session was closed")
            if self._pump is not None:
                await asyncio.wait([self._pump])
            await self._close()
        finally:
            self.emit(Closed())
            self._log.close()
            self._closing.set_result(None)

    # For kinds of session

    def emit(self, event: Event, turn: TurnId | None = None) -> None:
        """Put an event into the log, unless the session has closed: no one would read it then."""
        if type(event) in (ToolStarted, ToolEnded, TaskChanged):
            self._note_stoppable(event)
        if log.isEnabledFor(logging.INFO) and (line := log_line(event)) is not None:
            at = turn if turn is not None else (self._current.id if self._current else "")
            log.info("%s: %s", self._info.name, line, extra={"session": self._id, "turn": at})
        if not self._log.closed:
            self._log.append(event, turn if turn is not None else (self._current.id if self._current else ""))
            if self._spans is not None:
                self._spans.add(event, self._info)
        if type(event) is Usage:
            self._spend(event)

    def _spend(self, usage: Usage) -> None:
        """Count what a model call used, and stop the turn when that exceeds a limit."""
        self.spent = self.spent.plus(usage)
        self._known_usd += price_of(usage) or 0.0
        turn = self._current
        if turn is not None and turn.limit is not None and turn.exceeded is None:
            turn.exceeded = over(self.limits, self.spent, self._known_usd)
            if turn.exceeded is not None and not turn.limit.expired():
                turn.limit.reschedule(asyncio.get_running_loop().time())

    def _note_stoppable(self, event: Event) -> None:
        match event:
            case ToolStarted(call=call):
                self._stoppable[call] = "interrupt_call"
            case ToolEnded(call=call):
                self._stoppable.pop(call, None)
            case TaskChanged(task_id=task, change="completed" | "failed" | "cancelled" | "closed"):
                self._stoppable.pop(task, None)
            case TaskChanged(task_id=task):
                self._stoppable[task] = "tasks"

    def _require(self, ability: str) -> None:
        """Raise Unsupported, with the reason, unless the agent's card declares this."""
        abilities.require(self._info.name, self._info.capabilities, ability)

    async def room(self) -> None:
        """Wait for lossless readers that are far behind. Call it wherever many events are made."""
        await self._log.room()

    async def ask(self, asked: Asked) -> Answer:
        """Wait for a person's answer until the deadline; after it, the answer is no."""
        if not self._answers:
            return Answer(decision="deny", text="no one can be asked in this session", by="nobody")
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._questions[asked.request] = asked, future
        changeable = asked.kind == "permission" and abilities.can(self._info.capabilities, "changed_input")
        self.emit(msgspec.structs.replace(asked, changeable=changeable))
        # If the one who asked was stopped, no answer is needed any more.
        answer = Answer(decision="deny", text="what it was asked for was stopped", by="nobody")
        endless = math.isinf(self._question_seconds)
        try:
            # Until Python 3.12, asyncio.wait_for loses an interrupt that comes right after the answer.
            async with within(None if endless else self._question_seconds):
                answer = await future
        except TimeoutError:
            answer = Answer(decision="deny", text=f"no answer within {self._question_seconds:g} s", by="deadline")
        finally:
            del self._questions[asked.request]
            self.emit(
                Answered(
                    request=asked.request, decision=answer.decision, text=answer.text, scope=answer.scope, by=answer.by
                )
            )
        return answer

    def deadline(self) -> float | None:
        """The time at which a question that is asked now expires; None: it waits for the person."""
        return None if math.isinf(self._question_seconds) else self._clock() + self._question_seconds

    # Turns

    def _wake(self) -> None:
        """Make sure that the queue is being processed."""
        if self._pump is None or self._pump.done():
            self._pump = asyncio.create_task(self._run_queue(), name=f"turns of {self._id}")

    async def _run_queue(self) -> None:
        while self._queue:
            async with self._gate:
                if self._queue:  # it may have been emptied while we waited
                    await self._run(self._queue.popleft())

    async def _run(self, turn: Turn) -> None:
        self._current = turn
        self.emit(TurnStarted(prompt=turn.prompt.text, source=turn.prompt.source))
        turn.task = asyncio.create_task(self._timed(turn), name=f"{turn.id} of {self._id}")
        await asyncio.wait([turn.task])
        self.emit(self._ending(turn, turn.task))
        self._current = None
        turn.ended.set()

    async def _timed(self, turn: Turn) -> TurnEnded:
        """A turn that takes too long, or spends too much, is stopped as by an interrupt."""
        limits = self.limits
        try:
            async with within(limits.max_seconds) as turn.limit:
                ended = await self._turn(turn)
        except (TimeoutError, TreadleError) as error:
            if turn.exceeded is not None:
                raise turn.exceeded from None
            if isinstance(error, TimeoutError) and turn.limit is not None and turn.limit.expired():
                raise TimedOut(f"the turn took more than {limits.max_seconds:g} s") from None
            raise
        finally:
            turn.limit = None
        if turn.exceeded is not None:
            raise turn.exceeded
        missing = unmetered(limits, self.spent) if ended.outcome == "completed" else ""
        if missing and missing != self._unmetered:
            self._unmetered = missing
            message = f"{self._info.name} reported no {missing} in this turn, so that limit was not enforced"
            if self._known_usd and missing == "costs":
                message = f"{self._info.name} has not reported the cost of all calls: that limit counts the others only"
            self.emit(Warned(message=message, code="not_enforced"))
        return ended

    def _ending(self, turn: Turn, task: asyncio.Task[TurnEnded]) -> TurnEnded:
        if task.cancelled():
            return turn.ending("interrupted", error_info(Cancelled(turn.interrupted or "cancelled")))
        error = task.exception()
        if error is None:
            return task.result()
        if not isinstance(error, TreadleError):
            log.error("a turn failed unexpectedly", exc_info=error, extra={"session": self._id, "turn": turn.id})
        self.emit(Failed(error=error_info(error), provider=getattr(error, "provider", None) or None))
        outcome: Outcome = "limited" if isinstance(error, LimitReached) else "failed"
        return turn.ending(outcome, error_info(error))

    async def _interrupt_turn(self, turn: Turn, reason: str) -> None:
        """Cancel the turn and wait for its TurnEnded."""
        if turn.interrupted is None:
            turn.interrupted = reason or "cancelled"
            if turn.task is not None:
                turn.task.cancel()
        if asyncio.current_task() is not turn.task:
            await turn.ended.wait()

    def _skip(self, turn: Turn, reason: str) -> None:
        """A turn that never ran still gets its start and end events."""
        self.emit(TurnStarted(prompt=turn.prompt.text, source=turn.prompt.source), turn.id)
        self.emit(turn.ending("interrupted", error_info(Cancelled(reason or "cancelled"))), turn.id)


async def settled(task: asyncio.Task[Any]) -> None:
    """Wait for the end of a cancelled task, even if we are cancelled again meanwhile."""
    again: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            again = error
    if again is not None:
        raise again
