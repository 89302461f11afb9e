"""The keeper itself: alone in its session, small, gone with its owner. What it does for trees is in `test_tree.py`."""

import os
import select
import signal
import subprocess
import sys

import pytest

from tests.io.process.hostile import await_none_left
from tests.io.process.trees import hostile, owner
from tests.terminal.support import until


def test_the_keeper_leads_a_session_of_its_own_and_holds_nothing_of_ours(mark: str) -> None:
    held = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(held, True)
    code = "from treadle.io.process import handle, tree; tree.spawn(['true']).stop(); print(handle.own.pid, flush=True)"
    code += "; input()"
    argv = [sys.executable, "-c", code]
    try:
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, close_fds=False) as process:
            assert process.stdout is not None
            keeper = int(process.stdout.readline())
            assert os.getsid(keeper) == keeper
            targets = [os.readlink(f"/proc/{keeper}/fd/{name}") for name in os.listdir(f"/proc/{keeper}/fd")]
            known = ("socket:", "pipe:", "anon_inode:", "/dev/null")
            others = [target for target in targets if not target.startswith(known)]
            assert [
                target for target in others if "/libffi.so" not in target
            ] == []  # newer ones keep their own file open
            assert targets.count("/dev/null") == 3
            process.communicate(b"\n")
    finally:
        os.close(held)


def test_a_keeper_that_is_asked_to_end_ends_its_trees_first(mark: str) -> None:
    process, keeper = owner("daemon", "deaf", "chain")
    handle = os.pidfd_open(keeper)
    os.kill(keeper, signal.SIGTERM)
    assert select.select([handle], [], [], 60)[0]
    os.close(handle)
    process.kill()
    process.communicate()
    assert await_none_left(mark) == []


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGHUP])
def test_signals_to_the_owners_group_do_not_reach_the_keeper(signum: int, mark: str) -> None:
    process, keeper = owner("deaf")
    os.killpg(process.pid, signum)
    process.communicate()
    assert await_none_left(mark) == []  # so it survived long enough to do its work


def test_a_killed_reaper_costs_other_trees_nothing(mark: str) -> None:
    first, second = hostile("daemon", "chain"), hostile("daemon")
    # The command and its daemon: the daemon's parent exits by itself, and must not be counted as killed.
    until(lambda: len(second.processes()) == 2, "the daemon's parent to be gone")
    before = {each.pid for each in second.processes()}
    os.kill(first.reaper, signal.SIGKILL)
    first.stop()
    assert {each.pid for each in second.processes()} == before
    second.stop(0)
