"""Every place that stores or sends text removes the same secrets: one list of attacks, one function."""

import json
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import to_builtins
from msgspec.structs import replace

import treadle
from tests.receipts.test_trace import observed
from tests.safety.test_secrets import SHAPES
from tests.test_redact import CONTEXTS
from tests.test_redact import SECRETS as KEYS
from tests.wire.conversations.sidecar import SAMPLE_ORDER
from treadle import events
from treadle.agent.messages import UserMessage
from treadle.agent.stored_sessions import SessionDocument, as_atif, as_markdown
from treadle.agent.transcript import MessageRecord, Transcript, TurnBegan
from treadle.cli.chat.command import Typed
from treadle.cli.logs import JsonLines
from treadle.fleet.run.runner import RedactedLines
from treadle.gateway.recording import CallRecorder, RecordedRun, place_of
from treadle.host import evidence
from treadle.host.conclusion import NOT_RECOVERED, _newly_failed, redactor_of
from treadle.host.event_file import EventFile, encode_events
from treadle.host.store import ReceiptStore
from treadle.io.paths import state_dir
from treadle.receipts.trace import Check
from treadle.redact import Redactor
from treadle.serve.api.devices import shown
from treadle.sessions.handover import gathered
from treadle.sessions.telemetry import Exporter
from treadle.verification.evidence import CheckEvidence
from treadle.wire.sidecar.receipts import AssistantSaid

ATTACKS = [*((key, key) for key in KEYS), *((text, text) for text, _ in CONTEXTS), *((t, t) for t in SHAPES.values())]
NAMED = "only-its-variable-says-that-this-is-one"


def record(text: str) -> logging.LogRecord:
    return logging.LogRecord("treadle", logging.INFO, "", 0, "%s", (text,), None)


def order(text: str) -> str:
    asked = replace(SAMPLE_ORDER, task=text)
    return Path(ReceiptStore().keep_order(asked, redactor_of(asked))).read_text()


def check(text: str) -> str:
    found = CheckEvidence(command="make", base="b", tree="t", word="passed", why="")
    made = evidence.keep_check(Check(command="make", exit_code=0, output_tail=text, evidence=found))
    assert made
    return json.dumps(to_builtins(evidence.load(made.id)))


def event_file(text: str) -> str:
    file, said = EventFile("events", redactor_of(SAMPLE_ORDER)), [AssistantSaid(ts="2026-01-01T00:00:00Z", text=text)]
    file.write(said, encode_events(said))
    file.close()
    return Path("events").read_text()


def recording(text: str) -> str:
    made = CallRecorder(RecordedRun(id="r", agent="a", cwd="/", at=1.0), [NAMED])
    made.prompt(text, "1")
    made.call("POST", "/", text.encode(), 200, {}, text.encode(), True)
    return "\n".join(path.read_text() for path in Path(place_of("r")).rglob("*") if path.is_file())


def export(text: str) -> str:
    name = os.urandom(4).hex()
    transcript = Transcript.create(cwd="/", model="m", session_id=name)
    transcript.append(TurnBegan(turn="t", prompt=text), MessageRecord(message=UserMessage(text=text)))
    transcript.close()
    document = SessionDocument(Transcript.read(name), Redactor.of_environment(os.environ))
    return as_atif(document).decode() + as_markdown(document)


def handover(text: str) -> str:
    redactor = Redactor.of_environment(os.environ)
    return gathered([events.TurnStarted(prompt=text), events.Message(text=text)], "native", redactor).prompt(9000)


def typed(text: str) -> str:
    Typed("typed").store_string(text)
    return Path("typed").read_text() if os.path.exists("typed") else ""


def span(text: str) -> str:
    sent: dict[str, str] = {}

    class Span:
        set_attribute = staticmethod(sent.__setitem__)

    exporter = Exporter.__new__(Exporter)
    exporter.content, exporter.redactor = True, Redactor.of_environment(os.environ)
    exporter.add_content(Span(), "said", text)
    return sent["said"]


def traceback(text: str) -> str:
    try:
        raise ValueError(text)
    except ValueError:
        return JsonLines().format(logging.LogRecord("treadle", logging.ERROR, "", 0, "it ended", (), sys.exc_info()))


def receipt(text: str) -> str:
    seen = observed(usage_raw={"said": text})
    seen.trace.extend([AssistantSaid(ts="2026-01-01T00:00:00Z", text=text)])
    return json.dumps(to_builtins(seen.receipt(redactor_of(SAMPLE_ORDER))))


def not_recovered(text: str) -> str:
    os.makedirs(state_dir(), exist_ok=True)
    _newly_failed({"a run": text})
    return Path(state_dir(), NOT_RECOVERED).read_text()


PLACES: dict[str, tuple[str, Callable[[str], str]]] = {
    "a line of the log": ("treadle/cli/logs.py", lambda text: JsonLines().format(record(text))),
    "a line of a runner's log": ("treadle/fleet/run/runner.py", lambda text: RedactedLines().format(record(text))),
    "a crash in the log": ("treadle/cli/logs.py", traceback),
    "a notice": ("treadle/serve/api/devices.py", shown),
    "a receipt": ("treadle/receipts/trace.py", receipt),
    "a run that was not recovered": ("treadle/host/conclusion.py", not_recovered),
    "an order": ("treadle/host/store.py", order),
    "the output of a check": ("treadle/host/evidence.py", check),
    "events": ("treadle/host/event_file.py", event_file),
    "a recording": ("treadle/gateway/recording.py", recording),
    "an exported session": ("treadle/agent/stored_sessions.py", export),
    "a hand-over": ("treadle/sessions/handover.py", handover),
    "what was typed": ("treadle/cli/chat/command.py", typed),
    "telemetry": ("treadle/sessions/telemetry.py", span),
}


ELSEWHERE = {
    "treadle/agents.py": "gives it to a hand-over",
    "treadle/agent/providers/http.py": "errors: tests/agent/providers/test_failures.py",
    "treadle/cli/chat/talk.py": "gives it to a hand-over",
    "treadle/cli/host.py": "gives it to events",
    "treadle/cli/sessions.py": "gives it to an export",
    "treadle/fleet/run/attempt.py": "messages of a fleet: tests/fleet/run/test_attempt.py",
    "treadle/policy/environment.py": "looks for secrets, stores nothing",
    "treadle/receipts/expecting.py": "refuses secrets",
    "treadle/redact.py": "is it",
}


def test_every_module_that_redacts_is_tried_here_or_says_where() -> None:
    source = Path(treadle.__file__).parent
    found = {str(path.relative_to(source.parent)) for path in source.rglob("*.py") if "Redactor" in path.read_text()}
    gives = {"treadle/fleet/run/resumption.py", "treadle/host/backends.py"}
    assert {path for path, _ in PLACES.values()} <= found
    assert found - gives - {path for path, _ in PLACES.values()} == set(ELSEWHERE)


@pytest.mark.parametrize("place", PLACES)
def test_no_secret_is_stored_or_sent(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state_home: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOME_TOKEN", NAMED)
    _, store = PLACES[place]
    left = []
    for secret, text in [(NAMED, f"it is {NAMED}"), *((secret, f"before {text} after") for secret, text in ATTACKS)]:
        stored = store(text)
        if secret in stored or json.dumps(secret)[1:-1] in stored:
            left.append(secret)
        for path in tmp_path.iterdir():
            if path.name in ("events", "typed"):
                path.unlink()
    assert left == []
