"""Work that is handed to a warm parent, and that ends with who asked for it."""

import contextlib
import marshal
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.io.process.warmed import ASK, Warm
from tests.terminal.support import alive, until
from tests.waiting import stop
from treadle.io.process import table
from treadle.io.process import warm as warming
from treadle.io.process.warm import KILLED, START


def test_without_one_and_unless_told_to_start_it_nothing_is_done(warm: Warm) -> None:
    assert warm.ask("echo done").stdout == "None\n"
    assert warm.parents() == []


def test_whoever_asks_for_none_gets_none(warm: Warm) -> None:
    assert warm.ask("echo done", "start", seconds="0").stdout == "None\n"
    assert warm.parents() == []


def test_when_it_was_killed_the_next_starts_another(warm: Warm) -> None:
    assert warm.ask("true", "start").stdout == "0\n"
    (before,) = warm.parents()
    os.kill(before, signal.SIGKILL)
    until(lambda: not alive(before))
    assert warm.ask("true").stdout == "None\n"
    assert warm.ask("true", "start").stdout == "0\n"
    assert before not in warm.parents() and len(warm.parents()) == 1


def test_one_that_does_not_answer_is_not_waited_for_and_does_nothing_later(
    warm: Warm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert warm.ask("true", "start").stdout == "0\n"
    (pid,) = warm.parents()
    stop(pid)
    late = tmp_path / "late"
    monkeypatch.setenv("PATIENCE", "0.5")
    assert warm.ask(f"echo x > {late}").stdout == "None\n"
    monkeypatch.delenv("PATIENCE")
    os.kill(pid, signal.SIGCONT)
    assert warm.ask("true").stdout == "0\n"  # it is served after the other
    assert not late.exists()


def test_of_two_that_start_one_at_once_both_are_served(warm: Warm) -> None:
    env = {**os.environ, "TREADLE_WARM": "60", "PYTHONPATH": str(warm.source)}
    command = [sys.executable, "-c", ASK, "true", "start"]
    both = [subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [each.communicate(timeout=60)[0] for each in both] == ["0\n", "0\n"]
    until(lambda: len(warm.parents()) == 1)


def test_a_process_with_another_scheduling_policy_has_another_one(state_home: Path) -> None:
    asks = "import os, sys; os.sched_setscheduler(0, int(sys.argv[1]), os.sched_param(0)); "
    asks += "from treadle.io.process import warm; print(warm.address())"
    found = [
        subprocess.run([sys.executable, "-c", asks, str(policy)], check=True, capture_output=True, text=True).stdout
        for policy in (os.SCHED_OTHER, os.SCHED_BATCH, os.SCHED_OTHER)
    ]
    assert found[0] == found[2] != found[1]


class Answering:
    """A warm parent of our own, in a thread: it says that a copy is ready, and answers what a test says."""

    def __init__(self, path: str, ready: bytes, answer: bytes) -> None:
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen()
        self.ready, self.answer = ready, answer
        self.request: tuple[Any, ...] = ()
        self.given: list[os.stat_result] = []
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        control, _ = self.listener.accept()
        with control, contextlib.suppress(OSError):  # who asked may be gone
            if not self.ready:
                return
            control.send(self.ready)
            data, fds, _, _ = socket.recv_fds(control, 65536, 16)
            self.given = [os.fstat(fd) for fd in fds]
            for fd in fds:
                os.close(fd)
            while data and len(data) < 4 + int.from_bytes(data[:4], "big"):
                data += control.recv(1 << 20)
            self.request = marshal.loads(data[4:]) if data else ()
            control.send(self.answer)

    def end(self) -> None:
        self._thread.join(60)
        self.listener.close()


@pytest.fixture
def answering(state_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Answering]]:
    monkeypatch.setenv("TREADLE_WARM", "60")
    monkeypatch.setattr(warming, "PATIENCE", 60.0)
    made: list[Answering] = []

    def make(name: str = "", answer: bytes = b"", ready: bytes = warming.READY + (77).to_bytes(4, "big")) -> Answering:
        path = warming.address(name)
        Path(path).unlink(missing_ok=True)
        made.append(Answering(path, ready, answer))
        return made[-1]

    yield make
    for each in made:
        each.end()


Make = Callable[..., Answering]


@pytest.mark.parametrize(
    ("answer", "code", "says"),
    [(b"3\n", 3, ""), (b"0\n", 0, ""), (warming.STALE, None, ""), (b"", 1, KILLED)],
)
def test_the_answer_of_the_copy_is_the_exit_code(
    answering: Make, capsys: pytest.CaptureFixture[str], answer: bytes, code: int | None, says: str
) -> None:
    copy = answering(answer=answer)
    assert warming.run("os", "getpid", [1, "two"]) == code and capsys.readouterr().err == says
    copy.end()
    module, function, arguments, around, argv, bond = copy.request
    assert (module, function, arguments, argv, bond) == ("os", "getpid", [1, "two"], sys.argv, warming.WATCHED)
    assert around["pid"] == os.getpid() and around["env"] == dict(os.environ) and around["umask"] == 0o022
    assert set(around["cpus"]) == os.sched_getaffinity(0)
    expected = [os.stat("."), *(os.fstat(fd) for fd in (0, 1, 2))]
    assert [(each.st_dev, each.st_ino) for each in copy.given] == [(each.st_dev, each.st_ino) for each in expected]
    assert os.umask(0o022) == 0o022


def test_a_copy_that_is_tied_is_asked_for_as_such(answering: Make) -> None:
    copy = answering(answer=b"7")
    assert warming.run("os", "getpid", [], tied=True) == 7
    copy.end()
    assert copy.request[-1] == warming.TIED


def test_what_lives_on_gets_its_descriptors_and_no_stream_of_ours(answering: Make, tmp_path: Path) -> None:
    copy = answering("workers")
    with open(tmp_path / "file", "w") as file:
        assert warming.spawn("os", "getpid", [], [file.fileno()], name="workers")
        copy.end()
    null, own = os.stat(os.devnull).st_rdev, (tmp_path / "file").stat().st_ino
    assert [each.st_rdev for each in copy.given[1:4]] == [null] * 3 and copy.given[4].st_ino == own
    assert copy.request[-1] == warming.ALONE and copy.request[3]["env"] == dict(os.environ)
    beside = answering()
    assert warming.start_beside(warming.address(), "os", "getpid", ["x"], []) == 77
    beside.end()
    assert beside.request[:3] == ("os", "getpid", ["x"]) and beside.request[3]["env"] == {}
    assert warming.start_beside(f"{tmp_path}/none", "os", "getpid", [], []) == 0


def test_a_large_request_comes_whole(answering: Make) -> None:
    copy = answering(answer=b"0")
    assert warming.run("os", "getpid", ["x" * 3_000_000]) == 0
    copy.end()
    assert copy.request[2] == ["x" * 3_000_000]


def test_one_that_is_not_ready_or_not_wanted_does_nothing(answering: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    for ready in (b"x", b""):
        copy = answering(ready=ready)
        assert warming.run("os", "getpid", []) is None
        copy.end()
        assert copy.request == ()
    assert (
        not warming.spawn("os", "getpid", [], [], name="none") and warming.run("os", "getpid", [], name="none") is None
    )
    listening = socket.socket(socket.AF_UNIX)
    Path(warming.address()).unlink()
    listening.bind(warming.address())
    listening.listen()
    with listening:
        monkeypatch.setenv("TREADLE_WARM", "0")
        assert warming.run("os", "getpid", []) is None, "it is not even asked"
        monkeypatch.setenv("TREADLE_WARM", "60")
        monkeypatch.setattr(warming, "PATIENCE", 0.01)
        assert warming.run("os", "getpid", []) is None, "it does not answer"


@pytest.mark.parametrize(("value", "seconds"), [(None, 1800.0), ("5", 5.0), ("0", 0.0), ("-3", 0.0), ("soon", 1800.0)])
def test_how_long_an_idle_one_is_kept(monkeypatch: pytest.MonkeyPatch, value: str | None, seconds: float) -> None:
    monkeypatch.delenv("TREADLE_WARM")
    if value is not None:
        monkeypatch.setenv("TREADLE_WARM", value)
    assert warming.idle() == seconds


def test_each_name_and_each_kind_of_surroundings_has_its_own_address(
    state_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, named = warming.address(), warming.address("one")
    assert os.path.dirname(plain) == str(state_home / "treadle" / "warm") and plain == warming.address()
    assert os.path.basename(named).startswith("one-") and named.endswith(".sock") and "-" not in os.path.basename(plain)
    with monkeypatch.context() as patched:
        patched.setenv("PYTHONPATH", "/elsewhere")
        assert warming.address() != plain
    monkeypatch.setattr(warming, "PROC", str(tmp_path))
    (tmp_path / "self" / "ns").mkdir(parents=True)
    found = [(warming.address("one"), warming.address(warming.WORKERS))]
    for name in ("ns/mnt", "ns/net", "ns/pid", "ns/user"):
        (tmp_path / "self" / name).symlink_to(f"{name}:[1]")
        found.append((warming.address("one"), warming.address(warming.WORKERS)))
    for name in ("limits", "cgroup", "oom_score_adj"):
        (tmp_path / "self" / name).write_text(name)
        found.append((warming.address("one"), warming.address(warming.WORKERS)))
    assert len({workers for _, workers in found}) == 8, "their memory is charged to their group"
    assert len({one for one, _ in found}) == 6 and found[5][0] == found[7][0]


def test_the_third_of_its_kind_pays(state_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not warming.pays("x") and warming._counted == [], "there should be none"
    monkeypatch.setenv("TREADLE_WARM", "60")
    try:
        assert [warming.pays("x") for _ in range(4)] == [False, False, True, True] and len(
            warming._counted
        ) == warming.FEW
        assert not warming.pays("y")
        monkeypatch.setattr(sys, "platform", "plan9")
        assert not warming.pays("x")
    finally:
        for one in warming._counted:
            one.close()
        warming._counted.clear()


def test_those_of_a_name_are_found_and_sent_away(answering: Make, state_home: Path) -> None:
    copy, other = answering("one"), answering("other")
    path = warming.address("one")
    Path(f"{path}.starting").touch()
    (Path(path).parent / "one-dead.sock").touch()
    assert warming.parents("one") == {path: os.getpid()}
    copy.end()
    again = answering("one")
    received: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: received.append(number))
    try:
        assert warming.dismiss("one") == [os.getpid()]
        until(lambda: received == [signal.SIGTERM])
    finally:
        signal.signal(signal.SIGTERM, before)
    assert not os.path.exists(path)
    again.end()
    assert warming.run("os", "getpid", [], name="other") == 1
    other.end()


def test_signals_that_are_ignored_or_blocked_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (
        warming._numbers(0) == []
        and warming._numbers(0b1000000000000101) == [1, 3, 16]
        and warming._numbers(1 << 63) == [64]
    )
    before = signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGWINCH})
    try:
        found = warming._signals()
        assert signal.SIGUSR2 in found[0] and signal.SIGWINCH not in found[0] and found[1] == [signal.SIGWINCH]
        monkeypatch.setattr(warming, "PROC", str(tmp_path))
        for text in (None, ""):
            if text is not None:
                (tmp_path / "self").mkdir()
                (tmp_path / "self" / "status").write_text(text)
            other = warming._signals()
            assert signal.SIGUSR2 in other[0] and other[1] == [signal.SIGWINCH]
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        signal.signal(signal.SIGUSR2, before)


ASK_TIED = """
import os, signal, socket, sys
from treadle.io.process import warm
warm.SHELL = sys.argv[1]
for ignored in (signal.SIGUSR2, signal.SIGTSTP)[: 2 if sys.argv[4:] else 1]:
    signal.signal(ignored, signal.SIG_IGN)
if sys.argv[4:]:
    os.dup2(int(sys.argv[2]), 3, inheritable=False)
os._exit(warm.wait(socket.socket(fileno=3 if sys.argv[4:] else int(sys.argv[2])), int(sys.argv[3])))
"""

SHELLS = ["sh", "bash", "busybox", "no shell"]


class Waiting:
    """Someone who waits, with the test in place of the copy, and a `sleep` that has its pid."""

    def __init__(self, shell: str, *more: str) -> None:
        self.copy = subprocess.Popen(["sleep", "300"])
        self.control, theirs = socket.socketpair()
        self.control.settimeout(0.2)
        with theirs:
            words = [sys.executable, "-c", ASK_TIED, shell, str(theirs.fileno()), str(self.copy.pid), *more]
            self.process = subprocess.Popen(words, pass_fds=[theirs.fileno()], stderr=subprocess.PIPE, text=True)
        assert self.receive() == START

    def receive(self) -> bytes:
        """As the copy does: with an empty line from time to time."""
        for _ in range(300):
            try:
                return self.control.recv(1)
            except TimeoutError:
                self.control.send(b"\n")
        raise TimeoutError

    def close(self) -> None:
        self.control.close()
        for process in (self.process, self.copy):
            process.kill()
            process.communicate(timeout=60)


@pytest.fixture(params=SHELLS)
def waiting(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Waiting]:
    shell = tmp_path / "sh"
    if request.param != "no shell":
        found = shutil.which(request.param)
        if found is None:
            pytest.skip(f"{request.param} is not here")
        shell.symlink_to(found)
    one = Waiting(str(shell))
    yield one
    one.close()


def state(pid: int) -> str:
    found = table.look(pid)
    return found.state if found else ""


def test_the_exit_code_of_the_copy_is_its_own(waiting: Waiting) -> None:
    waiting.control.send(b"42\n")
    assert waiting.process.wait(60) == 42


def test_an_empty_line_does_not_end_it(waiting: Waiting) -> None:
    for line in (b"\n", b"\n\n", b"\n3", b"\n"):
        waiting.control.send(line)
    assert waiting.process.wait(60) == 3


def test_signals_are_passed_on_and_it_waits_on(waiting: Waiting) -> None:
    waiting.process.send_signal(signal.SIGUSR2)  # which it ignores
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGTERM):
        waiting.process.send_signal(number)
        assert waiting.receive() == bytes([number])
    waiting.control.send(b"0\n")
    assert waiting.process.wait(60) == 0


def test_it_dies_of_the_signal_that_the_copy_died_of(waiting: Waiting) -> None:
    waiting.process.send_signal(signal.SIGTERM)
    assert waiting.receive() == bytes([signal.SIGTERM])
    waiting.control.close()
    assert waiting.process.wait(60) == -signal.SIGTERM


def test_that_the_copy_was_killed_is_reported(waiting: Waiting) -> None:
    waiting.control.close()
    _, errors = waiting.process.communicate(timeout=60)
    assert (waiting.process.returncode, errors) == (1, KILLED)


def test_both_stop_and_go_on_together(waiting: Waiting) -> None:
    waiting.process.send_signal(signal.SIGTSTP)
    until(lambda: state(waiting.copy.pid) == "T" and state(waiting.process.pid) == "T")
    waiting.process.send_signal(signal.SIGCONT)
    until(lambda: state(waiting.copy.pid) != "T")
    waiting.control.send(b"7\n")
    assert waiting.process.wait(60) == 7


def test_no_variable_of_the_caller_stays_in_the_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_API_KEY", "sk-very-secret")
    one = Waiting("/bin/sh", "with its connection at the place that it has in the shell")
    try:
        one.process.send_signal(signal.SIGTSTP)
        one.process.send_signal(signal.SIGTERM)
        assert one.receive() == bytes([signal.SIGTERM]) and state(one.copy.pid) != "T"
        words = table.command_line(one.process.pid)
        assert words[2].startswith(f"# -c, waiting for process {one.copy.pid}, which does the work\n")
        assert b"sk-very-secret" not in Path(f"/proc/{one.process.pid}/environ").read_bytes()
        assert os.path.basename(os.readlink(f"/proc/{one.process.pid}/exe")) == Path("/bin/sh").resolve().name
    finally:
        one.close()


def test_without_a_shell_a_stop_that_is_ignored_stays_so(tmp_path: Path) -> None:
    one = Waiting(str(tmp_path / "none"), "3")
    try:
        one.process.send_signal(signal.SIGTSTP)
        one.process.send_signal(signal.SIGTERM)
        assert one.receive() == bytes([signal.SIGTERM]) and state(one.copy.pid) != "T"
    finally:
        one.close()
