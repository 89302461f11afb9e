"""`treadle warm`: runs and workers that start from a process that is there already, and are no different for it."""

import json
import os
import pty
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import pytest

from tests.installed import TREADLE
from tests.scripts import calls, says
from tests.terminal.support import alive, until
from tests.warm import kept_warm
from treadle.cli.warm import AGENT, PRELOAD
from treadle.io.process import table
from treadle.io.process import warm as warm_parents

WORKER = str(Path(sys.executable).with_name("treadle-worker"))
PATIENT = "from treadle.io.process import warm; warm.PATIENCE = {}; "
"""How long the one who asks waits for a copy; on a busy machine it may need more than the usual two seconds."""
TRACED = (sys.executable, "-X", "importtime", "-c", "from treadle.cli import main; main()")
SCRIPT = calls("bash", {"command": "pwd; date +%z; umask; nproc"}, when="surroundings") + says("hello", times="always")
SLOW = '[[reply]]\n[[reply.call]]\nname = "bash"\narguments = { command = "echo $$ > pid; exec sleep 300" }\n'


class Warm:
    """A person who has a warm parent."""

    def __init__(self, home: Path, here: Path) -> None:
        self.here = here
        self.env = {**os.environ, "TREADLE_WARM": "600", "TREADLE_HOME": str(home)}
        (here / "s.toml").write_text(SCRIPT)

    def do(self, *command: str, **more: object) -> subprocess.CompletedProcess[str]:
        more = {"stdin": subprocess.DEVNULL, "env": self.env, "cwd": self.here, **more}
        if "input" in more:
            del more["stdin"]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, **more)  # type: ignore[call-overload, no-any-return]

    @property
    def model(self) -> tuple[str, str]:
        return "--model", f"scripted:{self.here / 's.toml'}"

    def once(self, *words: str, **more: object) -> subprocess.CompletedProcess[str]:
        return self.do(TREADLE, "-p", *words, *self.model, **more)

    def traced(self, *words: str, patience: float = 50.0) -> subprocess.CompletedProcess[str]:
        """A run; what the process loads that a person started is on its stderr."""
        *python, code = TRACED
        return self.do(*python, PATIENT.format(patience) + code, "-p", *words, *self.model)

    def begin(self, *words: str, script: str) -> subprocess.Popen[str]:
        (self.here / "slow.toml").write_text(script)
        command = [TREADLE, "-p", "go", "--model", f"scripted:{self.here / 'slow.toml'}", *words]
        return subprocess.Popen(
            [*command, "--permission-mode", "bypassPermissions"],
            env=self.env, cwd=self.here, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    @cached_property
    def parent(self) -> int:
        (pid,) = warm_parents.parents(AGENT).values()
        return pid

    def copies(self) -> list[int]:
        return [process.pid for process in table.processes() if process.parent == self.parent]

    def only_copy(self) -> list[int]:
        """It by itself, or nothing while others of an earlier run still end."""
        found = self.copies()
        return found if len(found) == 1 else []

    def tool(self) -> int:
        """The number of the shell that a run of SLOW has started."""
        until(lambda: (self.here / "pid").exists() and (self.here / "pid").read_text().endswith("\n"))
        return int((self.here / "pid").read_text())


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with kept_warm(tmp_path_factory.mktemp("warm")) as place:
        yield place


@pytest.fixture
def warm(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Warm:
    """One warm parent is enough for all tests that leave it alive."""
    monkeypatch.setenv("TREADLE_HOME", str(home))
    monkeypatch.setenv("TREADLE_WARM", "600")
    warm_parents.begin(AGENT, PRELOAD, 600)
    return Warm(home, tmp_path)


def loaded(done: subprocess.CompletedProcess[str]) -> bool:
    """Whether the process that a person started had to load an agent."""
    return "treadle.agent.loop" in done.stderr


def test_a_run_starts_from_it_and_whoever_asked_loads_nothing(warm: Warm) -> None:
    done = warm.traced("hi")
    assert done.stdout == "hello\n" and not loaded(done)


def test_it_is_started_asked_about_and_ended_by_hand(warm: Warm) -> None:
    assert "warm already" in warm.do(TREADLE, "warm").stdout
    parent = warm.parent
    assert f"process {parent}" in warm.do(TREADLE, "warm", "status").stdout
    assert json.loads(warm.do(TREADLE, "warm", "stop", "--json").stdout) == {"ended": [parent]}
    until(lambda: not alive(parent))
    assert json.loads(warm.do(TREADLE, "warm", "status", "--json").stdout) == []
    done = warm.traced("hi")
    assert done.stdout == "hello\n" and loaded(done)
    off = warm.do(TREADLE, "warm", env={**warm.env, "TREADLE_WARM": "0"})
    assert off.returncode == 1 and "TREADLE_WARM=0" in off.stderr


def test_what_a_run_has_from_whoever_starts_it_is_the_same_as_without(warm: Warm) -> None:
    def on_one_core() -> None:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

    words = ["--output-format", "stream-json", "--verbose", "--permission-mode", "bypassPermissions"]
    seen = []
    for idle in ("600", "0"):
        env = {**warm.env, "TREADLE_WARM": idle, "TZ": "HERE-3"}
        done = warm.once("surroundings", *words, env=env, umask=0o027, preexec_fn=on_one_core)
        records = [json.loads(line) for line in done.stdout.splitlines()]
        (told,) = [record for record in records if record["type"] == "user"]
        seen.append(told["message"]["content"][0]["content"].split())
    assert seen[0] == seen[1] == [str(warm.here), "+0300", "0027", "1"]


def test_who_has_other_limits_does_not_get_those_of_the_warm_parent(warm: Warm) -> None:
    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))

    done = warm.do(*TRACED, "-p", "hi", *warm.model, preexec_fn=limited)
    assert done.stdout == "hello\n" and loaded(done)


def test_stdin_errors_and_exit_codes_are_those_of_whoever_starts_it(warm: Warm) -> None:
    assert warm.once(input="hi from a pipe").stdout == "hello\n"
    wrong = warm.do(TREADLE, "-p", "hi", "--model", "no-such:model")
    assert wrong.returncode == 1 and "no-such" in wrong.stderr and wrong.stdout == ""
    wrong = warm.once("hi", "--no-such-option")
    assert wrong.returncode == 1 and "no-such-option" in wrong.stderr


def test_a_terminal_of_whoever_starts_it_is_written_to(warm: Warm) -> None:
    leader, follower = pty.openpty()
    command = [TREADLE, "-p", "hi", *warm.model]
    try:
        done = subprocess.run(
            command, env=warm.env, cwd=warm.here, stdin=follower, stdout=follower, stderr=follower, timeout=60
        )
        assert done.returncode == 0 and b"hello" in os.read(leader, 4096)
    finally:
        os.close(leader)
        os.close(follower)


def test_a_signal_goes_to_the_run_and_its_partial_result_is_told(warm: Warm) -> None:
    run = warm.begin("--output-format", "json", script=SLOW)
    tool = warm.tool()
    run.send_signal(signal.SIGINT)
    said, _ = run.communicate(timeout=60)
    assert json.loads(said)["terminal_reason"] == "aborted_tools" and run.returncode == 0
    until(lambda: not alive(tool))


def test_a_run_that_is_stopped_stands_still_until_it_is_let_go_on(warm: Warm) -> None:
    until(lambda: not warm.copies())
    run = warm.begin(script=SLOW)
    try:
        warm.tool()
        (copy,) = until(warm.only_copy)
        run.send_signal(signal.SIGTSTP)
        until(lambda: state(copy) == "T" and state(run.pid) == "T")
        run.send_signal(signal.SIGCONT)
        until(lambda: state(copy) != "T")
    finally:
        run.terminate()
        run.send_signal(signal.SIGCONT)
        run.communicate(timeout=60)


def state(pid: int) -> str:
    found = table.look(pid)
    return found.state if found else ""


def test_when_whoever_started_it_is_killed_the_run_and_its_tools_end(warm: Warm) -> None:
    run = warm.begin(script=SLOW)
    tool = warm.tool()
    run.kill()
    run.communicate(timeout=60)
    until(lambda: not alive(tool))
    until(lambda: not warm.copies())


def test_a_run_goes_on_when_the_warm_parent_is_killed_and_the_next_starts_by_itself(warm: Warm) -> None:
    os.mkfifo(warm.here / "gate")
    run = warm.begin(script=SLOW.replace("exec sleep 300", "cat gate") + '[[reply]]\ntext = "done"\n')
    warm.tool()
    parent = warm.parent
    os.kill(parent, signal.SIGKILL)
    until(lambda: not alive(parent))
    (warm.here / "gate").write_text("go\n")
    assert run.communicate(timeout=60)[0] == "done\n" and run.returncode == 0
    done = warm.traced("hi")
    assert done.stdout == "hello\n" and loaded(done)


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


def test_two_at_once_are_two_runs(warm: Warm) -> None:
    out: list[str] = []
    threads = [threading.Thread(target=lambda: out.append(warm.once("hi").stdout)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert out == ["hello\n"] * 3


def test_no_key_of_whoever_asked_stays_in_the_warm_parent(warm: Warm) -> None:
    warm.env["ACME_API_KEY"] = "sk-very-secret-key-of-mine"
    assert warm.once("hi").stdout == "hello\n"
    assert Path(f"/proc/{warm.parent}/environ").read_bytes().strip(b"\0") == b""
    assert not holds(warm.parent, b"sk-very-secret")


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


def test_one_who_is_confined_is_not_set_free_by_it(warm: Warm) -> None:
    """With no_new_privs as every sandbox sets it; the copy would not have it."""
    confine = "import ctypes, os, sys; ctypes.CDLL(None).prctl(38, 1, 0, 0, 0); os.execv(sys.argv[1], sys.argv[1:])"
    done = warm.do(sys.executable, "-c", confine, *TRACED, "-p", "hi", *warm.model)
    assert done.stdout == "hello\n" and loaded(done)
