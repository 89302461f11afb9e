import os
import select
import subprocess
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.terminal.support import until
from treadle.terminal.pty import Pty, run_in_background


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


def test_what_the_program_has_set_and_who_is_in_front_is_known_until_it_is_closed() -> None:
    terminal = Pty(80, 24)
    assert terminal.canonical and terminal.foreground == 0 and terminal.read() == b"" and not terminal.hung_up
    tty.setraw(terminal.slave)
    assert not terminal.canonical
    terminal.resize(91, 17)
    assert os.get_terminal_size(terminal.slave) == (91, 17)
    os.write(terminal.slave, b"x" * 3000)
    data = b""
    while len(data) < 3000:
        data += terminal.read(1000)
    assert data == b"x" * 3000
    os.close(terminal.slave)
    assert terminal.read() == b"" and terminal.hung_up
    os.close(terminal.master)
    assert not terminal.canonical and terminal.foreground == 0
    terminal.resize(1, 1)  # it is no error any more


def test_queued_input_is_written_in_order_as_the_program_reads() -> None:
    terminal = Pty(80, 24)
    tty.setraw(terminal.slave)
    os.set_blocking(terminal.slave, False)
    assert terminal.type(b"a" * 100_000) and terminal.type(b"z")
    got = b""
    deadline = time.monotonic() + 50
    while len(got) < 100_001 and time.monotonic() < deadline:
        try:
            got += os.read(terminal.slave, 65536)
        except BlockingIOError:
            pass
        terminal.flush()
    assert got == b"a" * 100_000 + b"z" and terminal.input_queued == 0
    terminal.flush()
    for fd in (terminal.slave, terminal.master):
        os.close(fd)
    assert not terminal.type(b"x"), "there is nobody left"


def test_a_command_in_the_background_has_its_environment_and_no_one_waits_for_it(tmp_path: Path) -> None:
    command = f"echo \"$WORD\" $(cut -d' ' -f6 /proc/self/stat) > {tmp_path}/told"
    pid = run_in_background(command, {"WORD": "hi", "PATH": os.environ["PATH"]})
    assert os.waitpid(pid, 0) == (pid, 0)
    until(lambda: (tmp_path / "told").exists() and (tmp_path / "told").read_text() == f"hi {pid}\n")
    assert pid != os.getsid(0), "it has a session of its own"
