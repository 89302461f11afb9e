import os
import select
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.terminal.support import until
from treadle.terminal.pty import Pty


@contextmanager
def running(cols: int, rows: int, script: str) -> Iterator[Pty]:
    """A pty with a shell script in it."""
    terminal = Pty(cols, rows)
    child = subprocess.Popen(["sh", "-c", script], stdin=terminal.slave, stdout=terminal.slave, stderr=terminal.slave)
    os.close(terminal.slave)
    try:
        yield terminal
    finally:
        child.kill()
        child.wait()
        os.close(terminal.master)


def collect(terminal: Pty) -> bytes:
    data = b""
    deadline = time.monotonic() + 50
    while not terminal.hung_up and time.monotonic() < deadline:
        select.select([terminal.master], [], [], 1)
        data += terminal.read()
    return data


def test_it_has_its_size_and_tells_when_everybody_has_closed_it() -> None:
    with running(91, 17, "stty size") as terminal:
        assert collect(terminal) == b"17 91\r\n"
        assert terminal.hung_up


def test_input_waits_its_turn_when_the_program_does_not_read() -> None:
    with running(80, 24, "stty raw -echo; echo ready; sleep 60") as terminal:
        until(lambda: b"ready" in terminal.read() or select.select([terminal.master], [], [], 0.1) and False)
        assert terminal.type(b"x" * 300_000)
        assert 0 < (queued := terminal.input_queued) < 300_000
        assert terminal.type(b"y") and terminal.input_queued == queued + 1, "it waits behind what came before"
        terminal.flush()
        assert 0 < terminal.input_queued <= queued + 1, "the kernel takes a little more now and then"
        assert not terminal.canonical
        terminal.drop_input()
        assert terminal.input_queued == 0


def test_a_key_is_typed_at_once_when_nothing_waits_before_it() -> None:
    with running(80, 24, "stty raw -echo; echo ready; head -c 1") as terminal:
        until(lambda: b"ready" in terminal.read() or select.select([terminal.master], [], [], 0.1) and False)
        assert not terminal.type(b"k") and terminal.input_queued == 0
        assert collect(terminal).endswith(b"k")
        assert not terminal.type(b"k") and terminal.input_queued == 0, "there is nobody left to read it"
