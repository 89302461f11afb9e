"""What a run leaves behind at a collector of OpenTelemetry, which decodes it as any other would."""

import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

import treadle
from tests.scripts import calls, says
from treadle import events
from treadle.errors import ConfigError
from treadle.sessions import telemetry

pytest.importorskip("opentelemetry.sdk")
SECRET = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789"


class Collector:
    def __init__(self) -> None:
        from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        self.spans: dict[str, Any] = {}
        self.metrics: dict[str, Any] = {}
        here = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.path == "/v1/traces":
                    sent = ExportTraceServiceRequest.FromString(body).resource_spans
                    here.spans |= {span.name: span for one in sent for each in one.scope_spans for span in each.spans}
                else:
                    told = ExportMetricsServiceRequest.FromString(body).resource_metrics
                    found = (metric for one in told for each in one.scope_metrics for metric in each.metrics)
                    here.metrics |= {metric.name: metric for metric in found}
                self.send_response(200)
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def attributes(self, name: str) -> dict[str, Any]:
        kinds = ("string_value", "int_value", "double_value")
        return {
            one.key: next(filter(None, (getattr(one.value, kind) for kind in kinds)), 0)
            for one in self.spans[name].attributes
        }

    def above(self, name: str) -> str:
        return next((each for each, span in self.spans.items() if span.span_id == self.spans[name].parent_span_id), "")


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    collector = Collector()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    telemetry.exporter.cache_clear()
    yield collector
    telemetry.exporter().close()
    telemetry.exporter.cache_clear()
    collector.close()


async def sent(collector: Collector, tmp_path: Path) -> None:
    """A run in which the model calls a tool, and then a landing; all of it is at the collector."""
    script = tmp_path / "script.toml"
    script.write_text(calls("read_file", {"file_path": SECRET}, when="look") + says("Done.", when=".*", times="always"))
    with telemetry.run_span("run-1", "order-1", lambda: "failed"):
        async for _ in treadle.query(f"look at {SECRET}", cwd=tmp_path, model=f"scripted:{script}"):
            pass
    telemetry.landed("order-1", "main", 0.0, commit="c0ffee")
    telemetry.exporter().close()


async def test_a_run_is_a_tree_of_spans_without_what_was_said(collector: Collector, tmp_path: Path) -> None:
    await sent(collector, tmp_path)
    tree = {name: collector.above(name) for name in collector.spans}
    assert tree == {
        "invoke_workflow order": "",
        "invoke_agent native": "invoke_workflow order",
        "chat scripted": "invoke_agent native",
        "execute_tool read_file": "invoke_agent native",
        "land main": "",
    }
    assert collector.attributes("invoke_workflow order")["error.type"] == "failed"
    assert collector.attributes("execute_tool read_file")["error.type"] == "tool_failed"
    assert collector.attributes("land main")["vcs.ref.head.revision"] == "c0ffee"
    assert SECRET not in str(collector.spans) and "look" not in str(collector.spans)


async def test_names_are_those_of_the_published_conventions(
    collector: Collector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from opentelemetry.semconv._incubating.attributes import gen_ai_attributes, vcs_attributes
    from opentelemetry.semconv._incubating.metrics import gen_ai_metrics
    from opentelemetry.semconv.attributes import error_attributes

    monkeypatch.setenv(telemetry.CONTENT, "true")
    await sent(collector, tmp_path)
    published = {
        value
        for module in (gen_ai_attributes, vcs_attributes, error_attributes, gen_ai_metrics)
        for value in vars(module).values()
        if isinstance(value, str)
    }
    used = {key for name in collector.spans for key in collector.attributes(name)} | {*collector.metrics}
    assert {name for name in used if not name.startswith("treadle.")} <= published
    operations = {one.value for one in gen_ai_attributes.GenAiOperationNameValues}
    named = {
        name: collector.attributes(name).get("gen_ai.operation.name") for name in collector.spans if name != "land main"
    }
    assert {*named.values()} <= operations and all(name.startswith(f"{named[name]} ") for name in named)
    assert {"gen_ai.client.token.usage", "gen_ai.client.operation.duration"} - {*collector.metrics} <= {
        "gen_ai.client.operation.duration"  # a scripted reply may take no time at all
    }
    said = json.loads(collector.attributes("invoke_agent native")["gen_ai.input.messages"])
    assert said[0]["role"] == "user" and said[0]["parts"][0]["content"].startswith("look at [redacted]")
    assert SECRET not in str(collector.spans)


@pytest.mark.parametrize(
    "env", [{}, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_SDK_DISABLED": "true"}]
)
async def test_without_a_collector_nothing_is_loaded(env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in env.items():
        monkeypatch.setenv(name, text)
    assert not telemetry.is_on() and telemetry._here() is None


def test_a_collector_that_never_answers_holds_no_end_up() -> None:
    """In a process of its own: what still waits for the collector ends with it."""
    program = (
        "from treadle.sessions import telemetry; telemetry.SECONDS = 0.05;"
        "telemetry.landed('order-1', 'main', 0.0, commit='c0ffee'); telemetry.exporter().close()"
    )
    with socket.create_server(("127.0.0.1", 0)) as silent:
        at = f"http://127.0.0.1:{silent.getsockname()[1]}"
        env = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": at, "OTEL_EXPORTER_OTLP_TIMEOUT": "600"}
        ran = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True)
    assert "telemetry was not delivered: no answer within 0.05 s" in ran.stderr


@pytest.mark.parametrize(
    ("given", "said"), [("", "needs the optional part treadle[otel]"), ("1", "telemetry cannot be sent: ")]
)
async def test_where_nothing_can_be_sent_a_run_goes_on(
    given: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    if given:
        monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", given)  # smaller than a batch
    else:
        for name in [name for name in sys.modules if name.partition(".")[0] == "opentelemetry"]:
            monkeypatch.setitem(sys.modules, name, None)  # as where it is not installed
    telemetry.exporter.cache_clear()
    (tmp_path / "script.toml").write_text(says("Done.", when=".*"))
    with pytest.raises(ConfigError, match=re.escape(said)):
        telemetry.SessionSpans("s")
    told = [event async for event in treadle.query("go", cwd=tmp_path, model=f"scripted:{tmp_path}/script.toml")]
    assert any(isinstance(event, events.TurnEnded) and event.text == "Done." for event in told)
