"""Commands and workers that a warm parent runs, as who starts them sees it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.scripts import calls, says
from tests.terminal.support import alive, until
from treadle.cli.warm import run_warm, run_worker
from treadle.io.process import table
from treadle.io.process import warm as warm_parents

BE_WORKER = (
    "from treadle.io.process import warm; warm.PATIENCE = warm.START_PATIENCE = 50; "
    "import sys; sys.argv = sys.argv[:1]; from treadle.cli.worker_entry import main; main()"
)
"""A busy machine may need more than the usual seconds to make a copy."""
SCRIPT = calls("bash", {"command": "echo $$ > pid; cat gate"}, when="wait") + says("hello", times="always")
CONFINE = "ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)"
"""Sets no_new_privs, as every sandbox does."""
LIMIT = "resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))"


class Workers:
    """Workers that are started one after the other, with no warm parent to begin with."""

    def __init__(self, home: Path) -> None:
        self.home = home
        (home / "s.toml").write_text(SCRIPT)
        self.env = {**os.environ, "TREADLE_WARM": "600", "TREADLE_HOME": str(home)}
        self.started: list[subprocess.Popen[str]] = []

    def start(self, *before: str) -> subprocess.Popen[str]:
        words = [*before, sys.executable, "-c", BE_WORKER]
        worker = subprocess.Popen(
            words, env=self.env, cwd=self.home, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.started.append(worker)
        return worker

    def ask(self, worker: subprocess.Popen[str]) -> str:
        """Have it do a turn; what it said."""
        self.send(worker, "hi")
        return self.result(worker)

    def send(self, worker: subprocess.Popen[str], message: str) -> None:
        assert worker.stdin is not None
        config = {"model": f"scripted:{self.home / 's.toml'}", "system_prompt": "", "tools": ["bash"]}
        for line in ({"type": "init", "id": "1", "config": config}, {"type": "send", "id": "2", "message": message}):
            worker.stdin.write(json.dumps(line) + "\n")
        worker.stdin.flush()

    def result(self, worker: subprocess.Popen[str]) -> str:
        assert worker.stdout is not None
        answer: dict[str, Any] = {}
        while answer.get("type") != "result":
            answer = json.loads(worker.stdout.readline())
        return str(answer["response"])

    def tool(self, worker: subprocess.Popen[str]) -> int:
        """The shell of a command that the worker has begun and that waits at the gate."""
        os.mkfifo(self.home / "gate")
        self.send(worker, "wait")
        written = self.home / "pid"
        until(lambda: written.exists() and written.read_text().endswith("\n"))
        return int(written.read_text())

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


@pytest.fixture
def copied(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workers]:
    """Workers that are copies from the first on: this process counts as those that run by themselves."""
    monkeypatch.setenv("TREADLE_WARM", "600")
    assert [warm_parents.pays(warm_parents.WORKERS) for _ in range(warm_parents.FEW)] == [False] * warm_parents.FEW
    yield workers
    for one in warm_parents._counted:
        one.close()
    warm_parents._counted.clear()


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
    below = len(table.descendants(parent))
    later[0].kill()
    until(lambda: len(table.descendants(parent)) < below)
    alone[0].kill()
    alone[0].communicate(timeout=60)
    assert workers.ask(one := workers.start()) == "hello" and program(one) == os.path.realpath(sys.executable)


def test_the_commands_of_a_copy_end_with_whoever_started_it(copied: Workers) -> None:
    worker = copied.start()
    tool = copied.tool(worker)
    (parent,) = copied.parents()
    copies = {found.pid: found.name for found in table.processes() if found.parent == parent}
    assert len(copies) == 2 and "treadle-keeper" in copies.values(), "the keeper of its commands is a copy, too"
    (keeper,) = [pid for pid, name in copies.items() if name == "treadle-keeper"]
    assert tool in [found.pid for found in table.descendants(keeper)]
    worker.kill()
    worker.communicate(timeout=60)
    until(lambda: not any(map(alive, [tool, *copies])))


def test_a_copy_goes_on_when_the_warm_parent_is_killed_and_the_next_is_one_of_another(copied: Workers) -> None:
    worker = copied.start()
    copied.tool(worker)
    (parent,) = copied.parents()
    os.kill(parent, signal.SIGKILL)
    until(lambda: not alive(parent))
    (copied.home / "gate").write_text("go\n")
    assert copied.result(worker) == "hello"
    assert copied.ask(copied.start()) == "hello" and copied.parents() not in ([], [parent])


def test_no_key_of_whoever_asked_stays_in_the_warm_parent(copied: Workers) -> None:
    copied.env["ACME_API_KEY"] = "sk-very-secret-key-of-mine"
    assert copied.ask(copied.start()) == "hello"
    (parent,) = copied.parents()
    assert Path(f"/proc/{parent}/environ").read_bytes().strip(b"\0") == b""
    assert not holds(parent, b"sk-very-secret")


def holds(pid: int, word: bytes) -> bool:
    """Whether a process has this word anywhere in the memory that it can write to."""
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            span, mode = line.split()[:2]
            if mode.startswith("rw"):
                start, end = (int(edge, 16) for edge in span.split("-"))
                memory.seek(start)
                if word in memory.read(end - start):
                    return True
    return False


@pytest.mark.parametrize("bind", [CONFINE, LIMIT])
def test_who_is_confined_or_has_other_limits_is_no_copy(bind: str, copied: Workers) -> None:
    assert copied.ask(free := copied.start()) == "hello" and program(free) == os.path.realpath("/bin/sh")
    code = f"import ctypes, os, resource, sys; {bind}; os.execv(sys.argv[1], sys.argv[1:])"
    assert copied.ask(bound := copied.start(sys.executable, "-c", code)) == "hello"
    assert program(bound) == os.path.realpath(sys.executable)


def test_no_copy_is_made_for_workers_when_none_is_wanted(workers: Workers) -> None:
    workers.env["TREADLE_WARM"] = "0"
    assert [workers.ask(workers.start()) for _ in range(3)] == ["hello"] * 3
    assert workers.parents() == []


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        *(
            ("attach", []),
            ("attach", ["--detach"]),
            ("run", ["cat"]),
            ("ls", ["--watch"]),
            ("status", ["x", "--watch"]),
        ),
        ("run", ["--worktree", "--detach", "cat"]),
    ],
)
def test_what_shows_something_for_long_or_makes_a_worktree_is_not_for_a_warm_parent(
    name: str, arguments: list[str], workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREADLE_WARM", "600")
    assert run_warm(name, arguments) is None and list(workers.home.iterdir()) == [workers.home / "s.toml"]


def test_without_a_warm_parent_one_runs_by_itself() -> None:
    assert run_worker() is None
    assert run_warm("ls", []) is None and run_warm("run", ["--detach", "cat"]) is None
