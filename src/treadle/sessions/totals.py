"""A turn that someone follows, and its totals.

`ServedTurn` is the one follower below the doors, the library, the chat and `run_turn`. It reads losslessly, and no
faster than its events are taken, so a slow client slows the agent down. Nothing is missed: reading begins before the
prompt is given, and goes on where the turn before it stopped if `after` says so. Who leaves before the end has
interrupted the turn. Final text, tool lists, usage and latencies all come from `totals`.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from types import TracebackType
from typing import Any, TypeAlias

import msgspec

from treadle.errors import BudgetExceeded, NotFound
from treadle.events import (
    Answered,
    AnyEvent,
    Asked,
    ErrorInfo,
    Event,
    FileChanged,
    Message,
    Outcome,
    TextDelta,
    ToolDenied,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    Usage,
    Warned,
)
from treadle.io.tasks import end_tasks
from treadle.session import Answer, CommandResult, Limits, Prompt, Session, TurnId


def price_of(usage: Usage) -> float | None:
    """A negative price is unknown: with it, a budget would never be reached."""
    return usage.cost_usd if usage.cost_usd is not None and 0 <= usage.cost_usd < math.inf else None


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """Token buckets that do not overlap. `cost_usd` is None as soon as one call's price is unknown."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: float | None = None
    calls: int = 0
    estimated: bool = False

    @property
    def prompt_tokens(self) -> int:
        """All input tokens, cached or not."""
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.output_tokens

    def counts(self) -> dict[str, Any]:
        """As receipts have them."""
        return {
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cache_read_tokens": self.cache_read_tokens,
            "cache_write_tokens": self.cache_write_tokens,
            "request_units": self.calls,
            "estimated_cost_usd": None if self.cost_usd is None else round(self.cost_usd, 9),
        }

    @classmethod
    def of(cls, usages: Iterable[Usage]) -> Totals:
        totals = cls()
        for usage in usages:
            totals = totals.plus(usage)
        return totals

    def together(self, other: Totals) -> Totals:
        unknown = any(one.calls and one.cost_usd is None for one in (self, other))
        cost = None if unknown or not (self.calls or other.calls) else (self.cost_usd or 0.0) + (other.cost_usd or 0.0)
        return Totals(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            cost_usd=cost,
            calls=self.calls + other.calls,
            estimated=self.estimated or other.estimated,
        )

    def plus(self, usage: Usage) -> Totals:
        cost = price_of(usage)
        unknown = cost is None or (self.calls > 0 and self.cost_usd is None)
        return Totals(
            input_tokens=self.input_tokens + usage.input_tokens,
            output_tokens=self.output_tokens + usage.output_tokens,
            cache_read_tokens=self.cache_read_tokens + usage.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + usage.cache_write_tokens,
            reasoning_tokens=self.reasoning_tokens + usage.reasoning_tokens,
            cost_usd=None if unknown else (self.cost_usd or 0.0) + (cost or 0.0),
            calls=self.calls + 1,
            estimated=self.estimated or usage.source == "estimate",
        )


def over(limits: Limits, spent: Totals, known_usd: float) -> BudgetExceeded | None:
    """The error of a session that has used more than its limits on money and tokens allow. `known_usd`: what the calls
    cost together whose price is known; the others do not end the limit on these."""
    if limits.max_cost_usd is not None and known_usd > limits.max_cost_usd:
        return BudgetExceeded(f"{known_usd:.4f} USD are spent, {limits.max_cost_usd:g} were allowed")
    if limits.max_tokens is not None and spent.total_tokens > limits.max_tokens:
        return BudgetExceeded(f"{spent.total_tokens} tokens are used, {limits.max_tokens} were allowed")
    return None


def unmetered(limits: Limits, spent: Totals) -> str:
    """What an agent has not reported although a limit counts it ("tokens and no costs"); empty when all is there."""
    missing = ["tokens"] if limits.max_tokens is not None and not spent.total_tokens else []
    missing += ["costs"] if limits.max_cost_usd is not None and spent.cost_usd is None else []
    return " and no ".join(missing)


class ToolUse(msgspec.Struct, frozen=True, kw_only=True):
    started: ToolStarted
    ended: ToolEnded | None = None
    """None when the turn ended while the tool ran."""


class TurnSummary(msgspec.Struct, frozen=True, kw_only=True):
    turn: str = ""
    prompt: str = ""
    outcome: Outcome | None = None
    """None while the turn is running."""
    text: str = ""
    error: ErrorInfo | None = None
    stop_reason: str = ""
    iterations: int = 0
    tools: tuple[ToolUse, ...] = ()
    denials: tuple[ToolDenied, ...] = ()
    files: tuple[FileChanged, ...] = ()
    usage: Totals = Totals()
    own: Totals = Totals()
    """The part of `usage` that is not of subagents."""
    counted: Totals = Totals()
    """The part of `usage` that services have counted, without estimates."""
    request_id: str | None = None
    """The service's id of the last reply that it counted."""
    by_model: dict[str, Totals] = {}
    """What is known about each model. Usage without a model's name counts in `usage` only."""
    total_ms: int = 0
    tool_ms: int = 0
    """Wall time with at least one tool running: parallel tools count once."""
    model_ms: int = 0


class TurnTotals:
    """Takes events one by one; call `summary()` at any time. Of subagents' events only usage and refusals count.

    Several turns of one run share a summary: times and totals cover all of them, text and outcome are the last turn's.
    """

    def __init__(self) -> None:
        self._started: TurnStarted | None = None
        self._ended: TurnEnded | None = None
        self._iterations = 0
        self._tools: dict[str, ToolUse] = {}
        self._running: set[str] = set()
        self._busy_since = 0.0
        self._tool_seconds = 0.0
        self._model_ms = 0
        self._denials: list[ToolDenied] = []
        self._files: list[FileChanged] = []
        self._usage = Totals()
        self._own = Totals()
        self._counted = Totals()
        self._request_id: str | None = None
        self._by_model: dict[str, Totals] = {}
        self._deltas: list[str] = []
        self._message = ""
        self._last_ts = 0.0

    def add(self, event: Event) -> None:
        self._last_ts = event.ts
        kind = type(event)
        if kind is Usage:
            self._count(event)  # type: ignore[arg-type]
        elif event.parent is not None and kind is not ToolDenied:
            return
        elif kind is TextDelta:
            self._deltas.append(event.text)  # type: ignore[attr-defined]
        else:
            self._note(event)

    @property
    def in_tools(self) -> bool:
        """Whether a tool is running, as far as events tell."""
        return bool(self._running)

    def _note(self, event: Event) -> None:
        match event:
            case TurnStarted():
                self._started = self._started or event
            case Message(kind="text", text=text):
                self._message, self._deltas = text, []
            case ToolStarted(call=call):
                if not self._running:
                    self._busy_since = event.ts
                self._running.add(call)
                self._tools[call] = ToolUse(started=event)
            case ToolEnded(call=call) if call in self._tools:
                self._tools[call] = ToolUse(started=self._tools[call].started, ended=event)
                self._rest(call, event.ts)
            case ToolDenied():
                self._denials.append(event)
            case FileChanged():
                self._files.append(event)
            case TurnEnded():
                for call in list(self._running):
                    self._rest(call, event.ts)
                self._ended = event
                self._iterations += event.iterations

    def _rest(self, call: str, ts: float) -> None:
        self._running.discard(call)
        if not self._running:
            self._tool_seconds += ts - self._busy_since

    def _count(self, usage: Usage) -> None:
        self._usage = self._usage.plus(usage)
        if usage.source != "estimate":
            self._counted = self._counted.plus(usage)
            self._request_id = usage.request_id if usage.parent is None else self._request_id
        if usage.model:
            self._by_model[usage.model] = self._by_model.get(usage.model, Totals()).plus(usage)
        if usage.parent is None:
            self._own = self._own.plus(usage)
            self._model_ms += usage.duration_ms

    def summary(self) -> TurnSummary:
        ended, started = self._ended, self._started
        total_ms = round(((ended.ts if ended else self._last_ts) - started.ts) * 1000) if started else 0
        tool_ms = round(self._tool_seconds * 1000)
        return TurnSummary(
            turn=started.turn if started else "",
            prompt=started.prompt if started else "",
            outcome=ended.outcome if ended else None,
            text=(ended.text if ended else "") or "".join(self._deltas) or self._message,
            error=ended.error if ended else None,
            stop_reason=ended.stop_reason if ended else "",
            iterations=self._iterations,
            tools=tuple(self._tools.values()),
            denials=tuple(self._denials),
            files=tuple(self._files),
            usage=self._usage,
            own=self._own,
            counted=self._counted,
            request_id=self._request_id,
            by_model=dict(self._by_model),
            total_ms=max(total_ms, 0),
            tool_ms=tool_ms,
            model_ms=self._model_ms or max(total_ms - tool_ms, 0),
        )


def totals(events: Iterable[Event]) -> TurnSummary:
    taken = TurnTotals()
    for event in events:
        taken.add(event)
    return taken.summary()


Ask: TypeAlias = Callable[[Asked], Awaitable[Answer | None]]
"""Puts a question to the client; None when someone else answers it. Cancelled when it is settled otherwise."""


class ServedTurn:
    """`async with` it, `prompt` or `command` once, then take its events, which end with its TurnEnded; warnings that
    belong to no turn are among them. Who does neither follows the turn that begins next."""

    def __init__(
        self,
        session: Session,
        *,
        after: int = -1,
        ask: Ask | None = None,
        left: str = "the client stopped listening",
        beside: bool = False,
        totals: TurnTotals | None = None,
    ) -> None:
        """With `beside`, all that belongs to no turn is among its events, such as what background tasks report; it is
        read until `leave`. `totals` go on from there, for several turns that are one run."""
        self.session = session
        self.id: TurnId = ""
        self.seen = max(after, 0)
        """The number of the last event that was taken."""
        self.questions: dict[str, Asked] = {}
        """Those that are open, the oldest first."""
        self.totals = TurnTotals() if totals is None else totals
        self.ended: TurnEnded | None = None
        self._ask = ask
        self._left = left
        self._beside = beside
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._next: list[AnyEvent] = []
        """Those that were read and not taken, the newest first."""
        self._starting = False
        self._early: list[AnyEvent] = []
        """Of turns, from before we know which one is ours: a command can run one to its end."""
        self._reader = session.events(after=after)

    async def __aenter__(self) -> ServedTurn:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def leave(self) -> None:
        """Stop reading without ending the turn."""
        self._reader.close()

    async def close(self) -> None:
        self.leave()
        try:
            await self.interrupt(self._left)
        finally:
            await end_tasks(*self._asking.values())

    async def prompt(self, prompt: Prompt) -> TurnId:
        self._starting = True
        try:
            self.adopt(await self.session.prompt(prompt))
        except BaseException:
            self.leave()  # the session must not wait for who will not read
            raise
        return self.id

    async def command(self, name: str, args: str) -> CommandResult | None:
        """Its turn is followed, if it starts one. Who takes events meanwhile does so by `batch` with `until`."""
        self._starting = True
        result = await self.session.command(name, args)
        if result is not None and result.turn is not None:
            self.adopt(result.turn)
        return result

    def adopt(self, turn: TurnId) -> None:
        """Follow this one, which someone has started."""
        self.id = turn
        self._next, self._early = [*self._next, *self._early[::-1]], []

    # What happens

    def __aiter__(self) -> ServedTurn:
        return self

    async def __anext__(self) -> AnyEvent:
        """Its events one by one: what else this object says is as of that event."""
        while self.ended is None:
            while self._next:
                if self._take(event := self._next.pop()):
                    return event
            found = await self._reader.batch()
            self._next[:0] = found[::-1]  # before those that were early: a turn was adopted meanwhile
            if not self._next:
                break
        raise StopAsyncIteration

    async def batch(self, until: asyncio.Future[Any] | None = None) -> list[AnyEvent]:
        """Those that are there now, at least one; none after its TurnEnded, when the session has closed, and when
        `until` is done first. Cheaper per event."""
        while self.ended is None:
            if taken := self.ready():
                return taken
            found = await (self._reader.batch() if until is None else self._batch_until(until))
            self._next[:0] = found[::-1]
            if not self._next:
                break
        return []

    async def _batch_until(self, until: asyncio.Future[Any]) -> list[AnyEvent]:
        reading = asyncio.ensure_future(self._reader.batch())
        try:
            await asyncio.wait([reading, until], return_when=asyncio.FIRST_COMPLETED)
        finally:
            await end_tasks(reading)  # which takes nothing when it is ended while it waits
        return [] if reading.cancelled() else reading.result()

    def ready(self) -> list[AnyEvent]:
        """Those that are there now, without waiting; after the end, what belongs to no turn."""
        found, self._next = [*self._next[::-1], *self._reader.ready()], []
        return [event for event in found if self._take(event)]

    def _take(self, event: AnyEvent) -> bool:
        if self.ended is not None:
            return self._beside and not event.turn
        if event.turn and not self.id:
            if self._starting:
                self._early.append(event)
            elif type(event) is TurnStarted:
                self.id = event.turn
        self.seen = max(event.seq or 0, self.seen)
        if not event.turn or event.turn != self.id:
            return not event.turn and self._without_turn(event)
        self.totals.add(event)
        if type(event) is Asked:
            self.questions[event.request] = event
            if self._ask is not None:
                self._asking[event.request] = asyncio.create_task(self._put(self._ask, event))
        elif type(event) is Answered:
            # One that we have answered is no longer among them, and who asked it may have more to do.
            if self.questions.pop(event.request, None) and (asking := self._asking.pop(event.request, None)):
                asking.cancel()
        elif type(event) is TurnEnded:
            self.ended = event
            self.questions.clear()
            if not self._beside:
                self.leave()
        return True

    def _without_turn(self, event: AnyEvent) -> bool:
        if self._beside:
            self.totals.add(event)
        return self._beside or type(event) is Warned and event.code != "gap"

    async def _put(self, ask: Ask, asked: Asked) -> None:
        if (answer := await ask(asked)) is not None:
            await self.answer(asked.request, answer)

    # What the client does

    async def answer(self, request: str, answer: Answer) -> bool:
        """False when it is no longer open: it was answered, or its time has run out, and an event says which."""
        self.questions.pop(request, None)
        try:
            await self.session.answer(request, answer)
        except NotFound:
            return False
        return True

    async def steer(self, text: str) -> bool:
        return bool(self.id) and self.ended is None and await self.session.steer(self.id, text)

    async def interrupt(self, reason: str) -> None:
        if self.id and self.ended is None:
            await self.session.interrupt(self.id, reason)


async def run_turn(session: Session, text: str, **more: Any) -> AsyncIterator[AnyEvent]:
    """Prompt and iterate: the events of one turn, ending with its TurnEnded. It goes on when you leave."""
    served = ServedTurn(session)
    try:
        await served.prompt(Prompt(text=text, **more))
        async for event in served:
            if event.turn:
                yield event
    finally:
        served.leave()
