"""One prompt through any session, printed: text, json, stream-json or codex-json, and an exit code.

The runner owns only the output and the exit code: it asks no one, makes no provider, reads no arguments.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, get_args

import msgspec
from msgspec.structs import replace

from treadle.errors import ConfigError, LocalError, PeerClosed, StorageError, TreadleError, Unsupported
from treadle.events import (
    FINISHED,
    AnyEvent,
    ErrorInfo,
    Message,
    Task,
    TaskChanged,
    TaskGroupChanged,
    TextDelta,
    ThinkingDelta,
    ToolDenied,
    ToolStarted,
    TurnEnded,
    Usage,
    Warned,
)
from treadle.io.streams import Printing
from treadle.io.tasks import end_tasks, start_held
from treadle.session import NOT_SEALED, CommandResult, Prompt, Session
from treadle.sessions.abilities import can
from treadle.sessions.session import error_info
from treadle.sessions.totals import ServedTurn, Totals, TurnSummary, TurnTotals
from treadle.wire.common.connection import json_line
from treadle.wire.oneshot import connection as wire
from treadle.wire.oneshot.arguments import USED
from treadle.wire.oneshot.connection import READY, Connection, OutputFormat, Record, RunResult

if TYPE_CHECKING:
    from treadle.doors.oneshot.hosting import SchemaCheck, Verbose
    from treadle.sandboxed.turns import TurnCheck
    from treadle.verification.ending import CheckedEnding
    from treadle.wire.codex.translation import ExecRecords


# How a run ended, as an exit code and as its final record.

INTERRUPTED, TIMED_OUT, LIMITED, INCOMPLETE, CONTRADICTED = 130, 124, 3, 4, 5
"""Exit codes with `strict`. Without it, TIMED_OUT and LIMITED are 1 and the others 0."""


Named: TypeAlias = tuple[wire.Subtype, str | msgspec.UnsetType | None, bool]
"""The subtype, the result where it is not the answer, and whether it failed."""


class RunEnding(msgspec.Struct, frozen=True, kw_only=True):
    """How the run ended: by the first of a turn's end, a command's result or an exception."""

    text: str = ""
    error: ErrorInfo | None = None
    turn: bool = False
    """Whether a turn of the model decided it."""
    interrupted: bool = False
    in_tools: bool = False
    """Whether a tool was running when it was interrupted."""


def failure(ended: TurnEnded) -> ErrorInfo | None:
    """The error, if any. An interruption is not an error: its partial text is the result."""
    if ended.outcome in ("completed", "interrupted"):
        return None
    return ended.error or ErrorInfo(code="error", message=f"the turn ended as {ended.outcome}")


def refusals(denials: Iterable[ToolDenied]) -> str:
    """Lines that tell a reader of plain text what was not allowed; there is no other way to learn it."""
    reasons = dict.fromkeys(denied.reason for denied in denials)
    return "".join(f"treadle: not allowed: {reason}\n" for reason in reasons)


def exit_code(ending: RunEnding, summary: TurnSummary, *, strict: bool, checked: CheckedEnding | None = None) -> int:
    if not strict:
        return 1 if ending.error is not None else 0
    if ending.error is not None:
        return {"timeout": TIMED_OUT}.get(ending.error.code, LIMITED if summary.outcome == "limited" else 1)
    if ending.interrupted or summary.outcome == "interrupted":
        return INTERRUPTED
    if checked is not None and checked.state == "contradicted":
        return CONTRADICTED
    doubtful = checked is not None and checked.doubtful
    return INCOMPLETE if doubtful or summary.denials or summary.stop_reason in ("length", "refusal") else 0


def result_of(
    ending: RunEnding,
    summary: TurnSummary,
    code: int,
    structured: Any,
    *,
    session_id: str,
    milliseconds: int,
    window: int | None = None,
    hosted: bool = False,
    checked: CheckedEnding | None = None,
) -> RunResult:
    """The final record of a run; `hosted`: in the words of Claude Code, which its SDKs expect."""
    error = ending.error
    usual: Named = ("success" if error is None else "error", None, code != 0)
    subtype, text, failed = _as_claude(ending) if hosted else usual
    return RunResult(
        result=("" if error is not None else ending.text) if text is None else text,
        session_id=session_id,
        subtype=subtype,
        is_error=failed,
        duration_ms=milliseconds,
        duration_api_ms=summary.model_ms,
        num_turns=summary.iterations,
        total_cost_usd=summary.usage.cost_usd,
        stop_reason=wire.stop_reason(summary.stop_reason),
        terminal_reason=_terminal_reason(ending, summary),
        usage=_usage(summary.own),
        model_usage=models_used(summary.by_model, window),
        permission_denials=[
            {"tool_name": USED.get(denied.name, denied.name), "tool_use_id": denied.call, "tool_input": denied.args}
            for denied in summary.denials
        ],
        errors=_wrong(ending, summary, checked) if failed else msgspec.UNSET,
        error_code=error.code if error is not None else msgspec.UNSET,
        structured_output=structured,
    )


def _wrong(ending: RunEnding, summary: TurnSummary, checked: CheckedEnding | None) -> list[str]:
    """What is wrong with a run that is not to be taken for done."""
    if ending.error is not None:
        return [ending.error.message]
    if checked is not None and (ending.interrupted or checked.doubtful or checked.state == "contradicted"):
        return [checked.line]
    if ending.interrupted or summary.outcome == "interrupted":
        return ["interrupted"]
    reasons = list(dict.fromkeys(denied.reason for denied in summary.denials))
    return reasons or [f"the model stopped: {summary.stop_reason}"]


def not_begun(error: Exception) -> RunResult:
    """The final record of a run that could not begin, such as one without a model."""
    info = error_info(error) if not isinstance(error, OSError) else ErrorInfo(code="storage_error", message=str(error))
    summary = TurnTotals().summary()
    code = error.ends_with if isinstance(error, TreadleError) else 1
    return result_of(RunEnding(error=info, turn=False), summary, code, msgspec.UNSET, session_id="", milliseconds=0)


def _as_claude(ending: RunEnding) -> Named:
    """(subtype, the result where it is not the answer, whether it failed) of a run under an SDK of Claude Code."""
    error = ending.error
    if error is None:
        return ("error_during_execution", msgspec.UNSET, True) if ending.interrupted else ("success", None, False)
    if subtype := _LIMITS.get(error.code):
        return subtype, msgspec.UNSET, True
    if error.code in wire.PROVIDER_CODES:
        return "success", error.message, True
    return "error_during_execution", msgspec.UNSET, True


_LIMITS: dict[str, wire.Subtype] = {"max_iterations": "error_max_turns", "budget_exceeded": "error_max_budget_usd"}


def _terminal_reason(ending: RunEnding, summary: TurnSummary) -> str:
    if ending.error is not None:
        return _REASONS.get(ending.error.code, "error")
    if ending.interrupted or summary.outcome == "interrupted":
        return "aborted_tools" if ending.in_tools else "aborted_streaming"
    return "completed"


_REASONS = {"max_iterations": "max_turns", "budget_exceeded": "budget_exhausted"} | dict.fromkeys(
    wire.PROVIDER_CODES, "api_error"
)


def _usage(totals: Totals) -> wire.Record:
    """The four token counts; marked where a service did not count and we had to guess."""
    counted = wire.usage(
        input_tokens=totals.input_tokens,
        output_tokens=totals.output_tokens,
        cache_read=totals.cache_read_tokens,
        cache_write=totals.cache_write_tokens,
    )
    return {**counted, "estimated": True} if totals.estimated else counted


def models_used(by_model: dict[str, Totals], window: int | None) -> dict[str, wire.Record]:
    return {model: _model_usage(totals, window) for model, totals in by_model.items()}


def _model_usage(totals: Totals, window: int | None) -> wire.Record:
    return {
        "inputTokens": totals.input_tokens,
        "outputTokens": totals.output_tokens,
        "cacheReadInputTokens": totals.cache_read_tokens,
        "cacheCreationInputTokens": totals.cache_write_tokens,
        "costUSD": totals.cost_usd,
        "contextWindow": window,
    }


# What an SDK of Claude Code is told beside the conversation: which prompt a line answers, times, running totals.

STAMPED = ("assistant", "stream_event")
"""The first line of each of these types names the prompt that it answers."""


class Hosting:
    def __init__(self, earlier: Iterable[Usage] = ()) -> None:
        """`earlier`: what the session had used before it was resumed; costs in results go on from there."""
        self.spent = Totals()
        self.model_ms = self.total_ms = 0
        """How long all prompts so far, and the model in them, took."""
        self._by_model: dict[str, Totals] = {}
        for usage in earlier:
            self.spent = self.spent.plus(usage)
            self._by_model[usage.model] = self._by_model.get(usage.model, Totals()).plus(usage)
        self.waiting: Callable[[], int] = lambda: 0
        """How many prompts have come and are not begun."""
        self.before_result: Callable[[], list[Record]] = list
        """What is written before each result."""
        self._results = 0
        self.begin()

    def begin(self, prompt: str = "") -> None:
        """A prompt begins; empty: its host gave it no uuid."""
        self._prompt = prompt
        self._begun = time.monotonic()
        self._first: int | None = None
        self._unstamped = set(STAMPED)

    def hear(self, event: AnyEvent) -> None:
        if self._first is None and event.parent is None and isinstance(event, TextDelta | ThinkingDelta | Message):
            self._first = round((time.monotonic() - self._begun) * 1000)

    def stamp(self, records: list[Record]) -> list[Record]:
        """Name the prompt in the first line of each type, and in a stream's first the time that it took."""
        for record in records:
            kind = record["type"]
            if kind not in self._unstamped or record.get("parent_tool_use_id") is not None:
                continue
            self._unstamped.remove(kind)
            if self._prompt:
                record |= {"user_message_uuid": self._prompt, "user_message_uuids": [self._prompt]}
            if kind == "stream_event" and self._first is not None:
                record["ttft_ms"] = self._first
        return records

    def complete(self, result: RunResult, summary: TurnSummary, command: str | None, error: ErrorInfo | None) -> None:
        """Add to the final record of a prompt what only a host reads; costs are those of the session so far."""
        self.spent = self.spent.together(summary.usage)
        self.model_ms += result.duration_api_ms
        self.total_ms += result.duration_ms
        for model, totals in summary.by_model.items():
            self._by_model[model] = self._by_model.get(model, Totals()).together(totals)
        result.total_cost_usd, result.duration_api_ms = self.spent.cost_usd, self.model_ms
        if self._prompt:
            result.user_message_uuid, result.user_message_uuids = self._prompt, [self._prompt]
        if self._first is not None:
            result.ttft_ms = result.ttft_stream_ms = self._first
        result.local_command = command if command is not None else msgspec.UNSET
        details = error.details if error is not None and isinstance(error.details, dict) else {}
        result.api_error_status = details.get("status")
        result.queued_turn_count = self.waiting()
        result.result_index, self._results = self._results, self._results + 1
        result.fast_mode_state = "off"

    @property
    def by_model(self) -> dict[str, Totals]:
        return {model: totals for model, totals in self._by_model.items() if model}


SETTLING = 1.0
"""How many seconds an interrupted command has for its result, where the session does not wait for that."""


class Sink(Protocol):
    """Where the output goes, such as any stream of `io.streams`."""

    async def write(self, data: bytes) -> None: ...


class OneShot:
    def __init__(
        self,
        session: Session,
        output_format: OutputFormat = "text",
        *,
        out: Sink | None = None,
        err: Sink | None = None,
        strict: bool = False,
        extra: Verbose | None = None,
        check: SchemaCheck | None = None,
        unknown_cost: float | None = None,
        wire: Connection | None = None,
        hosting: Hosting | None = None,
        verifier: TurnCheck | None = None,
        seconds: float | None = None,
    ) -> None:
        """`unknown_cost`: the cost to report when no price is known, instead of null. `wire`: one on which the host has
        spoken already. `hosting`: an SDK of Claude Code reads this, and expects its words for failures. `verifier`:
        checks what was changed since it last verified it. `seconds`: how long a prompt may take with its check."""
        self.hosting = hosting
        if output_format not in get_args(OutputFormat):
            raise ConfigError(
                f"there is no output format {output_format!r}", hint=f"one of {', '.join(get_args(OutputFormat))}"
            )
        self.session = session
        self.format = output_format
        self.result: RunResult | None = None
        self.wire = wire or Connection("run")
        self._out = out or Printing("stdout")
        self._err = err or Printing("stderr")
        self._strict = strict
        self._extra = extra
        self._met = False
        """Whether the client has seen what was said while the session was opened."""
        self._check = check
        self._verifier = verifier
        self._seconds = seconds
        self._anew = True
        """Whether the next turn's beginning is what it is compared with: not while what went before is not verified."""
        self._verifying: asyncio.Task[CheckedEnding] | None = None
        self._unknown_cost = unknown_cost
        self._totals = TurnTotals()
        self._seen: set[str] = set()
        """The kinds of events that this run had."""
        self._images: tuple[bytes, ...] = ()
        """Images that come with the prompt, the first time that it is sent; and documents."""
        self._documents: tuple[bytes, ...] = ()
        self._verbatim = False
        self._turn: str | None = None
        self._command: str | None = None
        self._operation: asyncio.Task[RunEnding | None] | None = None
        self._started = 0.0
        self._interrupted: str | None = None
        self._in_tools = False
        """Whether a tool was running when it was interrupted."""
        self._served: ServedTurn | None = None
        self._held: list[Any] = []
        """With json and further lines: the items of the single array."""
        self._between = Between()
        self._codex = _exec_records(session.id) if output_format == "codex-json" else None
        self._tasks: dict[str, Task] = {}
        self._detached: set[str] = set()
        self._telling: set[asyncio.Task[None]] = set()

    @property
    def turn(self) -> str | None:
        """The turn of the current prompt, or of the last one."""
        return self._turn

    @property
    def busy(self) -> bool:
        return self._operation is not None and self.wire.state != READY

    @property
    def interrupted(self) -> bool:
        """Whether someone wanted it to end, perhaps before anything was asked."""
        return self._interrupted is not None

    def forward_subagents(self) -> bool:
        """Write what subagents say, too. Returns whether there are lines of theirs at all."""
        if self._extra is not None:
            self._extra.subagents = True
        return self._extra is not None

    def demand(self, check: SchemaCheck) -> None:
        """From now on final answers must look like this."""
        self._check = check

    @property
    def unfinished(self) -> list[Task]:
        """Background tasks that are still running and will end with the session."""
        return [task for task in self._tasks.values() if task.status not in FINISHED and task.id not in self._detached]

    async def run(
        self,
        prompt: str,
        images: tuple[bytes, ...] = (),
        documents: tuple[bytes, ...] = (),
        *,
        verbatim: bool = False,
        uuid: str = "",
    ) -> int:
        """Run the prompt. Returns when the session has settled and its history is on disk.

        With `verbatim` it is never a command, whatever it begins with, and files it mentions are not read. `uuid` is
        what its host calls it.
        """
        if self.hosting is not None:
            self.hosting.begin(uuid)
        self._totals, self._turn = TurnTotals(), None
        self._images, self._documents, self._verbatim = images, documents, verbatim
        self._seen.clear()
        self._started = time.monotonic()
        self._interrupted, self._in_tools = None, False
        if self.wire.state == READY:  # the prompt did not come on the wire
            self.wire.prompted()
        async with self._follow() as served:
            self._between.begin()
            if self._codex is not None:
                self._codex = _exec_records(self.session.id)
                await self._write(self._codex.begin())
            elif self._extra is not None and self.format != "text":
                await self._write(self._extra.begin())
            if self.format != "text" and not self._met:
                opening = [
                    event
                    for event in self.session.events(observer=True).ready()
                    if type(event) is Warned and not event.turn
                ]
                await self._write([record for event in opening for record in self._records(event)])
            self._met = True
            if self._verifier is not None:
                await self._verifier.begin(anew=self._anew)
                self._anew = False
            ending = await self._once(prompt, served)
        ending, structured = await self._checked(ending)
        return await self._report(ending, structured)

    def _follow(self) -> ServedTurn:
        """Read on from the turn before, if this is the same run."""
        after = -1 if self._turn is None or self._served is None else self._served.seen
        self._served = ServedTurn(self.session, after=after, left="the run has ended", beside=True, totals=self._totals)
        return self._served

    async def refuse(self, reason: str) -> int:
        """Answer a prompt that is not to be run with a failed result."""
        return await self._unasked(RunEnding(error=ErrorInfo(code="refused", message=reason), turn=True))

    async def blocked(self, reason: str) -> int:
        """Answer a prompt that a hook blocked: that is no failure, and the model is not asked."""
        text = f"UserPromptSubmit operation blocked by hook:\n{reason}"
        if self.hosting is not None:
            await self._write([wire.blocked_line(text, self.session.id)])
        return await self._unasked(RunEnding(text=text, turn=True))

    async def _unasked(self, ending: RunEnding) -> int:
        self._totals, self._turn, self._command, self._started = TurnTotals(), None, None, time.monotonic()
        self._interrupted = None
        if self.hosting is not None:
            self.hosting.begin()
        if self.wire.state == READY:
            self.wire.prompted()
        return await self._report(ending, msgspec.UNSET)

    async def interrupt(self, reason: str) -> None:
        """End what is under way; the run then ends with what there is."""
        if self._interrupted is None:
            self._interrupted, self._in_tools = reason, self._totals.in_tools
        if self._verifying is not None:
            self._verifying.cancel()
        elif self._turn is not None and self._served is not None:
            await self._served.interrupt(reason)
        elif self._command is not None and self._operation is not None:
            await self.session.interrupt(f"/{self._command}", reason)
            await asyncio.wait([self._operation], timeout=SETTLING)
            if self._turn is None:
                self._operation.cancel()

    # The work

    async def _checked(self, ending: RunEnding) -> tuple[RunEnding, Any]:
        """The ending, and the checked value if an answer of a certain form is wanted."""
        if self._check is None or not ending.turn or ending.error is not None or self._interrupted is not None:
            return ending, msgspec.UNSET
        for _ in range(self._check.retries):
            value, complaint = self._check.examine(ending.text)
            if complaint is None:
                return ending, value
            async with self._follow() as served:
                ending = await self._once(self._check.again(complaint), served)
            if ending.error is not None or self._interrupted is not None:
                return ending, msgspec.UNSET
        value, complaint = self._check.examine(ending.text)
        if complaint is None:
            return ending, value
        error = ErrorInfo(code="schema_mismatch", message=f"the answer does not fit the schema: {complaint}")
        return RunEnding(error=error, turn=True), msgspec.UNSET

    async def _once(self, prompt: str, served: ServedTurn) -> RunEnding:
        self._turn = self._command = None
        operation = self._operation = asyncio.create_task(self._operate(prompt, served))
        try:
            while events := await served.batch(operation):
                await self._events(events)
            ending = operation.result() if operation.done() else None
            while ending is None and (events := await served.batch()):
                await self._events(events)
        finally:
            await end_tasks(operation)
        await self._events(served.ready())
        return ending or _turn_ended(served.ended)

    async def _operate(self, prompt: str, served: ServedTurn) -> RunEnding | None:
        """Start the work. Returns the ending if there is one already, None when a turn decides."""
        try:
            if self._interrupted is not None:
                return RunEnding()
            images, documents = self._images, self._documents
            self._images = self._documents = ()
            if not prompt.strip() and not images and not documents:
                return RunEnding(error=ErrorInfo(code="empty_prompt", message="the prompt is empty"))
            command = None if self._verbatim else wire.command_of(prompt)
            if command is not None and (images or documents):
                raise Unsupported(f"images or documents came with the command /{command[0]}, which takes none")
            if command is None:
                self._turn = await served.prompt(
                    Prompt(text=prompt, images=images, documents=documents, verbatim=self._verbatim)
                )
            else:
                self._command = command[0]
                result = await served.command(*command)
                if result is None or result.turn is None:
                    return self._command_ended(command[0], result)
                self._turn = result.turn
            if self._interrupted is not None:  # it was interrupted while the turn was being started
                await served.interrupt(self._interrupted)
            return None
        except asyncio.CancelledError:
            if self._interrupted is None:
                raise
            return RunEnding()
        except Exception as error:
            return RunEnding(error=error_info(error))

    def _command_ended(self, name: str, result: CommandResult | None) -> RunEnding:
        if result is None:
            return RunEnding(error=ErrorInfo(code="unknown_command", message=f'Unknown command "/{name}".'))
        if result.ok or self._interrupted is not None:
            return RunEnding(text=result.message)
        return RunEnding(error=ErrorInfo(code="command_failed", message=result.message))

    async def _events(self, events: list[AnyEvent]) -> None:
        records: list[wire.Record] = []
        for event in events:
            self._seen.add(type(event).__name__)
            if isinstance(event, TaskChanged) and event.task is not None:
                self._tasks[event.task_id] = event.task
            elif isinstance(event, TaskGroupChanged) and event.group.wait_policy == "detached":
                self._detached.update(event.group.tasks)
            if self.format != "text":
                records += self._records(event)
        await self._write(records)

    def _records(self, event: AnyEvent) -> list[wire.Record]:
        if self._codex is not None:
            return self._codex.lines(event)
        if self.hosting is not None:
            self.hosting.hear(event)
        records = self._extra.lines(event) if self._extra is not None else []
        if self.hosting is not None:
            records = self.hosting.stamp(records)
        if self.format == "json":
            return records
        body = wire.wrapped(event)
        if isinstance(event, TextDelta) and self._extra is not None and not self._extra.deltas:
            body = None
        between = self._between.before(event) if self._extra is None else []
        bodies = [*between, *([] if body is None else [body])]
        return [*records, *(wire.stream_event(body, self.session.id) for body in bodies)]

    async def _write(self, records: list[wire.Record]) -> None:
        if self.format == "json":
            self._held += records
        elif self.format == "codex-json":
            await self._out.write(b"".join(map(json_line, records)))
        elif records:
            await self._out.write(b"".join(map(self.wire.send, records)))

    # The end

    def tell(self, record: wire.Record) -> None:
        """Write a line beside the conversation, after those that were told before and before the result."""
        start_held(self._telling, self._write([record]))

    async def _report(self, ending: RunEnding, structured: Any) -> int:
        if self._telling:
            await asyncio.wait([*self._telling])
        if self.hosting is not None:
            await self._write(self.hosting.before_result())
        summary = self._totals.summary()
        if self.format == "text" and ending.error is None and (ending.text or self._interrupted is None):
            await self._out.write(ending.text.encode(errors="replace") + b"\n")  # not withheld until it is checked
        checked = await self._verified(ending, summary)
        self._anew = self._anew if checked is None else checked.state == "verified"
        ending = replace(ending, interrupted=self._interrupted is not None, in_tools=self._in_tools)
        code = exit_code(ending, summary, strict=self._strict, checked=checked)
        took = round((time.monotonic() - self._started) * 1000)
        self.result = result_of(
            ending,
            summary,
            code,
            structured,
            session_id=self.session.id,
            milliseconds=took,
            window=self.session.info.context_window,
            hosted=self.hosting is not None,
            checked=checked,
        )
        if not can(self.session.info.capabilities, "iterations"):
            self.result = replace(self.result, num_turns=None)
        if self.hosting is not None:
            command = self._command if self._turn is None else None
            self.hosting.complete(self.result, summary, command, ending.error)
            self.result.model_usage = models_used(self.hosting.by_model, self.session.info.context_window)
        if self.hosting is not None and ending.interrupted:
            await self._write([wire.interrupted_line(self.session.id, ending.in_tools)])
        if self.result.total_cost_usd is None and self._unknown_cost is not None:
            self.result.total_cost_usd, self.result.cost_unknown = self._unknown_cost, True
        from treadle.wire.common.losses import really_lost

        if lost := really_lost(self.session.info.losses, None, self._seen):
            self.result.lost = [msgspec.to_builtins(row) for row in lost]
        if checked is not None:
            self.result.verification = msgspec.to_builtins(replace(checked, evidence=None))
        sealed = self.session.info.sealed
        self.result.sealed = msgspec.UNSET if sealed is None else sealed
        if self._codex is not None:
            self.wire.send(self.result)
            error = ending.error.message if ending.error else "interrupted" if ending.interrupted else None
            await self._write(self._codex.end(ending.text, error, exec_usage(summary.usage)))
        elif self.format == "json" and self._extra is not None:
            whole, self._held = [*self._held, self.result], []
            self.wire.send(self.result)
            await self._out.write(json_line(whole))
        elif self.format != "text":
            await self._out.write(self.wire.send(self.result))
        elif ending.error is not None:
            await self._complain(f"treadle: {ending.error.message}\n")
        if self.format == "text" and summary.denials:
            await self._complain(refusals(summary.denials))
        if self.format in ("text", "codex-json") and checked is not None and checked.matters:
            await self._complain(f"treadle: {checked.line}\n")
        if self.format == "text" and self._extra is not None and sealed is False:  # with --verbose
            await self._complain(f"treadle: not sealed: {NOT_SEALED}\n")
        return code

    async def _verified(self, ending: RunEnding, summary: TurnSummary) -> CheckedEnding | None:
        """What the project's check says about a turn that ended well; None where there is nothing to say."""
        if self._verifier is None or not ending.turn or ending.error is not None or self._interrupted is not None:
            return None
        from treadle.verification.ending import CheckedEnding

        self._verifying = asyncio.create_task(self._verifier.ending(summary))
        try:
            left = self._started + self._seconds - time.monotonic() if self._seconds is not None else None
            done, _ = await asyncio.wait([self._verifying], timeout=left)
            if not done:
                return CheckedEnding(state="unverified", why="--timeout was over before the check ended")
            if self._verifying.cancelled():
                return CheckedEnding(state="unverified", why="the check was interrupted")
            return self._verifying.result()
        finally:
            await end_tasks(self._verifying)
            self._verifying = None

    async def _complain(self, text: str) -> None:
        with contextlib.suppress(PeerClosed, StorageError):  # the exit code also says that something is wrong
            await self._err.write(text.encode(errors="replace"))


def _exec_records(session: str) -> ExecRecords:
    from treadle.wire.codex.translation import ExecRecords

    return ExecRecords(session)


def exec_usage(usage: Totals) -> dict[str, Any]:
    """The tokens of a turn under the names that Codex gives them, whose input includes what was cached."""
    return {
        "input_tokens": usage.prompt_tokens,
        "cached_input_tokens": usage.cache_read_tokens,
        "cache_write_input_tokens": usage.cache_write_tokens,
        "output_tokens": usage.output_tokens,
        "reasoning_output_tokens": usage.reasoning_tokens,
    }


class Between:
    """The empty line between two messages of one run, as a separate delta: text before a tool, then the answer."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self._written = self._over = False

    def before(self, event: AnyEvent) -> list[wire.Record]:
        if event.parent is not None:
            return []
        if isinstance(event, TextDelta):
            new, self._over, self._written = self._over, False, True
            return [wire.text_delta("\n\n")] if new else []
        if isinstance(event, ToolStarted | ToolDenied):
            self._over = self._written
        return []


def _turn_ended(ended: TurnEnded | None) -> RunEnding:
    if ended is None:
        return RunEnding(error=ErrorInfo(code="no_result", message="the session closed without an answer"))
    return RunEnding(text=ended.text, error=failure(ended), turn=True)


# The runner under names that other hosts know: a headless runner, and a transport that gets its session later.


class Transport:
    """The runner as a transport: attach a session, start, read the exit code."""

    name = "headless"

    def __init__(self, prompt: str, output_format: OutputFormat, out: Sink | None, err: Sink | None) -> None:
        self._prompt = prompt
        self._format = output_format
        self._out = out
        self._err = err
        self._session: Session | None = None
        self._exit_code = 0

    def attach(self, session: Session) -> None:
        self._session = session

    async def start(self) -> None:
        """Run the prompt and write the output."""
        if self._session is None:
            raise LocalError("the headless transport has no session", hint="call attach(session) before start()")
        runner = OneShot(self._session, self._format, out=self._out, err=self._err)
        self._exit_code = await runner.run(self._prompt)

    async def stop(self) -> None:
        """Does nothing: start() has already ended what it began."""

    def get_exit_code(self) -> int:
        """The exit code; 0 before any run."""
        return self._exit_code


def create_headless_runner(
    session: Session,
    output_format: OutputFormat = "text",
    *,
    out: Sink | None = None,
    err: Sink | None = None,
) -> OneShot:
    """A runner over any session: `await runner.run(prompt)` prints to stdout, or `out`, and returns the exit code."""
    return OneShot(session, output_format, out=out, err=err)


def create_headless_transport(
    prompt: str,
    output_format: OutputFormat = "text",
    *,
    out: Sink | None = None,
    err: Sink | None = None,
) -> Transport:
    """The same as a transport that gets its session later, by `attach`."""
    return Transport(prompt, output_format, out, err)
