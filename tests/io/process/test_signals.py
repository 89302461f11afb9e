"""Signals that end a process, and the title that it shows."""

import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.io.process.trees import SOURCES
from treadle.io.process import signals
from treadle.io.process.table import HAS_PROC


def printed(code: str) -> list[str]:
    program = "import os, signal, subprocess, sys\nfrom treadle.io.process import signals\n" + code
    env = {**os.environ, "PYTHONPATH": SOURCES}
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=env
    ).stdout.split()


def test_each_signal_that_arrives_is_a_byte_with_its_number() -> None:
    code = """
fd = signals.pipe((signal.SIGTERM, signal.SIGUSR1))
print(list(signals.drain(fd)))
os.kill(os.getpid(), signal.SIGUSR1)
os.kill(os.getpid(), signal.SIGTERM)
print(*signals.drain(fd))
"""
    assert printed(code) == ["[]", str(int(signal.SIGUSR1)), str(int(signal.SIGTERM))]


def test_held_signals_wait_and_are_delivered_when_released() -> None:
    code = """
fd = signals.pipe((signal.SIGTERM,))
signals.hold()
os.kill(os.getpid(), signal.SIGTERM)
print(len(signals.drain(fd)))
signals.release()
print(*signals.drain(fd))
"""
    assert printed(code) == ["0", str(int(signal.SIGTERM))]


def test_after_a_reset_a_program_finds_signals_as_it_expects_them() -> None:
    code = """
signals.pipe((signal.SIGTERM,))
signal.signal(signal.SIGHUP, signal.SIG_IGN)
signals.hold()
signals.reset()
print(*(signal.getsignal(each) == signal.SIG_DFL for each in (signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE)))
print(len(signal.pthread_sigmask(signal.SIG_BLOCK, ())), signal.set_wakeup_fd(-1))
"""
    assert printed(code) == ["True", "True", "True", "0", "-1"]


CODE = """
from treadle.io.process.signals import set_title
print(set_title({!r}))
print(open("/proc/self/cmdline").read())
"""


@pytest.mark.skipif(not HAS_PROC, reason="needs /proc")
@pytest.mark.parametrize("text", ["treadle: terminal a1", "", "long " * 2000])
def test_ps_shows_the_title_as_far_as_it_fits(text: str) -> None:
    command = [sys.executable, "-c", CODE.format(text)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3])
    said, shown = done.stdout.rstrip("\n").split("\n")
    room = sum(len(word) + 1 for word in command) - 1
    assert said == "True" and shown.rstrip("\0") == text[:room].rstrip("\0")


@pytest.mark.parametrize(
    "fields", ["0 " * 60, "0 " * 45 + "7 8" + " 0" * 10, "0 " * 10, "x " * 60, "0 " * 45 + "0 9" + " 0" * 10]
)
def test_where_there_is_no_room_or_the_kernel_says_something_else_nothing_is_written(
    fields: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = io.BytesIO(f"1 (python (x)) {fields}".encode())
    with monkeypatch.context() as patched:
        patched.setattr("builtins.open", lambda path, mode: shown)
        assert signals.set_title("treadle") is False
