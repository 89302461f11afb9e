"""A worker that follows a script, right or wrong."""

import io
import json
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

from treadle.testing.faulty_worker import FaultyWorker

INIT = {"type": "init", "id": "i"}
SEND = {"type": "send", "id": "s", "message": "hello"}


def worked(script: dict[str, Any], *requests: dict[str, Any]) -> "subprocess.CompletedProcess[str]":
    argv = [sys.executable, "-m", "treadle.testing.faulty_worker", json.dumps(script)]
    text = "".join(json.dumps(each) + "\n" for each in requests)
    return subprocess.run(argv, input=text, capture_output=True, text=True, timeout=60)


def test_without_a_script_it_is_a_worker() -> None:
    done = worked({}, INIT, SEND, {"type": "shutdown", "id": "e"})
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["type"] for line in lines] == ["init_ok", "event", "event", "result", "shutdown_ok"]
    assert [line["event_seq"] for line in lines[1:3]] == [0, 1] and lines[3]["response"] == "hello"
    assert done.returncode == 0


def test_each_action_of_a_script_is_done_in_its_order() -> None:
    script = {
        "send": [
            {"repeat": 2, "do": [{"event": {"event": "heartbeat"}}]},
            {"stderr": "oh no"},
            {"await": "cancel"},
            {"raw": "half a li"},
            {"exit": 3},
        ]
    }
    done = worked(script, SEND, {"type": "status", "id": "x"}, {"type": "cancel", "id": "c"})
    *events, last = done.stdout.splitlines()
    assert len(events) == 2 and last == "half a li"
    assert (done.returncode, done.stderr) == (3, "oh no\n")


def test_the_normal_answer_may_come_after_all_and_nothing_is_said_to_what_is_not_known(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    script: dict[str, list[dict[str, Any]]] = {
        "send": [
            {"stderr": "first"},
            {"sleep": 7},
            {"await": "cancel"},
            {"say": {"to": "$target_id", "text": "$message $id", "all": "$message"}},
            {"result": {"status": "error", "iterations": 0}},
            {"raw": "\udcff"},
            {"normal": True},
        ],
        "init": [{"deaf": True}],
    }
    asked = [{"type": "dance"}, INIT, SEND, INIT, {"type": "cancel", "id": "c"}, {"type": "status", "id": "x"}]
    text = "".join(json.dumps(each) + "\n" for each in asked)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    before = signal.getsignal(signal.SIGTERM)
    try:
        FaultyWorker(script).run()
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)
    out, err = capfdbinary.readouterr()
    assert err == b"first\n" and slept == [7]
    first, status, *again = out.split(b"\xff")
    assert [json.loads(line) for line in first.splitlines()] == [
        {"to": "", "text": "$message $id", "all": "hello"},
        {"type": "result", "id": "s", "tool_calls_made": [], "iterations": 0, "status": "error"},
    ]
    kinds = [json.loads(line) for line in status.splitlines()]
    assert [line["type"] for line in kinds] == ["event", "event", "result", "status_ok"] and not again
    assert [line["event_seq"] for line in kinds[:2]] == [0, 1] and kinds[0]["send_id"] == "s"
    assert kinds[2]["status"] == "ok" and not kinds[3]["active"]
