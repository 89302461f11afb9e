"""The installed `treadle-worker`, as programs use it."""

import asyncio
import contextlib
import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.doors.worker.test_sequences import Talk, sequences
from tests.e2e.worker_process import WorkerProcess
from tests.installed import TREADLE, treadle
from tests.scripts import calls, reply, says
from tests.wire.transcripts import Transcript, expected, fits, request, transcripts
from treadle.agent.providers.script import load
from treadle.io.process import table
from treadle.io.sandbox.methods import available
from treadle.testing.server import ModelServer

WORKER = transcripts("worker")
SLEEPY = calls("bash", {"command": "sleep 1234 & sleep 1235"}) + says("Back.")


def init(model: str, **config: Any) -> dict[str, Any]:
    return {"type": "init", "id": "1", "config": {"model": model, "system_prompt": "s", "tools": ["bash"], **config}}


SEND = {"type": "send", "id": "2", "message": "go"}


class Replay:
    """A transcript played against a worker."""

    def __init__(self, transcript: Transcript, worker: WorkerProcess, piece: int | None) -> None:
        self.transcript = transcript
        self.worker = worker
        self.piece = piece
        self.session = ""
        self.request_id = ""
        self.next_seq = 0

    def run(self) -> None:
        pending: Any = None
        for number, (kind, text) in enumerate(self.transcript.steps):
            if kind == ">":
                line = text.replace("$request_id", self.request_id)
                self.worker.write(request(line, "scripted:model.toml") + b"\n", self.piece)
            elif kind == "eof":
                self.worker.close()
            elif kind == "<?":
                pending = self.skip(text, pending)
            else:
                self.compare(expected(text), pending or self.worker.line(), number)
                pending = None
        if pending is None:
            assert self.worker.line() is None, f"one line too many: {self.worker.lines[-1]}"
        code, errors = self.worker.end()
        assert code == self.transcript.exit_code
        known = re.compile("sent to the model: Note: |: not used here: ")
        assert all(known.search(line) for line in errors.splitlines()), errors

    def skip(self, event: str, pending: Any) -> Any:
        line = pending or self.worker.line()
        while line is not None and line["type"] == "event" and line["event"]["event"] == event:
            self.count(line)
            line = self.worker.line()
        return line

    def compare(self, wanted: Any, got: Any, number: int) -> None:
        assert got is not None, f"step {number} wants {wanted}, and the worker has ended"
        if got.get("type") == "init_ok":
            self.session = got["session_id"]
        assert fits(wanted, got, self.session), f"step {number} wants {wanted}, got {got}"
        if got["type"] == "event":
            self.count(got)
            self.request_id = got["event"].get("request_id", self.request_id)
        elif got["type"] == "result":
            self.next_seq = 0

    def count(self, line: Any) -> None:
        assert line["event_seq"] == self.next_seq, f"event {self.next_seq} is missing: {line}"
        self.next_seq += 1


@pytest.mark.parametrize("piece", [None, pytest.param(1, marks=pytest.mark.slow)], ids=["at_once", "byte_by_byte"])
@pytest.mark.parametrize("name", WORKER)
def test_the_worker_answers_as_recorded(name: str, piece: int | None, tmp_path: Path) -> None:
    transcript = WORKER[name]
    (tmp_path / "model.toml").write_text(transcript.model or 'loop = true\n[[reply]]\ntext = "ok"\n')
    # On a slow machine a heartbeat could come in between.
    quiet = {"HEDDLE_HEARTBEAT_INTERVAL": "600000"}
    with WorkerProcess(tmp_path, quiet | transcript.env) as worker:
        Replay(transcript, worker, piece).run()


def descendants(worker: WorkerProcess) -> list[int]:
    """Commands that the worker's tools run: they live under its keeper, not under it, and in its directory."""
    found = []
    for process in table.processes():
        with contextlib.suppress(OSError):
            if process.name == "sleep" and os.readlink(f"/proc/{process.pid}/cwd") == worker.cwd:
                found.append(process.pid)
    return found


def until(check: Any, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def test_a_cancelled_tool_is_gone_with_its_whole_tree_before_the_result_is_written(tmp_path: Path) -> None:
    (tmp_path / "model.toml").write_text(SLEEPY)
    with WorkerProcess(tmp_path) as worker:
        worker.ask(init("scripted:model.toml"), SEND)
        worker.until("tool_start")
        until(lambda: len(descendants(worker)) == 2)
        worker.ask({"type": "cancel", "id": "3", "target_id": "2"})
        result = worker.until("result")
        assert descendants(worker) == []
        assert result["error"]["code"] == "cancelled" and len(result["tool_calls_made"]) == 1


@pytest.mark.parametrize("end", ["kill", "closed stdout", "terminate"])
def test_a_worker_that_ends_leaves_no_process(end: str, tmp_path: Path) -> None:
    (tmp_path / "model.toml").write_text(SLEEPY)
    with WorkerProcess(tmp_path, {"HEDDLE_HEARTBEAT_INTERVAL": "600000"}) as worker:
        worker.ask(init("scripted:model.toml"), SEND)
        worker.until("tool_start")
        until(lambda: len(descendants(worker)) == 2)
        if end == "kill":
            worker.process.kill()
        elif end == "terminate":
            worker.process.terminate()
        else:
            worker.stop_reading()
        until(lambda: worker.process.poll() is not None)
        until(lambda: descendants(worker) == [])
        expected_code = {"kill": -signal.SIGKILL, "terminate": 128 + signal.SIGTERM, "closed stdout": 1}[end]
        assert worker.process.returncode == expected_code


def test_a_line_over_the_cap_costs_that_line_only(tmp_path: Path) -> None:
    (tmp_path / "model.toml").write_text('[[reply]]\ntext = "ok"\n')
    with WorkerProcess(tmp_path) as worker:
        worker.ask(init("scripted:model.toml"))
        worker.until("init_ok")
        huge = b'{"type":"send","id":"9","message":"' + b"x" * (16 * 1024 * 1024) + b'"}\n'
        for at in range(0, len(huge), 1 << 16):
            worker.write(huge[at : at + (1 << 16)])
        error = worker.until("result")
        assert (error["id"], error["error"]["code"]) == ("unknown", "protocol_error")
        worker.ask(SEND)
        assert worker.until("result")["response"] == "ok"


def test_the_commands_run_by_tools_cannot_reach_our_streams(tmp_path: Path) -> None:
    command = "cat; echo hello > /proc/self/fd/1; ls -l /proc/$PPID/fd/0 | tail -c 20"
    (tmp_path / "model.toml").write_text(
        f'[[reply]]\n[[reply.call]]\nname = "bash"\narguments = {{ command = "{command}" }}\n[[reply]]\ntext = "ok"\n'
    )
    with WorkerProcess(tmp_path) as worker:
        worker.ask(init("scripted:model.toml"), SEND)
        assert "hello" in worker.until("tool_end")["event"]["result_preview"]
        worker.ask({"type": "shutdown", "id": "3"})
        worker.rest()


RANDOM = (
    "loop = true\n"
    + calls("bash", {"command": "sleep 1236"}, when="hang", times="always")
    + calls("bash", {"command": "sleep 0.01; echo done"}, when="tool", times="always")
    + reply(when="fail", times="always", error={"status": 400, "message": "no"})
    + says("ok")
)


@pytest.mark.slow
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(sequences, st.integers(1, 400))
def test_any_sequence_of_requests_keeps_the_promises_of_the_wire_and_leaves_no_process(
    tmp_path: Path, sequence: list[tuple[Any, ...]], piece: int
) -> None:
    (tmp_path / "m").write_text(RANDOM)
    talk = Talk(model="scripted:m", tools=["bash"])
    with WorkerProcess(tmp_path) as worker:
        for step in sequence:
            if step[0] != "wait":
                worker.write(talk.line(step) + b"\n", piece)
        worker.ask(*({"type": "cancel", "id": "c", "target_id": send} for send in talk.sends))
        worker.close()
        talk.check(worker.rest())
        code, errors = worker.end()
        assert code == 0 and "Traceback" not in errors
        until(lambda: descendants(worker) == [])


async def test_the_ecosystems_environment_reaches_a_real_http_model(tmp_path: Path) -> None:
    (tmp_path / "served.toml").write_text('[[reply]]\ntext = "Hello from afar."\nusage = { input = 9, output = 4 }\n')
    async with ModelServer(load(str(tmp_path / "served.toml"))) as server:
        env = {"HEDDLE_BASE_URL": server.url, "OPENROUTER_API_KEY": "k-123"}

        def talk() -> list[Any]:
            with WorkerProcess(tmp_path, env) as worker:
                worker.ask(init("anthropic/claude-sonnet-4"))
                worker.until("init_ok")
                worker.ask(SEND, {"type": "shutdown", "id": "3"})
                return worker.rest()

        lines = await asyncio.to_thread(talk)
    assert [line["type"] for line in lines if line["type"] != "event"] == ["init_ok", "result", "shutdown_ok"]
    assert {line["session_id"] for line in lines[:-1]} == {lines[0]["session_id"]}
    assert lines[-2]["response"] == "Hello from afar." and lines[-2]["usage"]["total_tokens"] == 13
    [asked] = [request for request in server.requests if request.path.endswith("/chat/completions")]
    assert asked.headers["authorization"] == "Bearer k-123"
    assert asked.body["model"] == "anthropic/claude-sonnet-4"


def test_a_sandboxed_worker_cannot_write_elsewhere(tmp_path: Path) -> None:
    command = [TREADLE, "worker", "--sandbox"]
    (tmp_path / "inside").mkdir()
    tool = "echo x > here; echo x > ../outside/there"
    (tmp_path / "outside").mkdir()
    (tmp_path / "inside" / "model.toml").write_text(
        f'[[reply]]\n[[reply.call]]\nname = "bash"\narguments = {{ command = "{tool}" }}\n[[reply]]\ntext = "ok"\n'
    )
    if available().method is None:  # nothing to confine it with: it must not run
        refused = treadle("worker", "--sandbox")
        assert refused.returncode and "--sandbox cannot be enforced" in refused.stderr and refused.stdout == ""
        return
    with WorkerProcess(tmp_path / "inside", {"TMPDIR": str(tmp_path / "inside")}, command) as worker:
        worker.ask(init("scripted:model.toml"), SEND)
        assert worker.until("result")["status"] == "ok"
    assert (tmp_path / "inside" / "here").exists()
    assert not (tmp_path / "outside" / "there").exists()
