"""If we may create cgroups and everything of ours is killed at once, the next keeper ends what is left.

Not every machine lets us create a cgroup. Where it does not, the tests check that we notice.
"""

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.io.process.hostile import SELF, left
from tests.io.process.trees import OWNER, ROOT
from tests.terminal.support import until
from treadle.io.process import cgroup, table


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
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "HOSTILE_MARK": mark, "OWNER_FORKS": ""}
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
    until(lambda: not place.exists() or (place / "cgroup.procs").read_text() == "", "the group to be empty")
    assert left(mark) == []


def test_a_group_that_nobody_gave_us_is_left_alone(group: Path | None) -> None:
    if group is None:
        assert cgroup.given() is None
        return
    os.removexattr(group, "user.delegate")
    process, keeper = started(group, f"mark-{uuid.uuid4()}", "deaf")
    process.kill()
    process.communicate()
    assert [inner for inner in group.iterdir() if inner.is_dir()] == []
