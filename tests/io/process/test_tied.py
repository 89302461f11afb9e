"""A process that waits for a copy of the warm parent is a shell, passes signals on, and ends as the copy does."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.terminal.support import until
from treadle.io.process import table
from treadle.io.process.warm import KILLED, START

ASK = """
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
            words = [sys.executable, "-c", ASK, shell, str(theirs.fileno()), str(self.copy.pid), *more]
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
