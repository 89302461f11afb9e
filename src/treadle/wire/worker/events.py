"""Converts our events to those of the worker wire and back."""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any

from treadle.events import (
    Asked,
    ContextCompacted,
    ContextHandoff,
    ContextPruned,
    ErrorInfo,
    Event,
    Failed,
    ModelRouted,
    TextDelta,
    ToolDenied,
    ToolEnded,
    ToolStarted,
    TurnStarted,
    Usage,
    Warned,
)
from treadle.events import Message as TextMessage
from treadle.session import Access
from treadle.wire.worker import messages as wire

PREVIEW = 500
"""How many characters of a tool's result `tool_end` shows."""

# Error codes: those of the specification are sent as they are, the others as the nearest of those...

CODES = {
    "provider_error",
    "protocol_error",
    "protocol_version_mismatch",
    "tool_error",
    "loop_detected",
    "cancelled",
    "max_iterations",
    "budget_exceeded",
    "timeout",
}
NEAREST = {"config_error": "protocol_error"} | dict.fromkeys(
    ("permission_denied", "storage_error", "disk_full"), "tool_error"
)


def envelope(error: ErrorInfo) -> wire.ErrorEnvelope:
    """The error with a code of the specification; our own, finer code goes into `details`."""
    code, details = error.code, error.details
    if code not in CODES:
        details = {"code": code, **(details if isinstance(details, dict) else {"more": details} if details else {})}
        code = NEAREST.get(code, "provider_error")
    if error.retry_after_ms is not None and not isinstance(details, list | str):
        details = {**(details or {}), "retry_after_ms": error.retry_after_ms}
    return wire.ErrorEnvelope(code=code, message=error.message, retryable=error.retryable, details=details)


def error_info(error: wire.ErrorEnvelope | wire.ErrorPayload) -> ErrorInfo:
    details = error.details
    if isinstance(details, dict) and isinstance(details.get("code"), str):
        return ErrorInfo(code=details["code"], message=error.message, retryable=error.retryable, details=details)
    return ErrorInfo(code=error.code, message=error.message, retryable=error.retryable, details=details)


def counts(usage: Any, version: tuple[int, int]) -> dict[str, Any]:
    """The fields that a usage event and a result's usage share, for one model call or for totals."""
    shared = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.prompt_tokens + usage.output_tokens,
    }
    if version < (0, 3):
        return shared
    return shared | {
        "cost_micros": None if usage.cost_usd is None else round(usage.cost_usd * 1_000_000),
        "cost_currency": None if usage.cost_usd is None else "USD",
        "cached_tokens": usage.cache_read_tokens or None,
        "cache_write_tokens": usage.cache_write_tokens or None,
        "reasoning_tokens": usage.reasoning_tokens or None,
    }


class WorkerOutgoing:
    """Our events as a client of this version may see them. One per send: it remembers what was streamed."""

    def __init__(self, version: tuple[int, int], *, answers: bool = False, warnings: bool = False) -> None:
        self._version = version
        self._answers = answers
        self._warnings = warnings
        self._streamed = False

    def translate(self, events: Iterable[Event]) -> list[wire.AnyPayload]:
        """The payloads to send for these events."""
        payloads: list[wire.AnyPayload] = []
        for event in events:
            if type(event) is TextDelta and event.parent is None:
                self._streamed = True
                payloads.append(wire.ContentDelta(event.text))
            else:
                payloads += self.payloads(event)
        return payloads

    def payloads(self, event: Event) -> tuple[wire.AnyPayload, ...]:
        """The payloads for one event: none, one or two. For a subagent's events, only the usage."""
        if event.parent is not None and type(event) is not Usage:
            return ()
        write = _WRITERS.get(type(event))
        return write(self, event) if write else ()

    def _delta(self, event: TextDelta) -> tuple[wire.AnyPayload, ...]:
        self._streamed = True
        return (wire.ContentDelta(event.text),)

    def _message(self, event: TextMessage) -> tuple[wire.AnyPayload, ...]:
        """A block that was streamed has been sent already; an agent that does not stream sends only the block."""
        if event.kind != "text":
            return ()
        streamed, self._streamed = self._streamed, False
        return () if streamed else (wire.ContentDelta(event.text),)

    def _started(self, event: TurnStarted) -> tuple[wire.AnyPayload, ...]:
        return (wire.TurnState("queued"), wire.TurnState("running")) if self._version >= (0, 5) else ()

    def _tool_started(self, event: ToolStarted) -> tuple[wire.AnyPayload, ...]:
        self._streamed = False
        return (wire.ToolStart(event.name, event.args, self._call(event.call)),)

    def _tool_ended(self, event: ToolEnded) -> tuple[wire.AnyPayload, ...]:
        return (wire.ToolEnd(event.name, event.result[:PREVIEW], self._call(event.call)),)

    def _call(self, call: str) -> str | None:
        return call if self._version >= (0, 5) else None

    def _denied(self, event: ToolDenied) -> tuple[wire.AnyPayload, ...]:
        denied = wire.PermissionDenied(event.name, event.reason)
        if event.by == "nobody":
            return (wire.PermissionRequest(name=event.name, reason=event.reason), denied)
        return (denied,)

    def _usage(self, event: Usage) -> tuple[wire.AnyPayload, ...]:
        """One for each model call that reported its usage; estimates are not sent."""
        if event.source == "estimate":
            return ()
        generation = event.request_id if self._version >= (0, 3) else None
        return (wire.UsageEvent(**counts(event, self._version), generation_id=generation),)

    def _failed(self, event: Failed) -> tuple[wire.AnyPayload, ...]:
        error = envelope(event.error)
        return (
            wire.ErrorPayload(
                code=error.code,
                message=error.message,
                retryable=error.retryable,
                provider=event.provider,
                details=error.details,
            ),
        )

    def _asked(self, event: Asked) -> tuple[wire.AnyPayload, ...]:
        request_id = event.request if self._answers else None
        if event.kind == "plan":
            return (wire.PlanComplete(event.text, request_id or None),)
        return (
            wire.PermissionRequest(
                name=event.name or "ask_user",
                reason=event.text,
                request_id=request_id,
                kind=event.kind if request_id else None,
                args=event.args if request_id else None,
                options=event.options if request_id else (),
            ),
        )

    def _pruned(self, event: ContextPruned) -> tuple[wire.AnyPayload, ...]:
        return (
            wire.ContextPrune(
                messages_pruned=event.messages_pruned,
                tokens_before=event.tokens_before,
                tokens_after=event.tokens_after,
            ),
        )

    def _routed(self, event: ModelRouted) -> tuple[wire.AnyPayload, ...]:
        return (wire.RoutedModel(event.model),) if self._version >= (0, 3) else ()


_WRITERS: dict[type, Callable[[WorkerOutgoing, Any], tuple[wire.AnyPayload, ...]]] = {
    TextDelta: WorkerOutgoing._delta,
    TextMessage: WorkerOutgoing._message,
    TurnStarted: WorkerOutgoing._started,
    ToolStarted: WorkerOutgoing._tool_started,
    ToolEnded: WorkerOutgoing._tool_ended,
    ToolDenied: WorkerOutgoing._denied,
    Usage: WorkerOutgoing._usage,
    Failed: WorkerOutgoing._failed,
    Asked: WorkerOutgoing._asked,
    ContextPruned: WorkerOutgoing._pruned,
    ContextCompacted: lambda self, event: (wire.ContextCompact(),),
    ContextHandoff: lambda self, event: (wire.HandoffPayload(),),
    ModelRouted: WorkerOutgoing._routed,
    Warned: lambda self, event: (wire.WarningPayload(event.message, event.code),) if self._warnings else (),
}

# From the worker's events to ours.


class WorkerIncoming:
    """A worker's events as ours. One per send: a worker before 0.5 gives calls no ids, so they get one here.

    `access` guesses what a tool touches, because the worker's tools are unknown here.
    """

    def __init__(self, prefix: str, access: Callable[[str, Any], Access]) -> None:
        self._prefix = prefix
        self._access = access
        self._calls = 0
        self._running: dict[str, deque[str]] = defaultdict(deque)

    def events(self, payload: Any) -> tuple[Event, ...]:
        kind = type(payload)
        if kind is wire.ContentDelta:
            return (TextDelta(text=payload.text),)
        read = _READERS.get(kind)
        return read(self, payload) if read else ()

    @property
    def busy(self) -> bool:
        """Whether a tool is running."""
        return any(self._running.values())

    def _new_call(self) -> str:
        self._calls += 1
        return f"{self._prefix}.{self._calls}"

    def _tool_start(self, payload: wire.ToolStart) -> tuple[Event, ...]:
        call = payload.id or self._new_call()
        self._running[payload.name].append(call)
        touched = self._access(payload.name, payload.args)
        return (
            ToolStarted(
                call=call,
                name=payload.name,
                args=payload.args,
                kind=touched.kind,
                paths=touched.paths,
                command=touched.command,
            ),
        )

    def _tool_end(self, payload: wire.ToolEnd) -> tuple[Event, ...]:
        running = self._running[payload.name]
        if payload.id is not None and payload.id in running:
            running.remove(call := payload.id)
        else:
            call = running.popleft() if running else payload.id or self._new_call()
        ok = not payload.result_preview.startswith("Error:")
        return (ToolEnded(call=call, name=payload.name, result=payload.result_preview, ok=ok),)

    def _denied(self, payload: wire.PermissionDenied) -> tuple[Event, ...]:
        return (ToolDenied(call=self._new_call(), name=payload.name, reason=payload.reason, by="mode"),)

    def _usage(self, payload: wire.UsageEvent) -> tuple[Event, ...]:
        cached, written = payload.cached_tokens or 0, payload.cache_write_tokens or 0
        dollars = payload.cost_micros is not None and payload.cost_currency in (None, "USD")
        return (
            Usage(
                input_tokens=max(payload.prompt_tokens - cached - written, 0),
                output_tokens=payload.completion_tokens,
                cache_read_tokens=cached,
                cache_write_tokens=written,
                reasoning_tokens=payload.reasoning_tokens or 0,
                cost_usd=(payload.cost_micros or 0) / 1_000_000 if dollars else None,
                request_id=payload.generation_id,
            ),
        )

    def _asked(self, payload: wire.PermissionRequest) -> tuple[Event, ...]:
        reason = payload.reason or f"{payload.name} requires approval"
        if payload.request_id is None:
            return (Warned(message=reason, code="permission_request"),)
        return (
            Asked(
                request=payload.request_id,
                kind=payload.kind or "permission",
                text=reason,
                name=payload.name,
                args=payload.args,
                tool_kind=self._access(payload.name, payload.args).kind,
                options=payload.options,
            ),
        )


_READERS: dict[type, Callable[[WorkerIncoming, Any], tuple[Event, ...]]] = {
    wire.ToolStart: WorkerIncoming._tool_start,
    wire.ToolEnd: WorkerIncoming._tool_end,
    wire.PermissionDenied: WorkerIncoming._denied,
    wire.UsageEvent: WorkerIncoming._usage,
    wire.PermissionRequest: WorkerIncoming._asked,
    wire.WarningPayload: lambda self, payload: (Warned(message=payload.message, code=payload.code),),
    wire.ErrorPayload: lambda self, payload: (Failed(error=error_info(payload), provider=payload.provider),),
    wire.PlanComplete: lambda self, payload: (Asked(request=payload.request_id or "", kind="plan", text=payload.plan),),
    wire.ContextPrune: lambda self, payload: (
        ContextPruned(
            messages_pruned=payload.messages_pruned,
            tokens_before=payload.tokens_before,
            tokens_after=payload.tokens_after,
        ),
    ),
    wire.ContextCompact: lambda self, payload: (ContextCompacted(tokens_before=0, tokens_after=0),),
    wire.HandoffPayload: lambda self, payload: (ContextHandoff(),),
    wire.RoutedModel: lambda self, payload: (ModelRouted(model=payload.model),),
}
