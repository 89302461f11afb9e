"""An order done by an agent in the control plane's own process: the same workspace, observation and receipt."""

import asyncio
import http.server
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.host.conftest import QUICK, left_running, order
from tests.host.test_run import more
from tests.scripts import calls, says
from tests.verification.test_cheats import TEST
from treadle.agents import find_agent
from treadle.errors import Cancelled, NotFound, TimedOut
from treadle.events import AnyEvent, Asked, ToolStarted, TurnEnded
from treadle.host.job import Job
from treadle.host.run import HostRun
from treadle.host.store import ReceiptStore
from treadle.session import AgentInfo, Answer, Confinement, SessionSpec
from treadle.wire.sidecar.connection import NO_POLICY, Requirement, Requirements, WorkOrder
from treadle.wire.sidecar.receipts import FileWritten, WarningGiven

WRITES = calls(
    "write_file",
    {"path": "made.txt", "content": "made"},
    text="Writing.",
    usage={"input": 100, "output": 10},
    cost=0.25,
) + says("Done.", usage={"input": 200, "output": 5}, cost=0.25)
SLEEPS = calls("bash", {"command": "sleep 3600", "timeout": 3600}) + says("Slept.")


def scripted_order(tmp_path: Path, root: Path, text: str = WRITES, **changes: Any) -> WorkOrder:
    script = tmp_path / "script.toml"
    script.write_text(text)
    made = order(root, **changes)
    return replace(made, config=replace(made.config, model=f"scripted:{script}", vendor={}))


def job(work: WorkOrder, **changes: Any) -> Job:
    return Job(order=work, backend=find_agent("native"), timing=QUICK, **changes)


async def test_an_agent_works_in_the_workspace_and_gets_the_same_receipt(
    tmp_path: Path, source: Path, store: ReceiptStore
) -> None:
    run = HostRun(job(scripted_order(tmp_path, source)), store)
    receipt = await run.run()
    assert receipt.outcome == "complete" and receipt.verification.git_status == "A  made.txt"
    assert receipt.usage.input_tokens == 300 and receipt.usage.estimated_cost_usd == 0.5
    assert receipt.backend.id == "treadle:native"
    assert any(isinstance(event, FileWritten) for event in receipt.trace)
    assert more(receipt)["claimed"]["outcome"] == "complete" and more(receipt)["differences"] == []
    assert more(receipt)["observed"]["processes_seen"] is None
    assert not (source / "made.txt").exists()
    assert store.get(run.run_id) == receipt and store.check() == []


async def test_its_work_is_applied_as_that_of_a_sidecar(tmp_path: Path, source: Path, store: ReceiptStore) -> None:
    receipt = await HostRun(job(scripted_order(tmp_path, source), apply=True, check="test -f made.txt"), store).run()
    assert receipt.verification.harness_ok and (source / "made.txt").read_text() == "made"


async def test_a_check_that_the_work_turned_green_is_no_success_and_says_why(
    tmp_path: Path, source: Path, store: ReceiptStore
) -> None:
    (source / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    (source / "test_calc.py").write_text(TEST)
    ends = "import os\n\n\ndef add(a, b):\n    os._exit(0)\n"
    work = scripted_order(tmp_path, source, calls("bash", {"command": f"printf '{ends}' > calc.py"}) + says("Fixed."))
    check = f"{sys.executable} -m unittest -q"
    receipt = await HostRun(job(work, apply=True, check=check), store).run()
    found = more(receipt)["observed"]["check"]
    assert receipt.outcome == "partial" and not receipt.verification.harness_ok and not found["ok"]
    assert found["exit_code"] == 0 and found["output_tail"].startswith(
        "treadle: the check passes also when a test fails"
    )
    assert "a - b" in (source / "calc.py").read_text(), "it was not applied"


async def test_the_sink_gets_every_event_of_the_session(tmp_path: Path, source: Path, store: ReceiptStore) -> None:
    heard: list[AnyEvent] = []

    async def sink(event: AnyEvent) -> None:
        heard.append(event)

    await HostRun(job(scripted_order(tmp_path, source)), store, sink=sink).run()
    assert [event.seq for event in heard] == sorted(event.seq for event in heard)
    assert isinstance(heard[-1], TurnEnded) and any(isinstance(event, ToolStarted) for event in heard)


async def test_a_question_is_answered_by_whoever_runs_it(tmp_path: Path, source: Path, store: ReceiptStore) -> None:
    work = scripted_order(tmp_path, source, policy=replace(NO_POLICY, require_approval_for=["write"]))

    async def sink(event: AnyEvent) -> None:
        if isinstance(event, Asked):
            await run.answer(event.request, Answer(decision="allow", by="alice"))

    run = HostRun(job(work), store, sink=sink, adjust=lambda spec: replace(spec, answers=True))
    receipt = await run.run()
    assert receipt.verification.git_status == "A  made.txt"


async def test_a_run_is_steered(tmp_path: Path, source: Path, store: ReceiptStore) -> None:
    steered: list[bool] = []

    async def sink(event: AnyEvent) -> None:
        if isinstance(event, ToolStarted):
            steered.append(await run.steer("and be quick"))

    run = HostRun(job(scripted_order(tmp_path, source)), store, sink=sink)
    assert await run.steer("too early") is False
    with pytest.raises(NotFound):
        await run.answer("request", Answer(decision="allow"))
    await run.run()
    assert steered == [True]


async def test_a_stopped_run_is_partial_and_leaves_no_process(
    tmp_path: Path, source: Path, store: ReceiptStore
) -> None:
    stopping: list[asyncio.Task[None]] = []

    async def sink(event: AnyEvent) -> None:
        if isinstance(event, ToolStarted):
            stopping.append(asyncio.create_task(run.stop(Cancelled("enough"))))

    run = HostRun(job(scripted_order(tmp_path, source, SLEEPS)), store, sink=sink)
    receipt = await run.run()
    assert receipt.outcome == "partial" and more(receipt)["end"]["cancelled_because"] == "enough"
    assert left_running(run.job) == []


async def test_a_run_that_takes_too_long_is_stopped(tmp_path: Path, source: Path, store: ReceiptStore) -> None:
    receipt = await HostRun(job(scripted_order(tmp_path, source, SLEEPS), timeout=2.0), store).run()
    assert more(receipt)["end"]["code"] == TimedOut.code


async def test_what_the_order_forbids_does_not_happen(tmp_path: Path, source: Path, store: ReceiptStore) -> None:
    work = scripted_order(tmp_path, source, policy=replace(NO_POLICY, deny_write=["made.txt"]))
    receipt = await HostRun(job(work), store).run()
    assert receipt.verification.git_status == ""


async def test_an_agent_that_lacks_what_is_required_is_not_started(
    tmp_path: Path, source: Path, store: ReceiptStore
) -> None:
    asks = Requirements(required=[Requirement(capability="audio", min_support="any")])
    receipt = await HostRun(job(scripted_order(tmp_path, source, requirements=asks)), store).run()
    assert receipt.outcome == "failed" and more(receipt)["unmet_requirements"]


async def test_an_agent_that_cannot_start_is_a_failed_run_with_a_receipt(source: Path, store: ReceiptStore) -> None:
    made = order(source)
    work = replace(made, config=replace(made.config, model="scripted:/no/such/file"))
    receipt = await HostRun(job(work), store).run()
    assert receipt.outcome == "failed" and more(receipt)["claimed"] is None


class Stubborn:
    """An agent that neither says what it can do nor opens a session."""

    name = "stubborn"

    async def probe(self) -> AgentInfo:
        await asyncio.Event().wait()
        raise AssertionError

    async def open(self, spec: SessionSpec) -> Any:
        await asyncio.Event().wait()


async def test_an_agent_that_never_answers_is_given_up(source: Path, store: ReceiptStore) -> None:
    receipt = await HostRun(
        Job(order=order(source), backend=Stubborn(), timing=replace(QUICK, handshake=0.1)), store
    ).run()
    assert more(receipt)["end"]["code"] == TimedOut.code and receipt.outcome == "failed"


FREE = Confinement(use="off")  # the script of the model lies in /tmp, of which a sandbox has its own
WORKER = f"worker:{Path(sys.executable).parent / 'treadle-worker'}"


async def test_an_agent_that_cannot_be_held_to_the_policy_is_refused_before_it_starts(
    tmp_path: Path, source: Path, store: ReceiptStore
) -> None:
    work = scripted_order(tmp_path, source, policy=replace(NO_POLICY, disallowed_tools=["Write"]))
    receipt = await HostRun(Job(order=work, backend=find_agent(WORKER), timing=QUICK), store).run()
    assert receipt.outcome == "failed" and more(receipt)["end"]["code"] == "policy_not_enforceable"
    assert "disallowed_tools Write" in more(receipt)["end"]["message"]
    assert more(receipt)["end"]["error_code"] == "policy_invalid" and more(receipt)["claimed"] is None
    assert receipt.verification.git_status == "" and more(receipt)["observed"]["events"] == 0
    assert more(receipt)["policy"]["enforced"] is None


async def test_with_best_effort_it_runs_and_what_it_breaks_fails_it(
    tmp_path: Path, source: Path, store: ReceiptStore
) -> None:
    work = scripted_order(tmp_path, source, policy=replace(NO_POLICY, allowed_tools=["Read"]))
    work = replace(work, config=replace(work.config, vendor={"abp": {"best_effort_policy": True}}))
    job = Job(order=work, backend=find_agent(WORKER), timing=QUICK, apply=True, confinement=FREE)
    receipt = await HostRun(job, store).run()
    assert more(receipt)["policy"]["best_effort"] is True and more(receipt)["policy"]["enforced"] == "observed"
    assert receipt.outcome == "failed" and more(receipt)["end"]["code"] == "permission_denied"
    assert any(
        "does not promise to enforce" in event.message for event in receipt.trace if isinstance(event, WarningGiven)
    )
    assert not (source / "made.txt").exists()


class Failing(http.server.BaseHTTPRequestHandler):
    """A model service that never has an answer."""

    status, after = 503, ""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(self.status)
        if self.after:
            self.send_header("Retry-After", self.after)
        self.end_headers()

    def log_message(self, format: str, *words: Any) -> None:
        pass


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Failing]]:
    handler = type("Handler", (Failing,), {})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{server.server_port}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        yield handler
        server.shutdown()


def served(source: Path) -> WorkOrder:
    made = order(source)
    return replace(made, config=replace(made.config, model="openai:gpt-5", vendor={}))


async def test_a_model_service_that_is_closed_for_a_day_ends_the_order_and_its_receipt_says_why(
    service: type[Failing], source: Path, store: ReceiptStore
) -> None:
    service.status, service.after = 429, "86400"
    receipt = await HostRun(job(served(source), timeout=60.0), store).run()
    assert receipt.outcome == "failed" and receipt.meta.duration_ms < 60_000
    assert "429" in more(receipt)["end"]["said"]["message"]
