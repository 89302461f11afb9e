import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import treadle
from tests.terminal.support import until
from treadle.terminal.pty import Pty


def collect(terminal: Pty) -> bytes:
    data = b""
    deadline = time.monotonic() + 50
    while not terminal.hung_up and time.monotonic() < deadline:
        select.select([terminal.master], [], [], 1)
        data += terminal.read()
    return data


def test_a_program_runs_in_it_with_its_size_and_its_own_session() -> None:
    terminal = Pty(91, 17)
    report = terminal.spawn(["sh", "-c", "stty size; ps -o sid= -p $$"], {"PATH": os.environ["PATH"]}, "/")
    size, session = collect(terminal).split(b"\r\n")[:2]
    assert size == b"17 91" and int(session) == terminal.pid
    assert os.read(report, 100) == b""
    os.waitpid(terminal.pid, 0)
    os.close(report)
    os.close(terminal.master)


def test_a_program_that_cannot_be_run_says_why_here_and_on_the_terminal() -> None:
    terminal = Pty(80, 24)
    report = terminal.spawn(["/no/such/program"], {}, "/")
    assert b"No such file" in collect(terminal)
    assert b"No such file" in until(lambda: os.read(report, 1000))
    assert os.waitstatus_to_exitcode(os.waitpid(terminal.pid, 0)[1]) == 127
    os.close(report)
    os.close(terminal.master)


def test_input_waits_its_turn_when_the_program_does_not_read() -> None:
    terminal = Pty(80, 24)
    report = terminal.spawn(["sh", "-c", "stty raw -echo; echo ready; sleep 60"], dict(os.environ), "/")
    until(lambda: b"ready" in terminal.read() or select.select([terminal.master], [], [], 0.1) and False)
    terminal.queue(b"x" * 300_000)
    terminal.flush()
    assert 0 < terminal.input_queued < 300_000
    assert not terminal.canonical
    os.kill(terminal.pid, 9)
    os.waitpid(terminal.pid, 0)
    terminal.drop_input()
    assert terminal.input_queued == 0
    os.close(report)
    os.close(terminal.master)


EARLY = """
import os, sys
sys.path.insert(0, sys.argv[1])
from treadle.io.process import signals
from treadle.terminal.pty import Pty
signals = signals.pipe((15,))
os.register_at_fork(after_in_child=lambda: os.kill(os.getpid(), 15))
terminal = Pty(80, 24)
terminal.spawn(["sleep", "10"], os.environ, "/")
print(os.waitstatus_to_exitcode(os.waitpid(terminal.pid, 0)[1]))
try:
    print("told of", os.read(signals, 9))
except BlockingIOError:
    print("told of nothing")
"""


def test_a_signal_between_fork_and_exec_is_the_programs_alone() -> None:
    source = str(Path(treadle.__file__).parents[1])
    command = [sys.executable, "-I", "-S", "-c", EARLY, source]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50)
    assert done.stdout.splitlines() == [f"-{int(signal.SIGTERM)}", "told of nothing"], done.stderr
