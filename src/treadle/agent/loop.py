"""The loop: ask the model, run the tools it asked for, repeat until it answers.

Policy is passed in: what may run (`permit`), what fits (`context`), when to stop (`budget`, `repeats`), what else
happens around a tool (`hooks`). A tool that fails is a result for the model to read. A model that fails raises, and the
session turns that into the end of the turn.
"""

import asyncio
import re
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from itertools import groupby, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from treadle.agent import toolbox
from treadle.agent.context import SUMMARY_PROMPT, Context, estimated, input_tokens
from treadle.agent.hooks import ProgramHooks
from treadle.agent.messages import (
    AssistantMessage,
    ChatMessage,
    ModelRequest,
    Provider,
    Reply,
    ReplyItem,
    ToolCall,
    ToolResult,
    ToolSchema,
    UserMessage,
)
from treadle.agent.toolbox import Registry
from treadle.agent.tools.base import AnyTool, ToolContext
from treadle.errors import (
    BudgetExceeded,
    ContextOverflow,
    EmptyReply,
    LoopDetected,
    MaxIterations,
    ProviderError,
    TimedOut,
    ToolError,
    TreadleError,
)
from treadle.events import (
    Event,
    Message,
    Retrying,
    TextDelta,
    ThinkingDelta,
    ToolDenied,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    Warned,
)
from treadle.io.tasks import finished, looked
from treadle.session import Access, Decision, HookVerdict, Limits, Reasoning, Watching
from treadle.sessions.session import Turn, error_info, settled

if TYPE_CHECKING:  # most sessions have no limit on what they spend
    from treadle.gateway.spending import Spending

# Limits of a turn: model calls and wall time. What a session may spend is held by gateway.spending.


class TurnBudget:
    """Checked before every model call of a turn."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._started = time.monotonic()

    def seconds_left(self) -> float | None:
        if self.limits.max_seconds is None:
            return None
        return max(self._started + self.limits.max_seconds - time.monotonic(), 0.0)

    def check(self, iterations: int) -> None:
        """Raises when one more model call would go over a limit."""
        most = self.limits.max_iterations
        if most is not None and iterations >= most:
            raise MaxIterations(f"stopped after {iterations} model calls, the limit for one turn")
        if self.seconds_left() == 0.0:
            raise self.out_of_time()

    def out_of_time(self) -> TimedOut:
        return TimedOut(f"the turn took more than {self.limits.max_seconds:g} s")


# Notices when an agent goes round in circles, and tells the model so, twice, before it ends the turn.
#
# Waiting is not looping. The same calls with other results are progress, and polling a build gives the same result
# for a while: so a slow step may be repeated more often than a fast one.

LONGEST_CYCLE = 4
SLOW_SECONDS = 1.0
"""A step that takes at least this many seconds is waiting for something."""
SLOW_TIMES = 20
"""A slow step may be repeated this many times as often as the threshold says."""
CHANGING_TIMES = 20
"""The same for a fast step whose results differ."""
FRUITLESS_TIMES = 4
"""The same for steps that fail alike, and for steps that were all seen before, in any order."""
NUDGE = "Note: {what}. Doing it again will not help: use what you know, try another way, or say what keeps you from it."
HARDER = (
    "Note: {what}, although you were told. Stop doing that now. Do something else, or answer with what you have; "
    "after {left} more the turn is ended."
)


class RepeatedStep(msgspec.Struct, frozen=True):
    """One reply's tool calls, and their results."""

    calls: bytes
    results: bytes
    slow: bool
    failure: str
    """What failed, without what differs from one try to the next; empty when something succeeded."""
    new: bool

    def same(self, other: "RepeatedStep") -> bool:
        return (self.calls, self.results) == (other.calls, other.results)


class Repeats:
    """`threshold` rounds of the same step, or of the same cycle of up to four steps, are a loop: the model is told,
    told again, and at three times as many the turn ends. 0 turns it off. `strict` ends it at the threshold itself, as
    the worker's protocol has it, and the model is told one round before."""

    def __init__(self, threshold: int = 3, *, strict: bool = False) -> None:
        self.threshold = threshold
        self._last = threshold if strict else 3 * threshold
        self._steps: deque[RepeatedStep] = deque(
            maxlen=max(threshold, 1) * max(LONGEST_CYCLE * SLOW_TIMES, CHANGING_TIMES)
        )
        self._seen: set[tuple[bytes, bytes]] = set()

    def note(
        self, calls: Sequence[ToolCall], results: Sequence[str] = (), seconds: float = 0.0, failure: str = ""
    ) -> str:
        """Note one reply's tool calls, their results and how long they took. Returns what the model is to be told, if
        anything. Raises LoopDetected."""
        if self.threshold <= 0:
            return ""
        key, slow = (_key(calls), _digest(results)), seconds >= SLOW_SECONDS
        self._steps.append(RepeatedStep(*key, slow, failure, slow or key not in self._seen))
        self._seen.add(key)
        steps = list(self._steps)[::-1]
        notices = [self._notice(*kind) for kind in self._kinds(steps)]
        return next(filter(None, notices), "")

    def _kinds(self, steps: list[RepeatedStep]) -> Iterator[tuple[str, int, int, int]]:
        """For each kind of repetition: what is repeated, how often it came, how often it may, the steps of a round."""
        round_and_round = False
        for length in range(1, LONGEST_CYCLE + 1):
            rounds, rest = divmod(_periodic(steps, length), length)
            round_and_round = round_and_round or rounds > 1
            if rounds < 2 or rest or _is_cycle(steps[:length]):
                continue
            last = self.threshold * SLOW_TIMES if any(step.slow for step in steps[:length]) else self._last
            what = "the same tool calls" if length == 1 else f"the same cycle of {length} tool calls"
            yield f"{what} came {rounds} times in a row, with the same results", rounds, last, length
        first = steps[0]
        same = _leading(steps, lambda step: step.calls == first.calls and not step.slow)
        what = f"the same tool calls came {same} times in a row, one right after the other"
        yield what, same, self.threshold * CHANGING_TIMES, 1
        fruitless = self.threshold * FRUITLESS_TIMES
        alike = _leading(steps, lambda step: bool(first.failure) and step.failure == first.failure)
        yield f"{alike} calls in a row failed in the same way", alike, fruitless, 1
        if not round_and_round:
            old = _leading(steps, lambda step: not step.new)
            yield f"{old} steps in a row did what was done before, with the same results", old, fruitless, 1

    def _notice(self, what: str, rounds: int, last: int, length: int) -> str:
        if rounds >= last:
            raise _looped(what, rounds, length, self.threshold)
        first, second = max(last // 3, 2), last * 2 // 3
        if rounds < 2 or rounds not in (first, second):
            return ""
        words = NUDGE if rounds == first else HARDER
        return words.format(what=what, left=last - rounds)


def _leading(steps: Iterable[RepeatedStep], wanted: Callable[[RepeatedStep], bool]) -> int:
    return sum(1 for _ in takewhile(wanted, steps))


def _periodic(steps: Sequence[RepeatedStep], length: int) -> int:
    """How many of the newest steps, which come first, are those of one cycle."""
    again = takewhile(lambda pair: pair[0].same(pair[1]), zip(steps, steps[length:], strict=False))
    return min(length, len(steps)) + sum(1 for _ in again)


def _is_cycle(steps: Sequence[RepeatedStep]) -> bool:
    """Whether they are rounds of a shorter cycle themselves."""
    parts = [part for part in range(1, len(steps)) if len(steps) % part == 0]
    return any(_periodic(steps, part) == len(steps) for part in parts)


def failure(calls: Iterable[ToolCall], results: Iterable[ToolResult]) -> str:
    """What failed, in words that are the same for every try that fails alike; empty unless all calls failed."""
    found = []
    for call, result in zip(calls, results, strict=True):
        if result.ok and not re.search(r"\[exit code [1-9]\d*\]", result.text):
            return ""
        text = result.text if result.ok else result.text.partition("\n")[0][:80]
        found.append(f"{call.name}: " + re.sub(r"([\"'`]).*?\1|\d+", "", text))
    return "\n".join(found)


def _looped(what: str, rounds: int, length: int, threshold: int) -> LoopDetected:
    return LoopDetected(
        what,
        hint="say more exactly what to do, or raise `limits.repeats`",
        details={"loop_count": rounds, "loop_threshold": threshold, "cycle": length},
    )


def _digest(results: Sequence[str]) -> bytes:
    import hashlib

    return hashlib.sha256("\0".join(results).encode(errors="replace")).digest()


def _key(calls: Iterable[ToolCall]) -> bytes:
    return b"\n".join(call.name.encode() + b" " + _canonical(call.arguments) for call in calls)


def _canonical(arguments: str) -> bytes:
    """The same arguments in another order or spacing are the same arguments."""
    try:
        return msgspec.json.encode(msgspec.json.decode(arguments), order="deterministic")
    except (msgspec.DecodeError, RecursionError):
        return arguments.encode()


PARALLEL_READS = 8
"""Calls of one reply that run at the same time."""
CONTINUATIONS = 3
CONTINUE = "Your reply was cut off. Go on exactly where it stopped, without repeating anything."
CUT = "the output limit cut this call off before it was complete, so nothing was done"
DELTAS_BETWEEN_PAUSES = 64
"""Pieces of a reply between two looks whether slow readers of the log must be waited for."""


class Parts(msgspec.Struct, kw_only=True):
    """What one turn works with."""

    provider: Provider
    weak: Provider
    system: str
    tools: Registry
    schemas: Callable[[], tuple[ToolSchema, ...]]
    """The tools as the model sees them, requested again at each step."""
    context: Context
    budget: TurnBudget
    repeats: Repeats
    hooks: ProgramHooks
    permit: Callable[
        [str, AnyTool, Any, Access, Callable[[str], Path], HookVerdict, Any], Awaitable[tuple[Decision, Any]]
    ]
    """Judge a call, asking a person where needed. Returns the arguments too, which that person may have changed. The
    last argument is what the model wrote, for that person to see."""
    tool_context: Callable[[str], ToolContext]
    emit: Callable[[Event], None]
    room: Callable[[], Awaitable[None]]
    watching: Watching | None = None
    """Called before a tool that executes. What it returns is called afterwards, to find forbidden changes."""
    ready: Callable[[], Awaitable[None]] | None = None
    settle: Callable[[], Awaitable[str]] | None = None
    """Awaited around a command, so that its repository and the user's follow each other."""
    edited: Callable[[Iterable[str]], None] | None = None
    """Told which files a tool is about to write."""
    keep: Callable[[str, TreadleError], Awaitable[bool]] | None = None
    """Asks a person whether what a call wrote, and a check has taken out, comes back."""
    spending: "Spending | None" = None
    """Holds what the session may still spend; None where nothing limits that."""
    changing: Callable[[Access], Awaitable[None]] | None = None
    """Awaited before a tool that may change files."""
    max_output_tokens: int | None = None
    thinking: Reasoning = Reasoning()
    cache_key: str = ""


class TurnLoop:
    def __init__(self, turn: Turn, parts: Parts) -> None:
        self.turn = turn
        self.parts = parts
        self._unreported: dict[str, ToolEnded] = {}
        """The ends of calls whose results are not in history yet."""
        self.running: dict[str, asyncio.Task[ToolResult]] = {}
        self._answers: list[str] = []
        self._partial: list[str] = []
        self._continued = 0
        self._cut = ""
        """The call that the output limit has cut off, if any."""

    async def run(self, message: UserMessage) -> TurnEnded:
        self.turn.hears = True
        self.parts.context.add(message, self.turn.id)
        try:
            async with asyncio.timeout(self.parts.budget.seconds_left()) as limit:
                return await self._steps()
        except TimeoutError:
            if limit.expired():
                raise self.parts.budget.out_of_time() from None
            raise
        finally:
            self._save_partial_turn()

    async def _steps(self) -> TurnEnded:
        turn, parts = self.turn, self.parts
        while True:
            self._may_call()
            await parts.context.fit(self._summarise)
            reply = await self._reply()
            calls = reply.message.calls
            if calls:
                self._cut = calls[-1].id if reply.finish == "length" and not _complete(calls[-1]) else ""
                began = time.monotonic()
                await self._run_calls(calls)
                await self._batch_over(calls)
                self._note_repeats(calls, time.monotonic() - began)
            elif reply.finish == "length" and self._continued < CONTINUATIONS:
                self._continued += 1
                parts.context.add(UserMessage(text=CONTINUE), turn.id)
                continue
            elif not turn.steering:
                return self._answer(reply)
            self._continued = 0
            self._hear()

    def _results(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        """The results of the calls of one reply, in their order."""
        recent = self.parts.context.messages[-2 * len(calls) :]
        found = {message.call: message for message in recent if isinstance(message, ToolResult)}
        return [found.get(call.id, ToolResult(call=call.id, name=call.name, text="")) for call in calls]

    def _note_repeats(self, calls: Sequence[ToolCall], seconds: float) -> None:
        """A model that goes round in circles is told so before the turn is ended for it."""
        results = self._results(calls)
        texts = [result.text for result in results]
        if nudge := self.parts.repeats.note(calls, texts, seconds, failure(calls, results)):
            self.parts.emit(Warned(message=f"sent to the model: {nudge}", code="repeats"))
            self.parts.context.add(UserMessage(text=nudge), self.turn.id)

    def _hear(self) -> None:
        while self.turn.steering:
            self.parts.context.add(UserMessage(text=self.turn.steering.popleft()), self.turn.id)

    def _answer(self, reply: Reply) -> TurnEnded:
        if reply.finish == "length":
            self.parts.emit(
                Warned(message=f"the answer is still cut off after {CONTINUATIONS} continuations", code="output_limit")
            )
        self.turn.text = self._answers[-1]
        self._answers = []
        return self.turn.ending("completed", stop_reason=reply.finish)

    def _save_partial_turn(self) -> None:
        """However the turn ended, history is well formed and holds everything that either side already said."""
        turn, context = self.turn, self.parts.context
        turn.hears = False
        partial = "".join(self._partial)
        if partial:
            self._say(partial)
        if self._answers:
            turn.text = "\n\n".join(text for text in self._answers if text)
        try:
            if partial:
                context.add(AssistantMessage(text=partial, model=self.parts.provider.model), turn.id)
        finally:
            context.close_dangling(turn.id)
        self._hear()

    def _say(self, text: str) -> None:
        """A continued answer is one answer, in as many pieces as it took."""
        if self._continued:
            self._answers[-1] += text
        else:
            self._answers.append(text)

    # The model

    def _may_call(self) -> None:
        self.parts.budget.check(self.turn.iterations)

    async def _reply(self) -> Reply:
        """One reply that says something: an empty one is requested once more."""
        for again in (False, True):
            if again:
                self._may_call()
            reply = await self._fitting_reply()
            if reply.message.text or reply.message.calls or reply.finish in ("length", "refusal"):
                return reply
        raise EmptyReply("the model sent an empty answer twice", provider=self.parts.provider.name)

    async def _fitting_reply(self) -> Reply:
        """When the provider says that it is too much: ask with less, and if that fails, in a fresh conversation."""
        context = self.parts.context
        try:
            return await self._stream()
        except ContextOverflow as error:
            overflow = error
        if await context.compact(self._summarise):
            try:
                return await self._stream()
            except ContextOverflow as error:
                overflow = error
        if not await context.hand_off(self._summarise):
            raise overflow
        return await self._stream()

    async def _stream(self) -> Reply:
        parts, started = self.parts, time.monotonic()
        request = ModelRequest(
            system=parts.system,
            messages=tuple(parts.context.messages),
            images=parts.context.images() if parts.provider.sees else {},
            tools=parts.schemas(),
            max_output_tokens=parts.max_output_tokens,
            reasoning=parts.thinking.effort,
            thinking_tokens=parts.thinking.tokens,
            cache_key=parts.cache_key,
        )
        self._partial = []
        reply, count, refused = None, 0, False
        self.turn.iterations += 1
        stream = paid(parts.provider, request, parts.spending, parts.context.tokens())
        try:
            async for item in stream:
                if type(item) is TextDelta:
                    self._partial.append(item.text)
                elif type(item) is Retrying:
                    self._partial.clear()  # it starts over; at most blank space was said
                elif isinstance(item, Reply):
                    reply = item
                    continue
                parts.emit(item)
                count += 1
                if count % DELTAS_BETWEEN_PAUSES == 0:
                    await parts.room()
        except ProviderError as error:
            refused = not count and parts.context.refused_images(request, error)
            if not refused:
                reply = self._cut_off(error)
        finally:
            await stream.aclose()
        if refused:
            self._may_call()
            return await self._stream()
        if reply is None:
            raise ProviderError("the provider's stream ended without a reply", provider=parts.provider.name)
        reply = msgspec.structs.replace(reply, message=parts.context.with_fresh_ids(reply.message))
        parts.context.took_images(request)
        self._note(reply, round((time.monotonic() - started) * 1000), request)
        return reply

    def _cut_off(self, error: ProviderError) -> Reply:
        """Whether a stream that broke after some text is a reply to continue: only when trying again can help."""
        text = "".join(self._partial)
        if not text or not error.retryable or self._continued >= CONTINUATIONS:
            raise error
        self.parts.emit(Warned(message=f"the reply broke off, asking for the rest: {error}", code="reply_cut"))
        return Reply(message=AssistantMessage(text=text, model=self.parts.provider.model), finish="length")

    def _note(self, reply: Reply, duration_ms: int, request: ModelRequest) -> None:
        """Put a whole reply into history, and report what it said and cost."""
        parts, message = self.parts, reply.message
        self._partial = []
        model = message.model or parts.provider.model
        for block in message.thinking:
            if block.text:
                parts.emit(Message(text=block.text, kind="thinking", model=model))
        if message.text:
            parts.emit(Message(text=message.text, model=model))
        self._say(message.text)
        usage = reply.usage or estimated(model, request, message)
        parts.emit(msgspec.structs.replace(usage, duration_ms=duration_ms))
        if message.text or message.calls or message.thinking:
            parts.context.add(message, self.turn.id)
        parts.context.counted(usage)

    async def _summarise(self, messages: tuple[ChatMessage, ...]) -> str:
        verdict = await self.parts.hooks.event("PreCompact", {"trigger": "auto", "custom_instructions": None})
        if verdict.decision == "deny":  # without room the turn cannot go on
            self.parts.emit(Warned(message=f"compacted although a hook forbids it: {verdict.reason}", code="hook"))
        text = await summarise(self.parts.weak, self.parts.emit, self.parts.spending, messages)
        await self.parts.hooks.event("PostCompact", {"trigger": "auto", "compact_summary": text})
        return text

    # Tools

    async def _run_calls(self, calls: Sequence[ToolCall]) -> None:
        """Adjacent calls that only read run at the same time, and so do subagents; the others run one after the other.

        What a tool has done is in history before the next one starts, so that an interruption cannot lose it.
        """
        for at_once, group in groupby(calls, key=self._at_once):
            if at_once:
                await self._run_at_once(group)
            else:
                for call in group:
                    self._keep(await self._run_call(call))

    async def _batch_over(self, calls: Sequence[ToolCall]) -> None:
        """Hooks learn of all calls of a reply together, and may say something to the model."""
        names = ("tool_name", "tool_input", "tool_use_id", "tool_response")
        every = zip(calls, self._results(calls), strict=True)
        ran = [dict(zip(names, (call.name, call.arguments, call.id, got.text), strict=True)) for call, got in every]
        if more := (await self.parts.hooks.event("PostToolBatch", {"tool_calls": ran})).context:
            self.turn.steering.append(more)

    async def _run_at_once(self, calls: Iterable[ToolCall]) -> None:
        limit = asyncio.Semaphore(PARALLEL_READS)

        async def run(call: ToolCall) -> None:
            self._keep(await self._run_call(call, limit))

        async with asyncio.TaskGroup() as tasks:
            for call in calls:
                tasks.create_task(run(call))

    def _keep(self, result: ToolResult) -> None:
        """Write it to history first, then report it: a crash must not forget what someone was told is done."""
        self.parts.context.add(result, self.turn.id)
        ended = self._unreported.pop(result.call, None)
        if ended is not None:
            self.parts.emit(ended)

    def _at_once(self, call: ToolCall) -> str:
        """The sort of calls that it may run beside; empty when it must run alone."""
        name = self.parts.tools.known(call.name)
        if name is None:
            return ""
        return "task" if name == "task" else "read" if self.parts.tools.get(name).kind == "read" else ""

    async def _run_call(self, call: ToolCall, limit: asyncio.Semaphore | None = None) -> ToolResult:
        """Interrupting a single call gives a result; interrupting the turn does not."""
        async with limit or asyncio.Semaphore():
            task = self.running[call.id] = asyncio.create_task(self._judge_and_run(call))
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError:
                task.cancel()
                try:
                    await settled(task)
                finally:  # also if one interrupts a second time
                    if not task.cancelled() and task.exception() is None:
                        self._keep(task.result())  # it is done, and an interruption does not undo it
                raise
            finally:
                if not task.done():  # an interruption while one waits here would lose the result
                    task.cancel()
                    await settled(task)
                del self.running[call.id]
        if task.cancelled():
            stopped = "Error: a person stopped this call"
            return ToolResult(call=call.id, name=call.name, text=stopped, ok=False)
        return task.result()

    async def _judge_and_run(self, call: ToolCall) -> ToolResult:
        """Whatever goes wrong with a call becomes a result for the model to read."""
        context = self.parts.tool_context(call.id)
        try:
            text, ok = await self._permitted(call, context)
        except TreadleError as error:
            text, ok = f"Error: {error}", False
        except Exception as error:
            text, ok = self._bug(call, error), False
        return ToolResult(call=call.id, name=call.name, text=text, ok=ok, images=tuple(context.images))

    def _bug(self, call: ToolCall, error: Exception) -> str:
        message = error_info(error).message
        self.parts.emit(Warned(message=f"{call.name} failed unexpectedly: {message}", code="tool_bug"))
        return f"Error: this tool has a bug: {message}"

    async def _permitted(self, call: ToolCall, context: ToolContext) -> tuple[str, bool]:
        parts = self.parts
        plain: Any = {}
        try:
            if call.id == self._cut:
                raise ToolError(CUT, hint="do it in smaller parts, such as a long file in several calls")
            known = parts.tools.known(call.name)
            plain = toolbox.values(call.name, call.arguments, parts.tools.get(known) if known else None)
            tool = parts.tools.get(call.name)
            args: Any = toolbox.decode(tool, call.arguments)
            access = tool.access(args, context.resolve)
            verdict = await parts.hooks.judge(call.id, tool.name, plain, access)
            if verdict.args is not None and verdict.args != plain:
                plain = verdict.args
                args = toolbox.decode(tool, msgspec.json.encode(plain).decode())
                access = tool.access(args, context.resolve)
            decision, permitted = await parts.permit(call.id, tool, args, access, context.resolve, verdict, plain)
            if permitted is not args:  # a person changed them
                plain, access = toolbox.plain(permitted), tool.access(permitted, context.resolve)
        except TreadleError as error:
            return self._impossible(call, plain, error), False
        if decision.verdict == "allow":
            blocked = await parts.hooks.pre_tool(tool.name, plain, access)
            if blocked is not None:
                decision = Decision(verdict="deny", reason=blocked or "a hook blocked it", by="hook")
        if decision.verdict != "allow":
            parts.emit(ToolDenied(call=call.id, name=tool.name, reason=decision.reason, args=plain, by=decision.by))
            return _joined(f"Error: not allowed: {decision.reason}", verdict.context), False
        text, ok = await self._run_tool(call, tool, permitted, plain, access, context)
        return _joined(text + toolbox.note_of(tool, plain), verdict.context), ok

    def _impossible(self, call: ToolCall, args: Any, error: TreadleError) -> str:
        """A call of an unknown tool, or with impossible arguments: it fails before it begins."""
        text = f"Error: {error}"
        self.parts.emit(ToolStarted(call=call.id, name=call.name, args=args))
        self._unreported[call.id] = ToolEnded(call=call.id, name=call.name, result=text, ok=False, duration_ms=0)
        return text

    async def _run_tool(
        self, call: ToolCall, tool: AnyTool, args: Any, plain: Any, access: Access, context: ToolContext
    ) -> tuple[str, bool]:
        parts, started = self.parts, time.monotonic()
        parts.emit(
            ToolStarted(
                call=call.id, name=tool.name, args=plain, kind=access.kind, paths=access.paths, command=access.command
            )
        )
        text, ok = "[interrupted]", False
        try:
            unforeseen = access.kind in ("execute", "other")  # what a command or an MCP server writes is not known yet
            if parts.changing is not None and (unforeseen or access.kind == "write"):
                await parts.changing(access)
            if parts.ready is not None and (unforeseen or access.kind == "write"):
                await parts.ready()
            if parts.edited is not None and access.kind == "write":
                await asyncio.to_thread(parts.edited, access.paths)
            check = await looked(parts.watching) if parts.watching and unforeseen else None
            done = False
            try:
                text = await toolbox.run(tool, args, context)
                done = True
            finally:  # what it has left passes the gate also when it failed or was interrupted
                refused = await finished(self._left(check)) if check is not None else None
                if refused is not None and not done:
                    parts.emit(Warned(message=str(refused), code="taken_out"))
                try:
                    if refused is not None and done and parts.keep is not None and await parts.keep(call.id, refused):
                        refused = None
                finally:  # first the files, then the commits: one may have what is on the person's disk
                    more = await finished(_awaited(parts.settle)) if parts.settle and unforeseen else ""
            text += more
            if refused is not None:
                raise refused
            ok = True
        except asyncio.CancelledError:
            text = (
                "[interrupted]"  # also where only the look at what it left was interrupted: no one records its result
            )
            raise
        except TreadleError as error:
            text = f"Error: {error}" if text == "[interrupted]" else f"{text}\nError: {error}"
        except Exception as error:
            text = self._bug(call, error)
        finally:
            duration_ms = round((time.monotonic() - started) * 1000)
            images = tuple(map(parts.context.transcript.image_file, context.images))
            ended = ToolEnded(call=call.id, name=tool.name, result=text, ok=ok, duration_ms=duration_ms, images=images)
            if text == "[interrupted]":
                parts.emit(ended)  # there is no result: the one who continues will record that it was cut off
            else:
                self._unreported[call.id] = ended
        try:
            text = await parts.hooks.post_tool(call.id, tool.name, plain, access, text, ok, duration_ms)
            if call.id in self._unreported:  # readers of the stream see what the model sees, not what a hook took out
                self._unreported[call.id] = msgspec.structs.replace(self._unreported[call.id], result=text)
            await parts.room()
        except asyncio.CancelledError:
            if (over := self._unreported.pop(call.id, None)) is not None:
                parts.emit(over)  # its result is recorded by no one now, but readers saw it start
            raise
        return text, ok

    @staticmethod
    async def _left(check: Callable[[], None]) -> TreadleError | None:
        try:
            await asyncio.to_thread(check)
        except TreadleError as error:
            return error
        return None


async def _awaited(work: Callable[[], Awaitable[str]]) -> str:
    return await work()


def _complete(call: ToolCall) -> bool:
    """Whether its arguments are whole: one that was cut off before the first has none."""
    try:
        msgspec.json.decode(call.arguments)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return True


def _joined(text: str, more: str) -> str:
    return f"{text}\n{more}" if more else text


async def summarise(
    provider: Provider,
    emit: Callable[[Event], None],
    spending: "Spending | None",
    messages: tuple[ChatMessage, ...],
    keep: str = "",
) -> str:
    """A summary of the conversation by a model; `keep`: what a person wants it to keep."""
    task = f"{SUMMARY_PROMPT}\nAbove all: {keep}" if keep else SUMMARY_PROMPT
    request = ModelRequest(system=task, messages=(*messages, UserMessage(text=task)))
    return await answered(provider, emit, spending, request)


async def answered(
    provider: Provider, emit: Callable[[Event], None], spending: "Spending | None", request: ModelRequest
) -> str:
    """What a model says to a question outside of the conversation; what it costs is emitted."""
    text = ""
    async for item in paid(provider, request, spending):
        if isinstance(item, Reply):
            text = item.message.text
            emit(item.usage or estimated(provider.model, request, item.message))
        elif not isinstance(item, TextDelta | ThinkingDelta):
            emit(item)
    return text


def paid(
    provider: Provider, request: ModelRequest, spending: "Spending | None", tokens: int = 0
) -> AsyncGenerator[ReplyItem | Warned, None]:
    """The reply to a call that fits into what the session may spend. `tokens`: of its input, as far as known."""
    return provider.stream(request) if spending is None else _fitting(provider, request, spending, tokens)


async def _fitting(
    provider: Provider, request: ModelRequest, spending: "Spending", tokens: int
) -> AsyncGenerator[ReplyItem | Warned, None]:
    from treadle.gateway.spending import ComingCall

    unknown = not provider.priced or spending.spent.calls and spending.spent.cost_usd is None
    if spending.limits.max_cost_usd is not None and unknown:
        raise BudgetExceeded(
            "a cost limit is set, but what this model costs is unknown, so the limit cannot be enforced",
            hint='give its price in config.toml under [models.prices."MODEL"], or limit tokens instead',
        )
    tokens = max(tokens, input_tokens(request))
    coming = ComingCall(model=provider.model, tokens=tokens, output_limit=request.max_output_tokens)
    async with spending.call(coming, provider.cost) as reserved:
        if reserved.output is not None:
            yield Warned(message=reserved.note, code="budget")
            request = msgspec.structs.replace(request, max_output_tokens=reserved.output)
        async with aclosing(provider.stream(request)) as items:
            async for item in items:
                yield item
