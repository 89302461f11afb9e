"""The keeper: alone in its session, small, gone with its owner. The next one ends what a killed one left."""

import errno
import os
import select
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.io.process.hostile import SELF, await_none_left, left
from tests.io.process.trees import OWNER, SOURCES, hostile, owner
from tests.terminal.support import until
from treadle.io.process import cgroup, table


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


@pytest.fixture
def group() -> Iterator[Path | None]:
    """A cgroup that is marked as delegated to us, or None where we may not create one."""
    place = made()
    try:
        yield place
    finally:
        until(lambda: place is None or emptied(place), "the cgroup to be empty")


def made() -> Path | None:
    for mount in map(Path, cgroup.MOUNTS):
        if (mount / "cgroup.procs").exists():
            place = mount / f"treadle_test_{uuid.uuid4().hex}"
            try:
                place.mkdir()
                os.setxattr(place, "user.delegate", b"1")
            except OSError:
                return None
            return place
    return None


def emptied(place: Path) -> bool:
    (place / "cgroup.kill").write_text("1")
    try:
        for inner in [one for one in place.iterdir() if one.is_dir()]:
            inner.rmdir()
        place.rmdir()
    except OSError:
        return False  # they are killed but not gone yet
    return True


def started(group: Path, mark: str, *modes: str) -> tuple["subprocess.Popen[bytes]", int]:
    """The owner of a hostile tree, in this cgroup; and its keeper."""
    env = {**os.environ, "PYTHONPATH": SOURCES, "HOSTILE_MARK": mark, "OWNER_FORKS": ""}
    argv = ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh", sys.executable, "-c", OWNER, SELF, *modes]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, start_new_session=True, env=env)
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def of(group: Path, keeper: int) -> Path:
    return group / f"{cgroup.PREFIX}{keeper}-{table.start_time(keeper)}"


def all_in(place: Path, keeper: int) -> Callable[[], bool]:
    def look() -> bool:
        inside = set(map(int, (place / "cgroup.procs").read_text().split()))
        return inside >= {keeper, *(one.pid for one in table.descendants(keeper))}

    return look


def kill(pids: list[int]) -> None:
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in pids:
            os.kill(pid, number)


def test_what_is_left_of_a_killed_keeper_is_ended_by_the_next(group: Path | None) -> None:
    if group is None:
        assert cgroup.given() is None
        return
    mark = f"mark-{uuid.uuid4()}"
    first, keeper = started(group, mark, "daemon", "deaf", "session")
    try:
        place = of(group, keeper)
        until(all_in(place, keeper), "everything to be in the cgroup")
        reapers = [one.pid for one in table.descendants(keeper) if one.name == "treadle-reaper"]
        kill([first.pid, keeper, *reapers])
        assert left(mark) and place.exists()  # no one is left who could end them
    finally:
        first.kill()
        first.communicate()
    second, _ = started(group, f"mark-{uuid.uuid4()}", "deaf")
    try:
        until(lambda: not left(mark) and not place.exists(), "what was left to be ended")
        assert second.poll() is None
    finally:
        second.kill()
        second.communicate()


def test_a_keeper_that_ends_leaves_nobody_in_its_group(group: Path | None) -> None:
    if group is None:
        assert cgroup.given() is None
        return
    mark = f"mark-{uuid.uuid4()}"
    process, keeper = started(group, mark, "daemon", "chain", "dying")
    place = of(group, keeper)
    process.kill()
    process.communicate()
    assert await_none_left(mark) == []
    until(lambda: not place.exists() or (place / "cgroup.procs").read_text() == "", "the group to be empty")


def test_a_group_that_nobody_gave_us_is_left_alone(group: Path | None) -> None:
    if group is None:
        assert cgroup.given() is None
        return
    os.removexattr(group, "user.delegate")
    process, keeper = started(group, f"mark-{uuid.uuid4()}", "deaf")
    process.kill()
    process.communicate()
    assert [inner for inner in group.iterdir() if inner.is_dir()] == []


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files such as the kernel shows for a group that was given to us. What is written to them stays as it is."""
    place = tmp_path / "mount"
    place.mkdir()
    for name in ("cgroup.kill", "cgroup.procs", "cgroup.controllers", "cgroup.subtree_control"):
        (place / name).touch()
    monkeypatch.setattr(cgroup, "ROUNDS", 2)
    monkeypatch.setattr(cgroup, "MOUNTS", (str(place / "none"), str(place)))
    monkeypatch.setattr(cgroup, "PROC", str(tmp_path / "proc"))
    show(place, "self", "0::/\n")
    return place


def show(written: Path, pid: object, groups: str) -> None:
    """Show a process in these groups."""
    file = written.parent / "proc" / str(pid) / "cgroup"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(groups)


def test_a_group_is_ours_if_it_can_be_killed_written_and_was_delegated(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (written / "cgroup.kill").unlink()
    assert cgroup.given() is None, "the machine's own"
    (written / "cgroup.kill").touch()
    assert cgroup.given() == str(written) + "/", "a container's own"
    inner = written / "slice"
    inner.mkdir()
    show(written, "self", "1:cpu:/x\n0::/slice\n")
    assert cgroup.given() is None
    for name in ("cgroup.kill", "cgroup.procs"):
        (inner / name).touch()
    assert cgroup.given() is None, "no one gave it to us"
    for mark in cgroup.MARKS:
        asked: list[str] = []

        def attribute(place: str, name: str, mark: str = mark, asked: list[str] = asked) -> bytes:
            asked.append(place)
            if name != mark:
                raise OSError(errno.ENODATA, "none")
            return b"1"

        monkeypatch.setattr(os, "getxattr", attribute)
        assert cgroup.given() == str(inner) and set(asked) == {str(inner)}
        show(written, "self", "0::/slice/treadle-rest\n")
        assert cgroup.given() == str(inner), "the rest of it is in the same"
    monkeypatch.setattr(os, "getxattr", lambda place, name: b"0")
    assert cgroup.given() is None
    show(written, "self", "0::/treadle-rest\n")
    assert cgroup.given() == str(written) + "/"
    show(written, "self", "1:cpu:/\n")
    assert cgroup.given() is None, "it is in none of the second version"
    shutil.rmtree(written.parent / "proc")
    assert cgroup.given() is None and cgroup.divided() is None and cgroup.hold_in_background() is None


def test_groups_in_it_can_have_limits_if_their_controllers_are_on(written: Path) -> None:
    base = cgroup.given()
    assert base is not None
    assert cgroup.divided() is None, "there is none that could limit anything"
    (written / "cgroup.controllers").write_text("cpu memory pids\n")
    assert cgroup.divided() is None
    assert set((written / "cgroup.subtree_control").read_text().split()) == {"+memory", "+pids"}, "it was asked for"
    (written / "cgroup.subtree_control").write_text("cpu pids memory\n")
    assert cgroup.divided() == base
    (written / "cgroup.controllers").write_text("cpu pids\n")
    (written / "cgroup.subtree_control").write_text("pids\n")
    assert cgroup.divided() == base, "one of them is enough"
    (written / "cgroup.subtree_control").unlink()
    assert cgroup.divided() is None


def test_what_is_left_of_a_group_is_killed_and_one_whose_keeper_lives_is_not(written: Path) -> None:
    def make(name: str, *pids: int) -> Path:
        place = written / name
        place.mkdir()
        (place / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in pids))
        (place / "cgroup.kill").touch()
        return place

    def killed(place: Path) -> bool:
        return (place / "cgroup.kill").read_text() == "1"

    me, start = os.getpid(), table.start_time(os.getpid())
    mine, reused, gone = make(f"treadle-{me}-{start}", 5), make(f"treadle-{me}-1", 5), make("treadle-4194305-1", 5)
    limits, other, odd = make("treadle-limits-4194305-1", 5), make("4194305-1", 5), make("treadle-rest", 5)
    inner = make("treadle-limits-4194305-1/inner", 5)
    empty = written / "treadle-4194306-1"
    empty.mkdir()
    cgroup.end_lost(str(written))
    assert [killed(place) for place in (mine, reused, gone, limits, inner)] == [False, True, True, True, True]
    assert not killed(other) and not killed(odd)
    cgroup.end(str(mine))
    assert killed(mine)
    alone = make("alone", me)
    cgroup.end(str(alone))
    assert not killed(alone), "no one else is in it"
    cgroup.end(str(written / "absent"))
