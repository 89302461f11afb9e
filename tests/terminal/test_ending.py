import os
import subprocess
import time

import pytest

from treadle.io.process import table
from treadle.terminal.ending import Ending, exit_code, members


def test_what_is_below_the_child_is_asked_and_then_killed_and_reported() -> None:
    command = "trap '' TERM HUP; (trap - TERM; exec sleep 61) & sleep 62 & echo ready; wait; wait"
    child = subprocess.Popen(["sh", "-c", command], stdout=subprocess.PIPE)
    assert child.stdout and child.stdout.readline() == b"ready\n"
    while [process.name for process in table.descendants(child.pid)] != ["sleep", "sleep"]:
        time.sleep(0.01)
    ending = Ending(child.pid, 0, 0.3, time.monotonic())
    assert len(members(0, child.pid)) >= 2
    deadline = time.monotonic() + 50
    while (again := ending.step(time.monotonic())) is not None and time.monotonic() < deadline:
        child.poll()  # or it would stay as a zombie, which counts as gone
        time.sleep(max(0.0, again - time.monotonic()))
    by = {(entry["name"], entry["by"]) for entry in ending.ended}
    assert ("sleep", "SIGTERM") in by and ("sh", "SIGKILL") in by
    assert ending.survivors == [] and child.wait(50) == -9
    child.stdout.close()


def test_with_nobody_there_it_is_over_at_once() -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    ending = Ending(child.pid, 0, 5.0, time.monotonic())
    assert ending.step(time.monotonic()) is None
    assert ending.ended == []


def test_asked_again_with_less_patience_the_earlier_time_counts() -> None:
    child = subprocess.Popen(
        ["sh", "-c", "trap '' TERM HUP; echo ready; while :; do sleep 0.05; done"], stdout=subprocess.PIPE
    )
    assert child.stdout and child.stdout.readline() == b"ready\n"
    now = time.monotonic()
    ending = Ending(child.pid, 0, 60.0, now)
    ending.sooner(now)
    while ending.step(time.monotonic()) is not None and time.monotonic() < now + 20:
        child.poll()
    assert child.wait(50) == -9
    child.stdout.close()


def test_an_exit_code_is_the_status_or_128_and_the_signal() -> None:
    for code, expected in ((["sh", "-c", "exit 5"], 5), (["sh", "-c", "kill -9 $$"], 137)):
        pid = os.spawnvp(os.P_NOWAIT, code[0], code)
        assert exit_code(os.waitpid(pid, 0)[1]) == expected


@pytest.mark.parametrize("child", [0, 1, -1])
def test_a_child_that_is_not_known_has_nobody_with_it(child: int) -> None:
    assert members(0, child) == []
