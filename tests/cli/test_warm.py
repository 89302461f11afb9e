"""Commands that a warm parent runs, as who starts them sees it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.warm_runs import BE_WORKER, PATIENT, SCRIPT, Warm, loaded
from tests.installed import TREADLE
from tests.terminal.support import alive, until
from tests.waiting import stop
from treadle.cli.warm import run_once, run_warm, run_worker
from treadle.io.process import table
from treadle.io.process import warm as warm_parents


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
    stop(parent)
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
    code = PATIENT.format(50) + BE_WORKER
    done = warm.do(sys.executable, "-X", "importtime", "-c", code, input=said)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["type"] for answer in answers if answer["type"] != "event"] == ["init_ok", "result", "shutdown_ok"]
    assert answers[-2]["response"] == "hello" and done.returncode == 0 and not loaded(done)


class Workers:
    """Workers that are started one after the other, with no warm parent to begin with."""

    CODE = f"{PATIENT.format(50)}warm.START_PATIENCE = 50; {BE_WORKER}"

    def __init__(self, home: Path) -> None:
        self.home = home
        (home / "s.toml").write_text(SCRIPT)
        self.env = {**os.environ, "TREADLE_WARM": "600", "TREADLE_HOME": str(home)}
        self.started: list[subprocess.Popen[str]] = []

    def start(self) -> subprocess.Popen[str]:
        words = [sys.executable, "-c", self.CODE]
        worker = subprocess.Popen(
            words, env=self.env, cwd=self.home, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.started.append(worker)
        return worker

    def ask(self, worker: subprocess.Popen[str]) -> str:
        """Have it do a turn; what it said."""
        assert worker.stdin is not None and worker.stdout is not None
        config = {"model": f"scripted:{self.home / 's.toml'}", "system_prompt": "", "tools": []}
        for line in ({"type": "init", "id": "1", "config": config}, {"type": "send", "id": "2", "message": "hi"}):
            worker.stdin.write(json.dumps(line) + "\n")
        worker.stdin.flush()
        while (answer := json.loads(worker.stdout.readline()))["type"] != "result":
            pass
        return str(answer["response"])

    def parents(self) -> list[int]:
        return [*warm_parents.parents(warm_parents.WORKERS).values()]


@pytest.fixture
def workers(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workers]:
    home = tmp_path_factory.mktemp("w")  # short: a socket is in it
    monkeypatch.setenv("TREADLE_HOME", str(home))
    found = Workers(home)
    yield found
    for worker in found.started:
        worker.kill()
        worker.communicate(timeout=60)
    for pid in warm_parents.dismiss(warm_parents.WORKERS):
        until(lambda pid=pid: not alive(pid))


def program(worker: subprocess.Popen[str]) -> str:
    return os.path.realpath(f"/proc/{worker.pid}/exe")


def test_two_workers_run_by_themselves_and_those_that_come_later_are_copies_of_one_process(workers: Workers) -> None:
    alone = [workers.start(), workers.start()]
    assert [workers.ask(worker) for worker in alone] == ["hello"] * 2
    assert workers.parents() == []
    later = [workers.start() for _ in range(4)]
    assert [workers.ask(worker) for worker in later] == ["hello"] * 4
    (parent,) = workers.parents()
    assert {program(worker) for worker in later} == {os.path.realpath("/bin/sh")}
    assert {program(worker) for worker in alone} == {os.path.realpath(sys.executable)}
    status = json.loads(subprocess.run([TREADLE, "warm", "status", "--json"], env=workers.env, stdout=-1).stdout)
    assert [(one["pid"], one["for"]) for one in status] == [(parent, "workers")]

    below = len(table.descendants(parent))
    later[0].kill()
    until(lambda: len(table.descendants(parent)) < below)
    alone[0].kill()
    alone[0].communicate(timeout=60)
    assert workers.ask(one := workers.start()) == "hello" and program(one) == os.path.realpath(sys.executable)


def test_no_copy_is_made_for_workers_when_none_is_wanted(workers: Workers) -> None:
    workers.env["TREADLE_WARM"] = "0"
    assert [workers.ask(workers.start()) for _ in range(3)] == ["hello"] * 3
    assert workers.parents() == []


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("attach", []), ("attach", ["--detach"]), ("run", ["cat"]), ("ls", ["--watch"]), ("status", ["x", "--watch"])],
)
def test_what_shows_something_for_long_is_not_for_a_warm_parent(
    name: str, arguments: list[str], workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREADLE_WARM", "600")
    assert run_warm(name, arguments) is None and list(workers.home.iterdir()) == [workers.home / "s.toml"]


def test_without_a_warm_parent_one_runs_by_itself() -> None:
    assert run_once(["-p", "hi"]) is None and run_worker() is None
    assert run_warm("ls", []) is None and run_warm("run", ["--detach", "cat"]) is None
