"""Processes without a reaper are asked to end, then killed, and reported."""

import signal
import subprocess
import time

import pytest

from treadle.io.process import registry, table

DEAF = "trap '' TERM HUP; (trap - TERM; exec sleep 61) & sleep 62 & echo ready; wait; wait"


def test_what_is_below_a_process_is_asked_and_then_killed_and_reported() -> None:
    child = subprocess.Popen(["sh", "-c", DEAF], stdout=subprocess.PIPE)
    assert child.stdout and child.stdout.readline() == b"ready\n"
    while [process.name for process in table.descendants(child.pid)] != ["sleep", "sleep"]:
        time.sleep(0.01)

    def find() -> list[table.Process]:
        child.poll()  # or it would stay as a zombie
        return registry.related(child.pid, "NO_SUCH=variable")

    ended, left = registry.end(find, 0.3)
    by = {(name, number) for _, name, number in ended}
    assert ("sleep", signal.SIGTERM) in by and ("sh", signal.SIGKILL) in by
    assert left == [] and child.wait(50) == -signal.SIGKILL
    child.stdout.close()


def test_one_that_left_the_tree_is_known_by_a_variable() -> None:
    child = subprocess.Popen(["sh", "-c", "setsid sleep 63 & echo $!; wait"], stdout=subprocess.PIPE)
    marked = subprocess.Popen(["sleep", "64"], env={"MARK": "strays", "PATH": "/usr/bin:/bin"})
    assert child.stdout and child.stdout.readline()
    found = {process.pid for process in registry.related(child.pid, "MARK=strays")}
    assert {child.pid, marked.pid} <= found
    assert marked.pid not in {process.pid for process in registry.related(child.pid, "MARK=strays", apart=marked.pid)}
    assert marked.pid not in {process.pid for process in registry.related(child.pid, "MARK=others")}

    def find() -> list[table.Process]:
        child.poll()
        marked.poll()
        return registry.related(child.pid, "MARK=strays")

    assert registry.end(find, 20.0)[1] == []
    child.stdout.close()


def test_with_nobody_there_it_is_over_at_once() -> None:
    assert registry.end(list, 60.0) == ([], [])


@pytest.mark.parametrize("child", [0, 1, -1])
def test_a_process_that_is_not_known_has_nobody_with_it(child: int) -> None:
    assert registry.related(child, "A=b") == []


def test_a_stopped_process_is_woken_so_that_it_ends_by_what_it_is_asked() -> None:
    with subprocess.Popen(["sleep", "63"]) as child:
        child.send_signal(signal.SIGSTOP)
        while (found := table.look(child.pid)) is None or found.state != "T":
            time.sleep(0.01)

        def find() -> list[table.Process]:
            child.poll()
            return registry.related(child.pid, "NO_SUCH=variable")

        ended, left = registry.end(find, 5.0)
    assert ended == [(child.pid, "sleep", signal.SIGTERM)] and left == []


def test_what_cannot_be_ended_is_left_after_a_while_and_one_can_be_set_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "PATIENCE", 0.05)
    with subprocess.Popen(["sleep", "64"], env={"MARK": "stray"}) as child:
        while not table.environment_has(child.pid, "MARK=stray"):
            time.sleep(0.01)
        assert [each.pid for each in registry.related(1 << 22, "MARK=stray")] == [child.pid]
        assert registry.related(1 << 22, "MARK=stray", apart=child.pid) == [] == registry.related(1, "MARK=stray")
        other = table.Process(child.pid, 1, 1, "S", 0, "stuck")  # of an earlier process: it is signalled by no one
        assert registry.end(lambda: [other], 0.0) == ([], [(child.pid, "stuck")])
        child.kill()
