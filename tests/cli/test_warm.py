"""Commands that a warm parent runs, as who starts them sees it."""

import json
import os
import signal
import sys

from tests.cli.warm_runs import PATIENT, Warm, loaded
from tests.installed import TREADLE


def test_a_run_starts_from_it_and_whoever_asked_loads_nothing(warm: Warm) -> None:
    done = warm.traced("hi")
    assert done.stdout == "hello\n" and not loaded(done)


def test_stdin_errors_and_exit_codes_are_those_of_whoever_starts_it(warm: Warm) -> None:
    assert warm.once(input="hi from a pipe").stdout == "hello\n"
    wrong = warm.do(TREADLE, "-p", "hi", "--model", "no-such:model")
    assert wrong.returncode == 1 and "no-such" in wrong.stderr and wrong.stdout == ""
    wrong = warm.once("hi", "--no-such-option")
    assert wrong.returncode == 1 and "no-such-option" in wrong.stderr


def test_one_that_is_stuck_is_not_waited_for(warm: Warm) -> None:
    parent = warm.parent
    os.kill(parent, signal.SIGSTOP)
    try:
        done = warm.traced("hi", patience=0.5)
        assert done.stdout == "hello\n" and loaded(done)
    finally:
        os.kill(parent, signal.SIGCONT)
    done = warm.traced("hi")
    assert done.stdout == "hello\n" and not loaded(done)


def test_a_worker_starts_from_it_too(warm: Warm) -> None:
    _, model = warm.model
    lines = [
        {"type": "init", "id": "1", "config": {"model": model, "system_prompt": "", "tools": []}},
        {"type": "send", "id": "2", "message": "hi"},
        {"type": "shutdown", "id": "3"},
    ]
    said = "".join(json.dumps(line) + "\n" for line in lines)
    code = PATIENT.format(50) + "import sys; sys.argv = sys.argv[:1]; from treadle.cli.worker_entry import main; main()"
    done = warm.do(sys.executable, "-X", "importtime", "-c", code, input=said)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["type"] for answer in answers if answer["type"] != "event"] == ["init_ok", "result", "shutdown_ok"]
    assert answers[-2]["response"] == "hello" and done.returncode == 0 and not loaded(done)
