"""The keeper itself: alone in its session, small, gone with its owner. What it does for trees is in `test_tree.py`."""

import errno
import gc
import marshal
import os
import resource
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.io.process.hostile import await_none_left
from tests.io.process.test_reaper import in_copy
from tests.io.process.trees import hostile, owner
from tests.terminal.support import until
from treadle.io.process import cgroup, reaper
from treadle.io.process import keeper as keeper_module
from treadle.io.process.keeper import SWEEP, SWEPT, Keeper
from treadle.wire.common.framing import frame


def test_the_keeper_leads_a_session_of_its_own_and_holds_nothing_of_ours(mark: str) -> None:
    held = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(held, True)
    code = "from treadle.io.process import tree; tree.spawn(['true']).stop(); print(tree.own.pid, flush=True)"
    code += "; input()"
    argv = [sys.executable, "-c", code]
    try:
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, close_fds=False) as process:
            assert process.stdout is not None
            keeper = int(process.stdout.readline())
            assert os.getsid(keeper) == keeper and Path(f"/proc/{keeper}/comm").read_text() == "treadle-keeper\n"
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


# Its parts, in a copy of this process...


def kept(act: Callable[[Keeper, socket.socket], object], *, owner: int | None = None) -> Any:
    """What is found out with a keeper and the other end of its socket, in a copy of this process."""

    def inside() -> object:
        signal.alarm(60)  # it must not stay if it hangs
        ours, theirs = socket.socketpair()
        keeper_module.CONTROL = theirs.fileno()
        return act(Keeper(theirs, owner), ours)

    return in_copy(inside)


def forked(act: Callable[[], object]) -> int:
    if pid := os.fork():
        return pid
    signal.alarm(60)
    try:
        act()
    finally:
        os._exit(0)


def ended(pid: int) -> None:
    """Wait for the end of a child, which can then still be collected."""
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


def test_an_owner_is_watched_unless_the_keeper_is_to_outlive_it() -> None:
    me = os.getpid()
    assert kept(lambda keeper, _: (keeper.detached, keeper.owner), owner=None) == (True, -1)
    assert kept(lambda keeper, _: (keeper.detached, keeper.owner >= 0), owner=me) == (False, True)
    assert kept(lambda keeper, _: keeper.owner, owner=1 << 30) == -1


def test_what_it_is_told_is_done_until_the_owner_hangs_up() -> None:
    def told(keeper: Keeper, ours: socket.socket) -> list[object]:
        ours.send(frame(SWEEP, marshal.dumps(7)) + frame(99))
        found: list[object] = [keeper.hear(), ours.recv(100)]
        ours.close()
        found.append(keeper.hear())
        keeper.control.close()
        return [*found, keeper.hear()]

    assert kept(told) == [True, frame(SWEPT, marshal.dumps(7)), False, False]


def test_it_serves_until_its_owner_is_gone_or_without_one_until_its_last_tree_is() -> None:
    def served(keeper: Keeper, ours: socket.socket) -> list[object]:
        ours.send(frame(SWEEP, marshal.dumps(7)))
        ours.shutdown(socket.SHUT_WR)
        waits, go = os.pipe()
        tree = forked(lambda: (os.close(go), os.read(waits, 1)))
        keeper.reapers.add(tree)
        if not keeper.detached:
            keeper.serve()
        else:
            forked(lambda: (os.close(waits), ours.recv(100, socket.MSG_PEEK), os.close(go)))
            os.close(go)
            keeper.serve()
        return [ours.recv(100), len(keeper.reapers)]

    swept = frame(SWEPT, marshal.dumps(7))
    assert kept(served, owner=os.getpid()) == [swept, 1] and kept(served) == [swept, 0]

    def asked_to_end(keeper: Keeper, ours: socket.socket) -> bool:
        os.kill(os.getpid(), signal.SIGTERM)
        keeper.serve()
        return True

    assert kept(asked_to_end) is True and kept(asked_to_end, owner=os.getpid()) is True


def test_only_a_reaper_that_did_not_end_well_leaves_orphans() -> None:
    def reaped(keeper: Keeper, ours: socket.socket) -> list[object]:
        found: list[object] = [keeper.reap()]
        for code, known in ((3, False), (0, True), (3, True), (0, True)):
            pid = forked(lambda code=code: os._exit(code))
            if known:
                keeper.reapers.add(pid)
            ended(pid)
            found.append((keeper.reap(), keeper.lost_reaper, len(keeper.reapers)))
        forked(signal.pause)
        return [*found, keeper.reap(), keeper.end_orphans(), keeper.lost_reaper, keeper.reap()]

    endings = [(False, False, 0), (False, False, 0), (False, True, 0), (False, True, 0)]
    assert kept(reaped) == [False, *endings, True, None, False, False]


def test_a_reaper_that_is_swept_is_killed_with_what_was_below_it_and_others_are_not() -> None:
    def swept(keeper: Keeper, ours: socket.socket) -> list[object]:
        one, other, orphan = (forked(signal.pause) for _ in range(3))
        keeper.reapers |= {one, other}
        keeper.sweep(one)
        there = [os.path.exists(f"/proc/{pid}") for pid in (one, other, orphan)]
        keeper.sweep(one)
        left = len(keeper.reapers)
        keeper.sweep(other)
        return [*there, left, len(keeper.reapers)]

    assert kept(swept) == [False, True, False, 1, 0]


def test_at_its_end_reapers_are_asked_even_if_they_stand_still_and_the_rest_is_killed() -> None:
    def ended_all(keeper: Keeper, ours: socket.socket) -> list[object]:
        reaper.ORPHAN_GRACE, reaper.KILL_LIMIT, said = 0.2, 5.0, os.pipe()

        def heeds() -> None:
            signal.signal(signal.SIGTERM, lambda *_: (os.write(said[1], b"asked"), os._exit(0)))
            os.write(said[1], b"up ")
            os.kill(os.getpid(), signal.SIGSTOP)
            signal.pause()

        keeper.reapers.add(stopped := forked(heeds))
        os.waitid(os.P_PID, stopped, os.WSTOPPED)
        orphan = forked(signal.pause)
        keeper.lost_reaper = True
        keeper.end()
        return [os.read(said[0], 100), os.path.exists(f"/proc/{orphan}"), keeper.control.fileno()]

    assert kept(ended_all) == [b"up asked", False, -1]

    def deaf(keeper: Keeper, ours: socket.socket) -> list[object]:
        reaper.ORPHAN_GRACE = -reaper.KILL_LIMIT - 1  # its time is over at once
        before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
        keeper.reapers.add(pid := forked(signal.pause))
        signal.signal(signal.SIGTERM, before)
        keeper.end()
        return [len(keeper.reapers), os.path.exists(f"/proc/{pid}")]

    assert kept(deaf) == [0, False]


def test_a_tree_that_cannot_be_started_is_said_and_its_descriptors_are_closed() -> None:
    def refused(keeper: Keeper, ours: socket.socket) -> list[object]:
        def fork() -> int:
            raise OSError(errno.EAGAIN, "no more")

        read, write = os.pipe()
        keeper.fds = [write, *(os.dup(0) for _ in range(5))]
        given = [*keeper.fds]
        os.fork = fork
        keeper.spawn({"fds": 1})
        still = [os.path.exists(f"/proc/self/fd/{fd}") for fd in given]
        masked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        kind, failure = os.read(read, 1), marshal.loads(os.read(read, 100)[4:])
        return [kind[0], failure, still, keeper.fds == given[5:], len(masked), len(keeper.reapers)]

    failure = ("start", errno.EAGAIN, "no more")
    assert kept(refused) == [reaper.FAILED, failure, [False] * 5 + [True], True, 0, 0]


@pytest.mark.parametrize("grouped", [True, False])
def test_a_copy_becomes_a_keeper_of_its_own_and_ends_its_group_last(
    grouped: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if grouped:
        (tmp_path / "self").mkdir()
        (tmp_path / "self" / "cgroup").write_text("0::/\n")
        for name in ("cgroup.kill", "cgroup.procs"):
            (tmp_path / name).touch()
    monkeypatch.setattr(cgroup, "PROC", str(tmp_path))
    monkeypatch.setattr(cgroup, "MOUNTS", (str(tmp_path),))
    me, hard = os.getpid(), resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    ours, theirs = socket.socketpair()
    ours.settimeout(60)
    read, write = os.pipe()

    def become() -> None:
        os.dup2(write, 1)  # it keeps its standard streams
        gc.unfreeze()
        keeper_module.main_in_copy(me, [(resource.RLIMIT_NOFILE, 222, hard)], theirs.fileno())
        os.write(1, b"%d %d" % (gc.isenabled(), gc.get_freeze_count() > 0))

    pid, control = forked(become), os.fstat(theirs.fileno()).st_ino
    theirs.close()
    os.close(write)
    with ours:
        ours.send(frame(SWEEP, marshal.dumps(7)))
        assert ours.recv(100) == frame(SWEPT, marshal.dumps(7))
        held = {fd: os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
        assert [fd for fd, target in held.items() if target.startswith("socket:") and int(fd) > 2] == ["3"]
        assert held["3"] == f"socket:[{control}]" and Path(f"/proc/{pid}/comm").read_text() == "treadle-keeper\n"
        assert os.getsid(pid) == pid and resource.prlimit(pid, resource.RLIMIT_NOFILE) == (222, hard)
        if grouped:
            cgroup.await_entered(str(tmp_path), pid)
            (place,) = tmp_path.glob("treadle-*")
            (place / "cgroup.procs").write_text("5\n")
            os.mkfifo(place / "cgroup.kill")
        ours.shutdown(socket.SHUT_WR)
        assert ours.recv(100) == b"", "its trees are ended"
    killed = os.open(place / "cgroup.kill", os.O_RDONLY | os.O_NONBLOCK) if grouped else None
    with os.fdopen(read) as said:
        assert said.read() == "0 1"
    os.waitpid(pid, 0)
    if killed is not None:
        assert os.read(killed, 100) == b"1"
        os.close(killed)
