"""A reaper does what its owner says, and ends its tree when its owner is gone."""

import ctypes
import marshal
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.io.process.hostile import await_none_left, left
from tests.io.process.test_held import keep
from tests.io.process.trees import hostile
from tests.terminal.support import until
from treadle.io.process import reaper, table, tree
from treadle.wire.common.framing import frame


def test_a_second_stop_with_less_grace_does_not_wait_for_the_first(mark: str) -> None:
    started = hostile("deaf")
    started.ask_stop(3600)
    assert started.stop(0).killed
    assert left(mark) == []


def test_a_second_stop_with_more_grace_does_not_give_more(mark: str) -> None:
    started = hostile("deaf")
    started.ask_stop(0.05)
    assert started.stop(3600).killed


def test_what_a_reaper_does_not_understand_it_ignores(mark: str) -> None:
    started = tree.spawn(["sleep", "100"])
    started._control.send(frame(200, b"?") + frame(0))
    assert started.stop().left == []
    assert started.exit_code == -signal.SIGTERM


def test_a_reaper_that_is_asked_to_end_ends_its_tree(mark: str) -> None:
    started = hostile("deaf", "daemon")
    os.kill(started.reaper, signal.SIGTERM)
    assert started.wait(60) == -signal.SIGTERM
    assert await_none_left(mark) == []
    started.stop()


def test_letting_go_of_a_tree_ends_it(mark: str) -> None:
    started = hostile("deaf", "session")
    started.close()
    assert await_none_left(mark) == []


def test_the_death_of_the_command_is_told_before_that_of_its_tree(mark: str) -> None:
    started = hostile("daemon")
    started.signal(signal.SIGKILL)
    assert started.wait(60) == -signal.SIGKILL
    assert started.report is None
    started.stop(0)
    assert started.report is not None


def in_copy(act: Callable[[], object]) -> Any:
    """What a function gives in a copy of this process, or the copy's exit code if it ends before."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(write, marshal.dumps(act()))
        finally:
            os._exit(99)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        said = pipe.read()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return marshal.loads(said) if said else code


def marked(**more: Any) -> tuple[str, int, int]:
    """The name, whether orphans are adopted, and the signal at the parent's death, as the kernel has them."""
    reaper.mark(b"treadle-marked", **more)
    prctl = ctypes.CDLL(None).prctl
    adopts, dies = ctypes.c_int(), ctypes.c_int()
    prctl(37, ctypes.byref(adopts), 0, 0, 0)
    prctl(2, ctypes.byref(dies), 0, 0, 0)
    return Path("/proc/self/comm").read_text(), adopts.value, dies.value


def test_a_process_is_marked_with_its_name_and_adopts_and_dies_as_it_should() -> None:
    me = os.getpid()
    assert in_copy(marked) == ("treadle-marked\n", 1, 0)
    assert in_copy(lambda: marked(adopt=False)) == ("treadle-marked\n", 0, 0)
    assert in_copy(lambda: marked(parent=me)) == ("treadle-marked\n", 1, signal.SIGTERM)
    assert in_copy(lambda: marked(parent=me + 1)) == 1, "its parent has died before"
    assert not in_copy(lambda: reaper._parent_is_dying(me)) and in_copy(lambda: reaper._parent_is_dying(me + 1))


def test_a_note_has_all_by_which_a_tree_is_found_and_one_that_cannot_be_left_is_none(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path / "note")
    before = int(time.time())
    assert reaper.leave_note(path, 1, 2, os.getpid(), 4, [b"sh", b"-c"])
    *fields, written, command, option = (tmp_path / "note").read_bytes().split(b"\0")
    assert fields == [b"1", b"1", b"2", b"%d" % os.getpid(), b"%d" % table.start_time(os.getpid()), b"4"]
    assert before <= int(written) <= time.time() and (command, option) == (b"sh", b"-c")
    assert (tmp_path / "note").stat().st_mode & 0o777 == 0o600
    assert not reaper.leave_note(os.fsencode(tmp_path / "none" / "note"), 1, 2, 3, 4, [])


def test_the_report_has_who_ended_by_which_signal_and_its_note_is_gone_then(mark: str, state_home: Path) -> None:
    started = tree.spawn(["sh", "-c", "sleep 60 & sleep 60"])
    notes = state_home / "treadle" / "keepers"
    until(lambda: [each.name for each in started.processes()] == ["sh", "sleep", "sleep"])
    names = {each.pid: each.name for each in started.processes()}
    assert os.listdir(notes) == [str(started.reaper)]
    end = started.stop(60)
    assert {(pid, name) for pid, name, _ in end.ended} == {*names.items()} and {by for _, _, by in end.ended} == {15}
    assert end.killed == [] == end.left and end.seconds > 0 and end.confirmed and os.listdir(notes) == []
    deaf = hostile("deaf")
    end = deaf.stop(0.01)
    assert end.killed and {(pid, by) for pid, _, by in end.ended if by != 15} == {(pid, 9) for pid, _ in end.killed}
    done = tree.spawn(["true"])
    done.wait(60)
    assert done.stop().ended == [] and done.report is not None and done.report.seconds == 0.0


def test_a_signal_reaches_the_command_its_group_or_everyone(mark: str) -> None:
    """The command, one in its group, and one that has left it."""
    script = "trap : USR1; setsid sleep 61 & sleep 62 & sleep 60; sleep 60"
    for scope, gone in ({}, 1), ({"group": True}, 3), ({"everyone": True}, 4):
        started = tree.spawn(["bash", "-c", script])
        until(lambda started=started: sum(each.name == "sleep" for each in started.processes()) == 3)
        count = len(started.processes())
        started.signal(signal.SIGKILL, **scope)
        until(lambda started=started, gone=gone: len(started.processes()) == 4 - gone)
        assert started.wait(60) == -signal.SIGKILL and count == 4
        started.stop(0)


def test_processes_on_a_terminal_are_hung_up_after_a_while(mark: str) -> None:
    master, slave = os.openpty()
    script = "trap '' TERM; echo up; while :; do sleep 0.01; done"
    try:
        started = tree.spawn(["sh", "-c", script], tty=True, stdin=slave, stdout=slave)
        assert os.read(master, 10).startswith(b"up")
        end = started.stop(60)
    finally:
        os.close(slave)
        os.close(master)
    assert started.exit_code == -signal.SIGHUP and end.killed == []
    assert (started.pid, "sh", int(signal.SIGHUP)) in end.ended


def test_a_patient_tree_asks_all_but_its_command(mark: str) -> None:
    script = "trap 'exit 9' TERM; sleep 60; exit 7"
    started = tree.spawn(["sh", "-c", script], patient=True)
    until(lambda: [process.name for process in started.processes()] == ["sh", "sleep"])
    end = started.stop(60)
    assert started.exit_code == 7 and [name for _, name, _ in end.ended] == ["sleep"]


def test_a_groups_signal_leaves_a_patient_command_out(mark: str) -> None:
    started = tree.spawn(["sh", "-c", "trap 'exit 9' TERM; sleep 60; exit 7"], patient=True)
    until(lambda: [process.name for process in started.processes()] == ["sh", "sleep"])  # not a shell that is to be one
    started.signal(signal.SIGTERM, group=True)
    assert started.wait(20) == 7
    started.stop(0)


def test_what_comes_afterwards_does_not_run_while_the_keeper_lives(tmp_path: Path, mark: str) -> None:
    done = keep(tmp_path, "exit 4", "print(tree.wait(50), tree.stop().killed, os.waitpid(tree.reaper, 0)[1])")
    assert done.stdout == "4 [] 0\n" and (tmp_path / "after").read_text() == "", done.stderr
