"""Nothing that was started survives being stopped, or survives us."""

import errno
import os
import resource
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.io.process.hostile import MODES, SELF, await_none_left, left
from tests.io.process.trees import OWNER, SOURCES, hostile, output, owner
from tests.terminal.support import until
from tests.waiting import stop
from treadle.errors import LocalError, NotFound, TimedOut
from treadle.io.process import table, tree
from treadle.io.process.tree import own

# Starting...


def test_a_command_runs_with_the_streams_environment_and_directory_it_was_given(tmp_path: Path, mark: str) -> None:
    env = {"PATH": os.environ["PATH"], "WORD": "grüß", "HOSTILE_MARK": mark}
    said, code = output(["sh", "-c", "echo $WORD; pwd; exit 7"], env=env, cwd=str(tmp_path))
    assert (said.decode().split(), code) == (["grüß", str(tmp_path)], 7)


def test_standard_input_is_empty_and_errors_go_nowhere_unless_given(mark: str) -> None:
    said, code = output(["sh", "-c", "echo lost >&2; wc -c"])
    assert (said.strip(), code) == (b"0", 0)


def test_no_other_descriptor_reaches_the_command(mark: str) -> None:
    held = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(held, True)
    try:
        said, _ = output(["sh", "-c", "ls /proc/$$/fd"])
    finally:
        os.close(held)
    assert set(said.split()) <= {b"0", b"1", b"2"}


def test_signals_have_their_usual_meaning_in_the_command(mark: str) -> None:
    said, _ = output(["grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"])
    held = {int(line.split()[1], 16) for line in said.splitlines()}
    assert {signals & ~(0b11 << 31) for signals in held} == {0}  # 32 and 33 are the C library's own


def test_a_command_that_a_signal_ended_has_a_negative_code(mark: str) -> None:
    assert output(["sh", "-c", "kill -9 $$"])[1] == -signal.SIGKILL


def test_limits_hold_in_the_command(mark: str) -> None:
    assert output(["sh", "-c", "ulimit -n"], limits=[(resource.RLIMIT_NOFILE, 64, 64)])[0] == b"64\n"


def test_a_command_can_have_a_terminal(mark: str) -> None:
    ours, theirs = os.openpty()
    with tree.spawn(
        ["sh", "-c", "tty; echo own >/dev/tty"], stdin=theirs, stdout=theirs, stderr=theirs, tty=True
    ) as started:
        name = os.ttyname(theirs)
        assert started.wait(60) == 0
        said = b""
        while said.count(b"\n") < 2:  # a terminal may split what was written
            said += os.read(ours, 1000)
        assert said.decode().split() == [name, "own"]
        os.close(theirs)
    os.close(ours)


@pytest.mark.parametrize(
    ("argv", "cwd", "kind", "said"),
    [
        (["no-such-program"], None, NotFound, "on PATH"),
        (["./no-such-program"], None, NotFound, "on PATH"),
        (["true"], "/no/such/directory", NotFound, "working directory"),
        (["/etc/passwd"], None, LocalError, os.strerror(errno.EACCES)),
    ],
)
def test_what_cannot_be_started_says_why(
    argv: list[str], cwd: str | None, kind: type[LocalError], said: str, mark: str
) -> None:
    with pytest.raises(kind, match=said):
        tree.spawn(argv, cwd=cwd)


def test_many_threads_can_start_commands_at_once(mark: str) -> None:
    results = []

    def run(number: int) -> None:
        results.append((number, output(["echo", str(number)])[0]))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [(number, b"%d\n" % number) for number in range(20)]


def test_a_large_environment_and_many_arguments_arrive(mark: str) -> None:
    env = {**os.environ, **{f"BIG{number}": "x" * 100_000 for number in range(10)}}
    said, code = output(
        ["sh", "-c", 'echo $# ${#BIG9}; for a; do last=$a; done; echo "$last"', "sh", *"a" * 5000], env=env
    )
    assert (said.split(), code) == ([b"5000", b"100000", b"a"], 0)


# Following...


def test_waiting_is_bounded(mark: str) -> None:
    with tree.spawn(["sleep", "100"]) as started:
        with pytest.raises(TimedOut, match=r"still runs after 0\.01 s"):
            started.wait(0.01)


def test_a_plain_loop_can_follow_a_tree(mark: str) -> None:
    started = tree.spawn(["sh", "-c", "exit 4"])
    while not started.ended:
        select.select([started], [], [], 60)
        started.update()
    assert (started.exit_code, started.report is not None) == (4, True)
    started.close()


def test_a_signal_goes_to_the_command_or_to_everyone(mark: str) -> None:
    with hostile("deaf", "session") as started:
        before = {process.pid for process in started.processes()}
        started.signal(signal.SIGKILL)
        assert started.wait(60) == -signal.SIGKILL
        assert {process.pid for process in started.processes()} == before - {started.pid}
        started.signal(signal.SIGKILL, everyone=True)
        assert select.select([started], [], [], 60)[0]


def test_what_a_command_leaves_running_is_still_part_of_its_tree(mark: str) -> None:
    read, write = os.pipe()
    started = tree.spawn(["sh", "-c", "setsid sh -c 'trap \"\" TERM; echo up; sleep 100' & exit 0"], stdout=write)
    os.close(write)
    assert started.wait(60) == 0
    assert os.read(read, 10) == b"up\n"
    os.close(read)
    assert started.processes()
    assert not started.ended
    report = started.stop(0.05)
    assert report.killed and not report.left


# Stopping...


def test_a_tree_that_listens_ends_without_being_killed(mark: str) -> None:
    started = tree.spawn(["sh", "-c", "sleep 100 & sleep 100"])
    report = started.stop(60)
    assert (report.killed, report.left, started.exit_code) == ([], [], -signal.SIGTERM)
    assert len(report.ended) >= 1


def test_a_tree_is_given_its_grace(mark: str) -> None:
    read, write = os.pipe()
    script = "trap 'echo bye; exit 9' TERM; echo up; while :; do sleep 0.01; done"
    started = tree.spawn(["sh", "-c", script], stdout=write)
    os.close(write)
    assert os.read(read, 10) == b"up\n"
    report = started.stop(60)
    assert (os.read(read, 10), started.exit_code, report.killed) == (b"bye\n", 9, [])
    os.close(read)


def test_a_stopped_process_is_woken_to_hear_that_it_should_end(mark: str) -> None:
    with hostile("stopped") as started:
        assert started.stop(60).killed == []


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("grace", [0, 0.05])
def test_a_hostile_tree_is_gone_when_stop_returns(mode: str, grace: float, mark: str) -> None:
    started = hostile(mode)
    report = started.stop(grace)
    assert report.left == []
    assert left(mark) == []


def test_the_report_names_who_had_to_be_killed(mark: str) -> None:
    report = hostile("deaf").stop(0.05)
    assert len(report.killed) == 1 and report.killed[0][1].startswith("python")


def test_stopping_one_tree_leaves_the_others_alone(mark: str) -> None:
    other = hostile("daemon", "session")
    until(lambda: len(other.processes()) == 3, "the daemon's parent to be gone")
    before = {process.pid for process in other.processes()}
    hostile("daemon", "chain").stop(0.05)
    assert {process.pid for process in other.processes()} == before
    other.stop(0)


def test_stopping_twice_and_after_the_end_is_harmless(mark: str) -> None:
    started = tree.spawn(["true"])
    started.wait(60)
    started.stop()
    assert started.stop().left == []


def test_leaving_a_tree_unclosed_ends_it_with_a_warning(mark: str) -> None:
    started = hostile("deaf")
    with pytest.warns(ResourceWarning, match="never stopped"):
        del started


def test_a_tree_whose_reaper_was_killed_is_ended_all_the_same(mark: str) -> None:
    started = hostile("daemon", "deaf", "chain")
    os.kill(started.reaper, signal.SIGKILL)
    with pytest.raises(LocalError, match="from outside"):
        started.wait(60)
    assert started.stop().left == []
    assert left(mark) == []


def test_a_tree_whose_reaper_and_keeper_were_killed_at_once_is_not_said_to_be_gone(mark: str) -> None:
    started = hostile("deaf")
    before = started.processes()
    stop(started.reaper)  # so that it cannot notice the death of the keeper
    os.kill(own.pid, signal.SIGKILL)
    os.kill(started.reaper, signal.SIGKILL)
    assert not started.stop().confirmed
    for process in before:
        table.send(process, signal.SIGKILL)


def test_a_tree_whose_reaper_stands_still_is_ended_all_the_same(mark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    started = hostile("daemon", "deaf")
    monkeypatch.setattr(tree, "ANSWER_TIMEOUT", 0.1)
    monkeypatch.setattr(tree.reaper, "KILL_LIMIT", 0.1)
    stop(started.reaper)
    started.stop(0)
    assert left(mark) == []


def test_after_the_keeper_was_killed_its_trees_end_and_a_new_one_serves(mark: str) -> None:
    started = hostile("daemon", "deaf")
    os.kill(own.pid, signal.SIGKILL)
    assert started.stop(0.05).left == []
    assert await_none_left(mark) == []
    assert output(["echo", "again"]) == (b"again\n", 0)


# When we die...


@pytest.mark.parametrize("victim", ["owner", "group"])
@pytest.mark.parametrize("modes", [("deaf", "session", "daemon"), ("dying", "bomb"), ("chain", "couple", "stopped")])
def test_nothing_outlives_kill_9_of_the_owner_or_of_its_group(victim: str, modes: tuple[str, ...], mark: str) -> None:
    process, keeper = owner(*modes)
    started = table.start_time(keeper)
    if victim == "owner":
        process.kill()
    else:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert await_none_left(mark) == []
    while (found := table.look(keeper)) and found.start == started and found.state != "Z":
        pass  # the keeper itself goes too; the test's own timeout bounds this


def test_a_fork_of_the_owner_does_not_hide_its_death(mark: str) -> None:
    process, _ = owner("deaf", forks=True)
    # The owner and its fork have the same text in their command lines, after -c.
    trees = [pid for pid in left(mark) if table.command_line(pid)[1:4] == ["-I", "-S", SELF]]
    process.kill()
    process.wait()
    assert trees and process.stdin is not None and process.stdout is not None
    handles = [os.pidfd_open(pid) for pid in trees if table.look(pid)]
    for handle in handles:
        assert select.select([handle], [], [], 30)[0], "the fork keeps it alive"
        os.close(handle)
    process.stdin.close()
    process.stdout.close()


def test_an_owner_that_exits_normally_leaves_nothing(mark: str) -> None:
    code = OWNER.replace("time.sleep(100)", "")
    env = {**os.environ, "PYTHONPATH": SOURCES}
    argv = [sys.executable, "-W", "ignore", "-c", code, SELF, "deaf", "daemon"]
    subprocess.run(argv, stdout=subprocess.PIPE, env=env, check=True)
    assert await_none_left(mark) == []


def test_the_defaults_of_a_request_are_those_of_an_ordinary_tree(mark: str) -> None:
    started = tree.request(["sh", "-c", "sleep 60; exit 7"])
    started.await_started()
    keeper = table.look(started.reaper)
    assert keeper is not None and keeper.parent == own.pid
    started.stop(60)
    assert started.exit_code == -signal.SIGTERM
