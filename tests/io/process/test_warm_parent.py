"""The warm parent: what its copies have of who asks, and when it lets go."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import treadle
from tests.io.process.warmed import Warm
from tests.terminal.support import alive, until
from treadle.io.process import table, warm_parent


def test_what_is_asked_is_done_with_the_surroundings_of_who_asks(warm: Warm, tmp_path: Path) -> None:
    done = warm.ask("pwd; echo $TOLD; umask; cat; exit 3", "start", cwd=tmp_path, umask=0o027, input="typed\n")
    assert done.stdout.split("\n") == [str(tmp_path), "by me", "0027", "typed", "3", ""]
    again = warm.ask("echo more; echo wrong >&2", cwd="/")
    assert again.stdout == "more\n0\n" and again.stderr == "wrong\n"
    assert len(warm.parents()) == 1


def test_it_lets_go_when_its_socket_is_removed_and_nobody_has_asked(warm: Warm) -> None:
    # On a busy machine it may have ended before it was asked: then the next call starts another.
    until(lambda: warm.ask("true", "start", seconds="0.5").stdout == "0\n")
    until(lambda: warm.parents() == [])
    assert list((warm.home / "treadle" / "warm").glob("*.sock")) == []


def test_it_leaves_when_a_file_it_has_loaded_was_changed(warm: Warm, tmp_path: Path) -> None:
    shutil.copytree(Path(treadle.__file__).parent, tmp_path / "src" / "treadle")
    warm.source = tmp_path / "src"
    assert warm.ask("true", "start").stdout == "0\n"
    (before,) = warm.parents()
    os.utime(warm.source / "treadle" / "io" / "process" / "warm.py", (1, 1))
    assert warm.ask("true").stdout == "None\n"
    until(lambda: not alive(before))


SPAWN = """
import sys
from concurrent.futures import ThreadPoolExecutor
from treadle.io.process import warm
warm.PATIENCE = 50
warm.run("subprocess", "call", [["true"]], start=["subprocess"])
print(sum(warm.spawn("subprocess", "call", [["sh", "-c", f"echo x >> {sys.argv[1]}"]], []) for _ in range(30)))
"""


def test_what_lives_on_by_itself_is_started_exactly_once(warm: Warm, tmp_path: Path) -> None:
    env = {**os.environ, "TREADLE_WARM": "60", "PYTHONPATH": str(warm.source)}
    command = [sys.executable, "-c", SPAWN, str(tmp_path / "lines")]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
    assert done.stdout == "30\n", done.stderr
    until(lambda: (tmp_path / "lines").read_text() == "x\n" * 30)


TIED = """
import os, sys, time
from treadle.io.process import tied, warm
warm.PATIENCE = 50
arguments = [f"echo begun >> {sys.argv[1]}; kill -STOP $$"]
control, copy = warm._connect_to_copy("os", "system", arguments, [0, 1, 2], warm.TIED, start=["os"])
print(copy, flush=True)
if sys.argv[2:]:
    control.send(tied.START)
sys.stdin.readline()
os._exit(0)  # with what the copy has sent unread
"""


@pytest.mark.parametrize("passes_signals_on", [True, False])
def test_a_copy_that_is_tied_begins_when_signals_are_passed_on_and_ends_with_its_caller(
    warm: Warm, tmp_path: Path, passes_signals_on: bool
) -> None:
    env = {**os.environ, "TREADLE_WARM": "60", "PYTHONPATH": str(warm.source)}
    begun = tmp_path / "begun"
    command = [sys.executable, "-c", TIED, str(begun), *(["start"] if passes_signals_on else [])]
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as caller:
        assert caller.stdin is not None and caller.stdout is not None
        copy = int(caller.stdout.readline())
        if passes_signals_on:
            until(begun.exists)
        caller.stdin.close()
    until(lambda: not alive(copy))
    assert begun.exists() == passes_signals_on
    for process in table.processes():
        if process.state == "T" and str(begun) in " ".join(table.command_line(process.pid)):
            os.kill(process.pid, signal.SIGKILL)


def test_a_copy_sends_an_empty_line_while_its_caller_says_nothing() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, ThreadPoolExecutor() as pool:
        ours.settimeout(0.01)
        received = pool.submit(warm_parent._receive_some, ours)
        assert theirs.recv(1) == b"\n"
        theirs.send(b"\x0f")
        assert received.result(60) == b"\x0f"
        theirs.close()
        assert warm_parent._receive_some(ours) == b""
