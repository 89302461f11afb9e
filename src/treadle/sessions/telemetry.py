"""Runs, turns, calls of tools and models, and landings as OpenTelemetry spans and metrics (extra `otel`).

Off unless the usual variables name a collector; then nothing of OpenTelemetry is imported, either. Names are those of
the GenAI conventions where these have one, otherwise they begin with `treadle.`. What was said is sent only if
`OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` asks for it, and then without secrets.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import msgspec

from treadle import __version__, events
from treadle.errors import ConfigError, MissingExtra
from treadle.io.process import lifetime
from treadle.redact import Redactor
from treadle.session import AgentInfo

ENDPOINTS = tuple(f"OTEL_EXPORTER_OTLP_{signal}ENDPOINT" for signal in ("", "TRACES_", "METRICS_"))
CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
SECONDS = 3.0
"""How long the end of a program waits for the collector."""
log = logging.getLogger(__name__)


def is_on() -> bool:
    disabled = os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    return not disabled and any(os.environ.get(name) for name in ENDPOINTS)


class Exporter:
    """What this process sends, in batches and from threads of its own."""

    def __init__(self) -> None:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._undelivered = Undelivered()
        name = os.environ.get("OTEL_SERVICE_NAME") or "treadle"
        which = {"service.version": __version__, "service.instance.id": os.urandom(8).hex()}
        resource = Resource.create(which | {"service.name": name})
        spans = TracerProvider(resource=resource, shutdown_on_exit=False)
        spans.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        reader = PeriodicExportingMetricReader(OTLPMetricExporter())
        metrics = MeterProvider([reader], resource=resource, shutdown_on_exit=False)
        self.spans: Any = spans.get_tracer("treadle", __version__)
        meter: Any = metrics.get_meter("treadle", __version__)
        self.tokens = _histogram(meter, "gen_ai.client.token.usage", "{token}", [4.0**power for power in range(14)])
        self.seconds = _histogram(
            meter, "gen_ai.client.operation.duration", "s", [0.01 * 2**power for power in range(14)]
        )
        self.cost: Any = meter.create_counter("treadle.cost", "{USD}", "cost of model calls whose price is known")
        self.above: Any = TraceContextTextMapPropagator().extract({"traceparent": os.environ.get("TRACEPARENT", "")})
        self.redactor = Redactor.of_environment(os.environ)
        self.content = os.environ.get(CONTENT, "").strip().lower() in ("true", "span_only", "span_and_event")
        self._leaving = threading.Event()
        # Begun now: at the end of a program Python begins no threads any more.
        self._closing = [threading.Thread(target=self._shut, args=(each,), daemon=True) for each in (spans, metrics)]
        for thread in self._closing:
            thread.start()
        lifetime.at_end(self.close)

    def _shut(self, provider: Any) -> None:
        self._leaving.wait()
        with contextlib.suppress(Exception):  # what could not be sent is reported by the exporter itself
            provider.shutdown()

    def close(self) -> None:
        if self._leaving.is_set():
            return
        self._leaving.set()
        until = time.monotonic() + SECONDS
        for thread in self._closing:
            thread.join(max(0.0, until - time.monotonic()))
        late = f"no answer within {SECONDS:g} s" if any(each.is_alive() for each in self._closing) else ""
        if why := self._undelivered.first or late:
            print(f"treadle: telemetry was not delivered: {why}", file=sys.stderr)

    def start(self, name: str, above: Any, at: float, attributes: dict[str, Any], kind: str = "INTERNAL") -> Any:
        from opentelemetry.trace import SpanKind

        known = {key: value for key, value in attributes.items() if value not in (None, "")}
        return self.spans.start_span(name, above, SpanKind[kind], known, start_time=round(at * 1e9))

    def add_content(self, span: Any, name: str, value: Any) -> None:
        """Add what was said, if that is wanted."""
        if self.content:
            text = value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=str).decode()
            span.set_attribute(name, self.redactor.text(text))


def _histogram(meter: Any, name: str, unit: str, steps: list[float]) -> Any:
    """`steps`: the boundaries that the conventions recommend."""
    return meter.create_histogram(name, unit, explicit_bucket_boundaries_advisory=steps)


class Undelivered(logging.Handler):
    """Keeps what the exporters complain about out of the terminal until the end, and then to one line."""

    first = ""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        theirs = logging.getLogger("opentelemetry")
        if not theirs.hasHandlers():
            theirs.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        log.warning("%s", record.getMessage())
        if record.levelno >= logging.ERROR and not self.first:
            self.first = record.getMessage()


@cache
def exporter() -> Exporter:
    """Raises ConfigError where nothing can be sent."""
    try:
        return Exporter()
    except ImportError:
        raise MissingExtra("sending spans to a collector (OTEL_EXPORTER_OTLP_ENDPOINT)", "otel") from None
    except ValueError as error:
        raise ConfigError(f"telemetry cannot be sent: {error}", hint="look at the variables OTEL_...") from error


def _end(span: Any, at: float, error: str = "") -> None:
    """`error`: its code; what an error says may be private."""
    if error:
        from opentelemetry.trace import StatusCode

        span.set_attribute("error.type", error)
        span.set_status(StatusCode.ERROR)
    span.end(round(at * 1e9))


class SessionSpans:
    """The spans of one session, made from its events. Raises ConfigError."""

    def __init__(self, session: str) -> None:
        self._to = exporter()
        from opentelemetry import context, trace

        self._session = session
        self._above: Any = context.get_current() if trace.get_current_span().is_recording() else self._to.above
        self._open: dict[str, Any] = {}
        """The spans of turns and calls that have not ended, by their ids."""
        self._calls: dict[str, str] = {}
        """Which call has started a task."""

    def add(self, event: events.Event, info: AgentInfo) -> None:
        """Never raises: no run ends because it cannot be reported."""
        try:
            self._add(event, info)
        except Exception:
            log.exception("an event was not reported as telemetry", extra={"session": self._session})

    def _add(self, event: events.Event, info: AgentInfo) -> None:
        match event:
            case events.TurnStarted():
                named = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": info.name}
                named |= {"gen_ai.agent.version": info.version, "gen_ai.conversation.id": self._session}
                self._open[event.turn] = span = self._to.start(
                    f"invoke_agent {info.name}", self._above, event.ts, named
                )
                self._to.add_content(span, "gen_ai.input.messages", _message("user", event.prompt))
            case events.ToolStarted() | events.ToolDenied():
                named = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": event.name}
                named |= {"gen_ai.tool.call.id": event.call}
                span = self._to.start(f"execute_tool {event.name}", self._parent(event), event.ts, named)
                self._to.add_content(span, "gen_ai.tool.call.arguments", event.args)
                if isinstance(event, events.ToolDenied):
                    _end(span, event.ts, "denied")
                else:
                    self._open[event.call] = span
            case events.ToolEnded() if (span := self._open.pop(event.call, None)) is not None:
                self._to.add_content(span, "gen_ai.tool.call.result", event.result)
                _end(span, event.ts, "" if event.ok else "tool_failed")
            case events.TaskChanged(task=task) if task is not None and task.call:
                self._calls[event.task_id] = task.call
            case events.Usage():
                self._call(event)
            case events.TurnEnded() if (span := self._open.pop(event.turn, None)) is not None:
                for left in [*self._open]:
                    _end(self._open.pop(left), event.ts, "unfinished")
                self._to.add_content(span, "gen_ai.output.messages", _message("assistant", event.text))
                _end(span, event.ts, _error_of(event.outcome, event.error))

    def _parent(self, event: events.Event) -> Any:
        call = self._calls.get(event.parent or "", event.parent or "")
        span = self._open.get(call) or self._open.get(event.turn)
        if span is None:
            return self._above
        from opentelemetry.trace import set_span_in_context

        return set_span_in_context(span)

    def _call(self, usage: events.Usage) -> None:
        """A model call is known when it has ended."""
        took, to = usage.duration_ms / 1000, self._to
        named = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": provider_of(usage.model)}
        named |= {"gen_ai.request.model": usage.model} if usage.model else {}
        counted = {
            "gen_ai.conversation.id": self._session,
            "gen_ai.response.id": usage.request_id,
            "gen_ai.usage.input_tokens": usage.prompt_tokens,
            "gen_ai.usage.output_tokens": usage.output_tokens,
            "gen_ai.usage.cache_read.input_tokens": usage.cache_read_tokens,
            "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens,
            "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
            "treadle.cost_usd": usage.cost_usd,
            "treadle.usage_source": usage.source,
        }
        above = self._parent(usage)
        _end(to.start(f"chat {usage.model}".rstrip(), above, usage.ts - took, named | counted, "CLIENT"), usage.ts)
        to.tokens.record(usage.prompt_tokens, named | {"gen_ai.token.type": "input"})
        to.tokens.record(usage.output_tokens, named | {"gen_ai.token.type": "output"})
        if usage.duration_ms:
            to.seconds.record(took, named)
        if usage.cost_usd is not None:
            to.cost.add(max(usage.cost_usd, 0.0), named)


def provider_of(model: str) -> str:
    """The conventions want one, and of a call that has passed only its model is known."""
    names = {"claude": "anthropic", "gpt": "openai", "gemini": "gcp.gemini", "deepseek": "deepseek"}
    return next((name for start, name in names.items() if model.startswith(start)), "unknown")


def _message(role: str, text: str) -> list[dict[str, Any]]:
    return [{"role": role, "parts": [{"type": "text", "content": text}]}]


def _error_of(outcome: str, error: events.ErrorInfo | None) -> str:
    return "" if outcome in ("completed", "complete") else error.code if error is not None else outcome


def _here() -> Exporter | None:
    """None where nothing is to be sent, or can be: a session warns of that."""
    try:
        return exporter() if is_on() else None
    except ConfigError:
        return None


@contextlib.contextmanager
def run_span(run: str, order: str, outcome: Callable[[], str]) -> Iterator[None]:
    """The span of an order that is carried out; those of its sessions are below it."""
    to = _here()
    if to is None:
        yield
        return
    from opentelemetry.trace import use_span

    named = {"gen_ai.operation.name": "invoke_workflow", "gen_ai.workflow.name": "order"}
    named |= {"treadle.run_id": run, "treadle.order_id": order}
    span = to.start("invoke_workflow order", to.above, time.time(), named)
    try:
        with use_span(span, record_exception=False, set_status_on_exception=False):
            yield
    finally:
        span.set_attribute("treadle.outcome", outcome())
        _end(span, time.time(), _error_of(outcome(), None))


def landed(order: str, branch: str, since: float, *, commit: str = "", error: str = "") -> None:
    """Report work that a train has landed, or has left out, from when it was queued."""
    if (to := _here()) is not None:
        named = {"treadle.order_id": order, "vcs.ref.head.name": branch, "vcs.ref.head.revision": commit}
        _end(to.start(f"land {branch}", to.above, since or time.time(), named), time.time(), error)
