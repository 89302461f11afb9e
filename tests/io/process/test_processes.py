"""Processes are read as they are, a signal hits the one that was meant, and trees that nobody keeps are found."""

import errno
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.descriptors import opened
from tests.io.process.trees import hostile, owner
from tests.terminal.support import until
from treadle.io import paths
from treadle.io.process import registry, table, tree
from treadle.io.process.reaper import leave_note
from treadle.io.process.registry import keeper_trees
from treadle.io.process.tree import own


def test_a_name_with_brackets_and_spaces_does_not_confuse() -> None:
    code = (
        "import ctypes, sys; ctypes.CDLL(None).prctl(15, b'a) R 1 (b', 0, 0, 0); print(1, flush=True); sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdin is not None
        process.stdout.readline()
        found = table.look(process.pid)
        assert found is not None and (found.name, found.parent) == ("a) R 1 (b", os.getpid())
        process.communicate(b"\n")


def test_only_the_process_that_began_then_lives_and_a_zombie_does_not() -> None:
    with subprocess.Popen(["sleep", "100"]) as process:
        start = table.start_time(process.pid)
        assert table.lives(process.pid, start) and not table.lives(process.pid, start - 1)
        process.kill()
        until(lambda: (found := table.look(process.pid)) is not None and found.state == "Z")
        assert not table.lives(process.pid, start)
    assert not table.lives(process.pid, start)


@given(st.lists(st.tuples(st.integers(1, 12), st.integers(0, 12)), max_size=12, unique_by=lambda pair: pair[0]))
def test_any_table_gives_each_descendant_once(pairs: list[tuple[int, int]]) -> None:
    parents = {pid: parent for pid, parent in pairs if parent < pid}  # as in the kernel: no circles
    running = [table.Process(pid, parent, 1, "S", 0, "") for pid, parent in parents.items()]

    def under(pid: int) -> bool:
        while pid in parents:
            pid = parents[pid]
            if pid == 1:
                return True
        return False

    assert sorted(each.pid for each in table.descendants(1, running)) == sorted(pid for pid in parents if under(pid))


def test_a_signal_we_may_not_send_is_reported_as_not_sent() -> None:
    code = "import os; from treadle.io.process import table; os.geteuid() or os.setuid(65534); init = table.look(1); "
    code += "print(bool(init) and table.send(init, 0))"
    assert subprocess.check_output([sys.executable, "-c", code]) == b"False\n"


def test_an_exact_process_is_signalled_with_or_without_a_handle_of_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    before = opened()
    for number in (None, errno.ENOSYS, errno.EPERM):
        with subprocess.Popen(["sleep", "60"]) as child:
            found = table.look(child.pid)
            assert found is not None
            earlier = table.Process(child.pid, found.parent, found.start - 1, "S", 0, "sleep")
            assert not table.send(earlier, signal.SIGKILL)
            if number is not None:

                def refused(pid: int, number: int = number) -> int:
                    raise OSError(number, "no")

                monkeypatch.setattr(os, "pidfd_open", refused)
            assert child.poll() is None and table.send(found, signal.SIGKILL) and child.wait(60) == -signal.SIGKILL
            assert not table.send(found, signal.SIGKILL), "it is gone"
        monkeypatch.undo()
    assert opened() == before


def test_what_a_process_is_and_has_is_read_from_the_kernel() -> None:
    with subprocess.Popen(["sleep", "61"], env={"MARK": "here", "OTHER": "x"}) as child:
        until(lambda: table.command_line(child.pid) == ["sleep", "61"])
        assert table.environment_has(child.pid, "MARK=here") and not table.environment_has(child.pid, "MARK=her")
        assert child.pid in table.children() and table.lives(child.pid, table.start_time(child.pid))
        assert [each.pid for each in table.descendants(os.getpid()) if each.name == "sleep"] == [child.pid]
        assert not [each for each in table.descendants(os.getpid(), apart={child.pid}) if each.name == "sleep"]
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert child.pid in table.children() and table.command_line(child.pid) == []
        assert child.pid not in [each.pid for each in table.descendants(os.getpid())]
    gone = child.pid
    assert table.start_time(gone) == 0 and not table.environment_has(gone, "MARK=here")
    assert table.command_line(gone) == [] and table.look(gone) is None


def notes() -> Path:
    return Path(paths.private_dir(os.path.join(paths.state_dir(), "keepers")))


def note(pid: int, *command: str) -> Path:
    """The note of a tree whose command, reaper and keeper are one process."""
    path = notes() / str(pid)
    assert leave_note(os.fsencode(path), 1, pid, pid, pid, map(os.fsencode, command))
    return path


def test_a_tree_is_listed_while_it_runs_and_not_after(mark: str) -> None:
    first, second = hostile("bomb"), tree.spawn(["sleep", "100"])
    listed = {kept.pid: kept for kept in keeper_trees()}
    assert set(listed) == {first.pid, second.pid}
    kept = listed[second.pid]
    assert (kept.command, kept.owner, kept.keeper, kept.reaper) == (
        ["sleep", "100"],
        os.getpid(),
        own.pid,
        second.reaper,
    )
    assert kept.running and 0 <= kept.age < 60
    assert len(listed[first.pid].processes) == 51 and listed[first.pid].rss > 0
    first.stop(0)
    second.stop()
    assert keeper_trees() == [] and os.listdir(notes()) == []


def test_a_command_that_ended_but_left_others_is_listed_as_not_running(mark: str) -> None:
    started = hostile("daemon")
    until(lambda: len(started.processes()) == 2, "the daemon's parent to be gone")
    started.signal(signal.SIGKILL)
    started.wait(60)
    (kept,) = keeper_trees()
    assert not kept.running and len(kept.processes) == 1
    started.stop(0)


def test_the_trees_of_another_process_are_listed_until_it_is_killed(mark: str) -> None:
    process, keeper = owner("daemon")
    (kept,) = keeper_trees()
    assert (kept.owner, kept.keeper) == (process.pid, keeper)
    handle = os.pidfd_open(kept.reaper)
    process.kill()
    process.communicate()
    assert select.select([handle], [], [], 60)[0]
    os.close(handle)
    assert keeper_trees() == []


def test_the_note_of_a_reaper_that_is_gone_is_removed(mark: str) -> None:
    started = tree.spawn(["sleep", "100"])
    note = notes() / str(started.reaper)
    text = note.read_bytes()
    handle = os.pidfd_open(started.reaper)
    started.stop()
    select.select([handle], [], [], 60)  # the reaper itself ends a moment after its tree
    os.close(handle)
    mine = notes() / str(os.getpid())
    for stale in (note, mine):  # a free pid, and one that another process has now
        stale.write_bytes(text)
    assert keeper_trees() == []
    assert os.listdir(notes()) == []


def test_notes_that_are_half_written_or_of_a_newer_version_are_left_alone(mark: str) -> None:
    for name, text in (("1", b""), ("2", b"2\0newer"), ("readme", b"x")):
        (notes() / name).write_bytes(text)
    assert keeper_trees() == []
    assert sorted(os.listdir(notes())) == ["1", "2", "readme"]


def test_where_notes_cannot_be_written_a_tree_runs_all_the_same(mark: str) -> None:
    Path(paths.state_dir()).mkdir()
    (Path(paths.state_dir()) / "keepers").write_text("in the way")
    with tree.spawn(["sleep", "100"]) as started:
        assert table.look(started.pid)


def test_without_a_state_directory_nothing_is_kept() -> None:
    assert keeper_trees() == []


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
