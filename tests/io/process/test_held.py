"""A process that is its own keeper: it forks its reaper early, and gives it a command on a terminal later."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import treadle
from tests.io.process.hostile import await_none_left
from tests.terminal.support import until

KEEPER = """
import os, pty, sys, time
from treadle.io.process import held
waiting = held.fork_reaper()
master, slave = os.openpty()
file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
tree = waiting.start(
    ["sh", "-c", sys.argv[2]], env=dict(os.environ), cwd="/", terminal=slave, inherited=[file],
    afterwards=["/bin/sh", "-c", 'echo "killed: $1" >&3', "sh"],
)
os.close(slave)
def run(what):
    exec(what)
run(sys.argv[3])
"""


def keep(tmp_path: Path, script: str, act: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(Path(treadle.__file__).parents[1])}
    command = [sys.executable, "-c", KEEPER, str(tmp_path / "after"), script, act]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)


def test_the_command_has_the_terminal_and_its_end_is_told(tmp_path: Path, mark: str) -> None:
    done = keep(tmp_path, "tty; exit 5", "print(os.read(master, 99)[:8], tree.wait(50), tree.stop().left)")
    assert done.stdout == "b'/dev/pts' 5 []\n", done.stderr
    assert (tmp_path / "after").read_text() == ""


def test_when_the_keeper_is_killed_its_tree_is_ended_and_then_the_program_runs_that_comes_afterwards(
    tmp_path: Path, mark: str
) -> None:
    deaf = "trap '' TERM HUP; echo up; while :; do sleep 1; done"
    done = keep(tmp_path, deaf, "os.read(master, 99); os.kill(os.getpid(), 9)")
    assert done.returncode == -signal.SIGKILL
    assert await_none_left(mark) == []
    deadline = time.monotonic() + 50
    while not (tmp_path / "after").read_text() and time.monotonic() < deadline:
        time.sleep(0.01)
    word, pids = (tmp_path / "after").read_text().split(" ")
    assert word == "killed:" and all(part.isdigit() for part in pids.strip().split(","))


@pytest.mark.parametrize("turn", range(5))
def test_what_comes_afterwards_runs_when_the_tree_ends_before_its_killed_keeper_has_quite_ended(
    turn: int, tmp_path: Path, mark: str
) -> None:
    many = "[os.pipe() for _ in range(200)]"  # the terminal hangs up while the keeper still has to close all of these
    act = f"tree.await_started(); before = {many}; high = os.dup(master); os.close(master); after = {many}"
    assert keep(tmp_path, "exec cat", f"{act}; os.kill(os.getpid(), 9)").returncode == -signal.SIGKILL
    until(lambda: (tmp_path / "after").read_text().startswith("killed:"))


def test_a_tree_can_be_left_alone(tmp_path: Path, mark: str) -> None:
    act = "tree.await_started(); tree.leave(); os.waitpid(tree.reaper, 0); os.kill(tree.pid, 0); os.kill(tree.pid, 9)"
    done = keep(tmp_path, "trap '' HUP; exec sleep 60", f"{act}; print(os.waitpid(tree.pid, 0)[1])")
    assert done.stdout == "9\n", done.stderr


def test_an_order_that_comes_together_with_the_command_is_obeyed(tmp_path: Path, mark: str) -> None:
    done = keep(tmp_path, "sleep 60", "tree.ask_stop(0); print(tree.wait(50))")
    assert done.stdout == "-9\n", done.stderr


def test_a_group_can_be_signalled(tmp_path: Path, mark: str) -> None:
    act = "os.read(master, 9); tree.signal(15, group=True); print(tree.wait(50)); tree.stop()"
    done = keep(tmp_path, "sleep 60 & echo up; wait", act)
    assert done.stdout == "-15\n", done.stderr


def test_a_reaper_that_never_gets_a_command_ends_with_its_keeper(tmp_path: Path, mark: str) -> None:
    code = "from treadle.io.process import held; print(held.fork_reaper().pid)"
    env = {**os.environ, "PYTHONPATH": str(Path(treadle.__file__).parents[1])}
    subprocess.run([sys.executable, "-c", code], env=env, check=True, timeout=60, stdout=subprocess.DEVNULL)
    assert await_none_left(mark) == []
