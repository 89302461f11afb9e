"""Process trees: started as asked, followed, and ended by their reaper whatever they do."""

import errno
import os
import resource
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.descriptors import opened
from tests.io.process.hostile import MODES, SELF, await_none_left, left
from tests.io.process.trees import OWNER, SOURCES, hostile, keep, output, owner
from tests.terminal.support import until
from tests.waiting import stop
from treadle.errors import LocalError, NotFound
from treadle.io.process import table, tree
from treadle.io.process.registry import KeeperTree, keeper_trees
from treadle.io.process.tree import KeeperHandle, detach, own
from treadle.wire.common.framing import frame


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
        (["true"], "/etc/passwd", NotFound, "working directory"),
        (["echo", "a\0b"], None, LocalError, "embedded null byte"),
    ],
)
def test_what_cannot_be_started_says_why(
    argv: list[str], cwd: str | None, kind: type[LocalError], said: str, mark: str
) -> None:
    with pytest.raises(kind, match=said):
        tree.spawn(argv, cwd=cwd)
    with pytest.raises(ValueError, match="argv is empty"):
        tree.spawn([])


def test_a_program_is_found_on_the_path_that_it_is_given_or_where_its_name_says(tmp_path: Path, mark: str) -> None:
    for folder, mode in (("a", 0o644), ("b", 0o755), ("c", 0o755)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "tool").write_text(f"#!/bin/sh\necho from {folder}\n")
        (tmp_path / folder / "tool").chmod(mode)

    def ran(name: str, path: str | None, cwd: Path = tmp_path) -> bytes:
        return output([name], env={"HOSTILE_MARK": mark} | ({} if path is None else {"PATH": path}), cwd=str(cwd))[0]

    here = str(tmp_path)
    assert ran("tool", f"{here}/none:{here}/a:{here}/b:{here}/c") == b"from b\n"
    assert ran("c/tool", f"{here}/b") == b"from c\n"
    assert ran("tool", "", tmp_path / "c") == b"from c\n", "an empty part is the directory it is in"
    assert ran("true", None) == b"", "without a path the usual one is searched"
    with pytest.raises(LocalError, match=os.strerror(errno.EACCES)):
        ran("tool", f"{here}/a:{here}/none")
    with pytest.raises(NotFound):
        ran("c/tool", f"{here}/b", Path("/"))


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


@pytest.mark.parametrize(("mode", "grace"), [*((mode, 0.05) for mode in MODES), ("daemon", 0)])
def test_a_hostile_tree_is_gone_when_stop_returns(mode: str, grace: float, mark: str) -> None:
    started = hostile(mode)
    report = started.stop(grace)
    assert report.left == []
    assert left(mark) == []


def test_stopping_one_tree_leaves_the_others_alone(mark: str) -> None:
    other = hostile("daemon", "session")
    until(lambda: len(other.processes()) == 3, "the daemon's parent to be gone")
    before = {process.pid for process in other.processes()}
    hostile("daemon", "chain").stop(0.05)
    assert {process.pid for process in other.processes()} == before
    other.stop(0)


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
@pytest.mark.parametrize(
    ("victim", "modes"),
    [
        ("owner", ("deaf", "session", "daemon")),
        ("owner", ("dying", "bomb")),
        ("group", ("chain", "couple", "stopped")),
    ],
)
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


@pytest.fixture
def keeping() -> Iterator[KeeperHandle]:
    """A connection of our own to a keeper of its own."""
    made = KeeperHandle()
    yield made
    until(lambda: made.rest(lambda: False))


def test_a_killed_keeper_is_collected_and_replaced_by_the_next_message(keeping: KeeperHandle) -> None:
    keeping.begin()
    first = keeping.pid
    os.kill(first, signal.SIGKILL)
    os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)
    keeping.send(frame(0), [])
    assert keeping.pid != first and table.look(first) is None
    keeping.let_go()
    second = keeping.pid
    keeping.begin()
    assert keeping.pid != second, "what was let go is not used again"
    until(lambda: table.look(second) is None or not keeping.rest(lambda: True))


def test_what_cannot_be_sent_to_a_second_keeper_either_is_an_error(keeping: KeeperHandle) -> None:
    with pytest.raises(LocalError, match="the keeper of child processes cannot be reached: .*Bad file descriptor"):
        keeping.send(frame(0), [1 << 20])


def test_a_keeper_that_cannot_be_started_is_an_error_and_leaves_nothing_open(
    keeping: KeeperHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = opened()
    with monkeypatch.context() as patched, pytest.raises(LocalError, match="cannot start the keeper of child"):
        patched.setattr(sys, "executable", "/no/such/python")
        keeping.begin()
    assert opened() == before and keeping.pid == 0


STARTER = """
import json, sys
from treadle.io.process.tree import detach
print(detach(json.loads(sys.argv[1]), cwd=sys.argv[2], ready=True))
"""


def detached_hostile(*modes: str) -> KeeperTree:
    """A detached hostile tree that is set up, as `treadle ps` lists it."""
    pid = detach([sys.executable, "-I", "-S", SELF, *modes], cwd="/", ready=True)
    [kept] = [kept for kept in keeper_trees() if kept.pid == pid]
    return kept


def test_it_outlives_its_starter_in_its_own_session_and_directory(tmp_path: Path, mark: str) -> None:
    script = '["sh", "-c", "pwd >there; ps -o sid= -p $$ >>there; echo ready; exec sleep 100"]'
    pid = int(subprocess.check_output([sys.executable, "-c", STARTER, script, str(tmp_path)]))
    found = table.look(pid)
    assert found is not None and (tmp_path / "there").read_text().split() == [str(tmp_path), str(pid)]
    [kept] = keeper_trees()
    assert (kept.pid, kept.owner, found.parent) == (pid, kept.keeper, kept.reaper)
    os.kill(kept.reaper, signal.SIGTERM)
    assert await_none_left(mark) == []


@pytest.mark.parametrize("who", ["keeper", "reaper"])
@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM])
def test_whatever_ends_its_keeper_or_its_reaper_ends_all_of_it(who: str, signum: int, mark: str) -> None:
    kept = detached_hostile("daemon", "deaf", "session")
    os.kill(getattr(kept, who), signum)
    assert await_none_left(mark) == []


def test_what_it_left_running_ends_when_it_exits_and_so_does_its_keeper_which_is_no_zombie_of_ours(mark: str) -> None:
    others = {each.pid for each in table.processes()}  # left by earlier tests: not counted
    script = "sleep 100 & setsid sleep 100 & echo ready; exec sleep 100"  # they listen, so no grace is waited for
    pid = detach(["sh", "-c", script], cwd="/", ready=True)
    [kept] = [each for each in keeper_trees() if each.pid == pid]
    assert len(left(mark)) > 1
    os.kill(pid, signal.SIGKILL)
    assert await_none_left(mark) == []
    until(lambda: table.look(kept.keeper) is None, "the keeper to end")
    ours = [each for each in table.processes() if each.parent == os.getpid() and each.pid not in others]
    assert [each for each in ours if each.state == "Z"] == []


def test_one_that_ends_before_it_is_at_work_says_why_in_its_log(tmp_path: Path, mark: str) -> None:
    log = str(tmp_path / "log")
    with pytest.raises(LocalError, match="sh ended before it was ready: the loom is broken"):
        detach(["sh", "-c", "echo treadle: the loom is broken >&2"], cwd="/", log=log, ready=True)
    with pytest.raises(LocalError, match="no output"):
        detach(["true"], cwd="/", ready=True)
    assert Path(log).read_text() == "treadle: the loom is broken\n"
    assert Path(log).stat().st_mode & 0o777 == 0o600


def test_one_that_is_not_there_is_named_and_leaves_nothing_open(mark: str) -> None:
    before = opened()
    with pytest.raises(NotFound, match="no-such-program"):
        detach(["no-such-program"], cwd="/")
    with pytest.raises(NotFound, match="working directory"):
        detach(["true"], cwd="/no/such/place")
    assert opened() - before == set()


def test_a_program_without_a_keeper_leads_a_session_and_writes_to_its_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("before\n")
    script = "readlink /proc/self/fd/0; pwd; ps -o sid= -p $$ | tr -d ' '; echo wrong >&2; echo end"
    pid = tree.daemon(["/bin/sh", "-c", script], cwd=str(tmp_path), log=str(log))
    until(lambda: log.read_text().endswith("end\n"))
    assert log.read_text().splitlines() == ["before", "/dev/null", str(tmp_path), str(pid), "wrong", "end"]


def test_a_second_stop_with_less_grace_does_not_wait_for_the_first(mark: str) -> None:
    started = hostile("deaf")
    started.ask_stop(3600)
    assert started.stop(0).killed
    assert left(mark) == []


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


@pytest.mark.parametrize("stopping", [True, False])
def test_a_patient_tree_asks_all_but_its_command(stopping: bool, mark: str) -> None:
    started = tree.spawn(["sh", "-c", "trap 'exit 9' TERM; sleep 60; exit 7"], patient=True)
    until(lambda: [process.name for process in started.processes()] == ["sh", "sleep"])  # not a shell that is to be one
    if not stopping:
        started.signal(signal.SIGTERM, group=True)
        assert started.wait(20) == 7
    assert [name for _, name, _ in started.stop(60).ended] == (["sleep"] if stopping else [])
    assert started.exit_code == 7


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
    until(lambda: (tmp_path / "after").read_text())
    word, pids = (tmp_path / "after").read_text().split(" ")
    assert word == "killed:" and all(part.isdigit() for part in pids.strip().split(","))


@pytest.mark.parametrize("turn", range(2))
def test_what_comes_afterwards_runs_when_the_tree_ends_before_its_killed_keeper_has_quite_ended(
    turn: int, tmp_path: Path, mark: str
) -> None:
    many = "[os.pipe() for _ in range(200)]"  # the terminal hangs up while the keeper still has to close all of these
    act = f"tree.await_started(); before = {many}; high = os.dup(master); os.close(master); after = {many}"
    assert keep(tmp_path, "exec cat", f"{act}; os.kill(os.getpid(), 9)").returncode == -signal.SIGKILL
    until(lambda: (tmp_path / "after").read_text().startswith("killed:"))


def test_a_tree_can_be_left_alone(tmp_path: Path, mark: str) -> None:
    act = "tree.await_started(); tree.leave(); os.waitpid(tree.reaper, 0); os.kill(tree.pid, 0); os.kill(tree.pid, 9)"
    done = keep(tmp_path, "trap '' HUP; exec sleep 60", f"{act}; print(os.waitpid(tree.pid, 0)[1], tree.fileno())")
    assert done.stdout == "9 -1\n", done.stderr


def test_an_order_that_comes_together_with_the_command_is_obeyed(tmp_path: Path, mark: str) -> None:
    done = keep(tmp_path, "sleep 60", "tree.ask_stop(0); print(tree.wait(50))")
    assert done.stdout == "-9\n", done.stderr


def test_a_reaper_that_never_gets_a_command_ends_with_its_keeper(tmp_path: Path, mark: str) -> None:
    code = "from treadle.io.process.tree import fork_reaper; print(fork_reaper().pid)"
    env = {**os.environ, "PYTHONPATH": SOURCES}
    subprocess.run([sys.executable, "-c", code], env=env, check=True, timeout=60, stdout=subprocess.DEVNULL)
    assert await_none_left(mark) == []


def test_when_the_reaper_is_killed_its_processes_become_our_children(tmp_path: Path, mark: str) -> None:
    act = (
        "tree.await_started(); print(open('/proc/self/comm').read().strip(), os.getsid(tree.reaper) == tree.reaper);"
        "os.kill(tree.reaper, 9); print(os.waitpid(tree.reaper, 0)[1])\n"
        "try: tree.wait(20)\n"
        "except Exception as error: print(error)\n"
        "os.kill(tree.pid, 9); print(os.waitpid(tree.pid, 0)[1])"
    )
    done = keep(tmp_path, "trap '' HUP; exec sleep 60", act)
    why = "sh was ended from outside: the process that watches it was killed"
    assert done.stdout == f"treadle-termina True\n9\n{why}\n9\n", done.stderr
