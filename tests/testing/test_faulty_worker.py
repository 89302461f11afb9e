"""A worker that follows a script, right or wrong."""

import json
import subprocess
import sys
from typing import Any

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


def test_the_normal_answer_may_come_after_all_and_nothing_is_said_to_what_is_not_known() -> None:
    done = worked({"send": [{"stderr": "first"}, {"normal": True}]}, {"type": "dance", "id": "d"}, SEND)
    assert done.stderr == "first\n" and json.loads(done.stdout.splitlines()[-1])["status"] == "ok"
