"""Signals as bytes in a pipe, held back, and reset: each tried in a process of its own."""

import os
import signal
import subprocess
import sys

from tests.io.process.trees import SOURCES


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
