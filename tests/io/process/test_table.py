"""Processes are read as they are, and a signal hits the one that was meant."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.descriptors import opened
from tests.io.process.trees import SOURCES
from tests.terminal.support import until
from treadle.io.process import table


def test_we_see_ourselves() -> None:
    me = table.look(os.getpid())
    assert me is not None
    assert (me.pid, me.parent, me.state) == (os.getpid(), os.getppid(), "R")
    assert me.start == table.start_time(os.getpid()) > 0
    assert me.rss > 1_000_000
    assert table.command_line(os.getpid())[0].endswith(os.path.basename(sys.executable))


def test_the_open_files_of_a_process_are_named_also_those_that_were_removed(tmp_path: Path) -> None:
    with (tmp_path / "kept").open("w"), (tmp_path / "gone").open("w"):
        (tmp_path / "gone").unlink()
        assert {str(tmp_path / "kept"), str(tmp_path / "gone")} <= table.open_files(os.getpid())
    assert table.open_files(2**22 + 1) == set()


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


def test_descendants_are_found_parents_first_and_branches_can_be_left_out() -> None:
    script = "sleep 100 & sh -c 'sleep 100 & echo up; wait' & wait"
    with subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        names = ["sh", "sleep", "sleep"]  # a moment after its fork, a `sleep` is still an `sh`
        until(lambda: sorted(each.name for each in table.descendants(process.pid)) == names)
        found = table.descendants(process.pid)
        inner = next(each for each in found if each.name == "sh")
        below = [each for each in found if each.parent == inner.pid]
        assert len(found) == 3 and len(below) == 1
        assert found.index(inner) < found.index(below[0])
        apart = table.descendants(process.pid, apart={inner.pid})
        assert [each.name for each in apart] == ["sleep"]
        for each in found:
            table.send(each, signal.SIGKILL)
        process.kill()


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


def test_a_group_is_found_below_a_root_and_what_left_it_is_not() -> None:
    script = "sleep 100 & sleep 100 & setsid sleep 100 & wait"
    with subprocess.Popen(["sh", "-c", script], start_new_session=True) as leader:
        try:
            until(
                lambda: (
                    len(table.descendants(leader.pid)) == 3
                    and len({p.group for p in table.descendants(leader.pid)}) == 2
                )
            )
            assert {found.name for found in table.group(leader.pid, os.getpid())} == {"sh", "sleep"}
            assert len(table.group(leader.pid, os.getpid())) == 3
            assert table.group(leader.pid, 0) == []
        finally:
            for process in table.descendants(leader.pid):
                table.send(process, 9)


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
    assert table.open_files(gone) == set() and table.command_line(gone) == [] and table.look(gone) is None


def test_everything_below_a_process_is_killed_but_what_is_set_apart(mark: str) -> None:
    code = (
        "import os, subprocess, time\n"
        "from treadle.io.process import table\n"
        "apart = subprocess.Popen(['sleep', '60'])\n"
        "own = subprocess.Popen(['sleep', '60'])\n"
        "away = subprocess.Popen(['sh', '-c', 'sleep 60 & sleep 60'], start_new_session=True)\n"
        "while len(table.descendants(os.getpid())) < 5: time.sleep(0.01)\n"
        "def reap():\n"
        "    return own.poll() is None or away.poll() is None\n"
        "found = table.cull(reap, {apart.pid})\n"
        "print(len(found), own.wait(20), away.wait(20), apart.poll(), table.cull(reap, {apart.pid}) == [])\n"
        "apart.kill(); apart.wait()"
    )
    env = {**os.environ, "PYTHONPATH": SOURCES}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60)
    assert done.stdout == "4 -9 -9 None True\n", done.stderr
