"""One supervisor for each id; what a dead one left behind is no obstacle."""

import fcntl
import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.terminal.support import Launcher, Stage, alive, connected, until
from treadle.errors import Busy, StorageError
from treadle.io.process import table
from treadle.terminal import lock
from treadle.terminal.places import Place


def test_a_second_supervisor_of_one_id_is_refused_with_who_has_it(stage: Stage) -> None:
    place = stage.start("sleep", "60", id="one")
    with pytest.raises(RuntimeError, match=rf"is already running: supervisor {place.pids()[0]}"):
        stage.start("sleep", "60", id="one")
    with connected(place) as client:
        assert client.status().alive == 1


@pytest.mark.parametrize("content", ["", "garbage\nmore", "999999999\n999999998", "12"], ids=repr)
def test_a_stale_pid_file_is_taken_over(stage: Stage, content: str) -> None:
    (stage.directory / "old.pid").write_text(content)
    (stage.directory / "old.sock").write_text("not a socket")
    place = stage.start("sleep", "60", id="old")
    with connected(place) as client:
        assert client.status().alive == 1


def test_of_many_that_start_at_once_exactly_one_wins(tmp_path: Path) -> None:
    def start(launcher: Launcher) -> bool:
        try:
            Stage(tmp_path, launcher).start("sleep", "60", id="same")
            return True
        except RuntimeError:
            return False

    tmp_path.chmod(0o700)
    launchers = [Launcher() for _ in range(5)]
    with ThreadPoolExecutor(5) as pool:
        won = list(pool.map(start, launchers))
    Stage(tmp_path).close()
    for launcher in launchers:
        launcher.close()
    assert won.count(True) == 1


def test_a_lock_held_by_another_supervisor_of_this_protocol_counts(stage: Stage) -> None:
    path = stage.directory / "theirs.pid"
    path.write_text("4242\n4243")
    with path.open("r+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(RuntimeError, match="supervisor 4242, program 4243"):
            stage.start("true", id="theirs")


def test_a_child_that_outlived_its_supervisor_gets_no_twin(tmp_path: Path) -> None:
    place = Place(str(tmp_path), "x")
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, start_new_session=True) as child:
        Path(place.pid).write_text(f"999999999\n{child.pid}")
        with pytest.raises(Busy, match=f"process {child.pid} is still running"):
            lock.take(place)
        child.communicate()
    lock.take(place).remove()


def test_the_lock_is_on_the_file_that_is_there_now(tmp_path: Path) -> None:
    place = Place(str(tmp_path), "x")
    held = lock.take(place)
    held.write(1, 2)
    assert Path(place.pid).read_bytes() == b"1\n2"
    with pytest.raises(Busy):
        lock.take(place)
    held.remove()
    lock.take(place).remove()
    assert not os.path.exists(place.pid)


def test_one_whose_files_were_removed_leaves_those_of_the_next_alone(stage: Stage) -> None:
    first = stage.start("sleep", "60", id="x")
    before = first.pids()[0]
    for path in stage.directory.glob("x.*"):
        path.unlink(missing_ok=True)  # a summary is written beside and renamed
    place = stage.start("sleep", "60", id="x")
    os.kill(before, signal.SIGTERM)
    until(lambda: not alive(before))
    assert place.pids()[0] not in (0, before)
    assert not os.path.exists(place.exit)
    with connected(place) as client:
        assert client.status().alive == 1


@pytest.mark.slow
def test_one_that_was_killed_after_its_files_were_removed_leaves_those_of_the_next_alone(stage: Stage) -> None:
    first = stage.start("sleep", "60", id="x")
    before = first.pids()[0]
    (reaper,) = [found.pid for found in table.processes() if found.parent == before]
    for path in stage.directory.glob("x.*"):
        path.unlink(missing_ok=True)  # a summary is written beside and renamed
    place = stage.start("sleep", "60", id="x")
    os.kill(before, signal.SIGKILL)
    until(lambda: not alive(reaper))
    assert place.pids()[0] not in (0, before)
    with connected(place) as client:
        assert client.status().alive == 1


def test_a_pid_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    place = Place(str(tmp_path), "x")
    Path(place.pid).write_text("")
    fd = os.open(place.pid, os.O_RDONLY)
    with pytest.raises(StorageError, match=rf"cannot write {place.pid}"):
        lock.Lock(place, fd).write(1)
    os.close(fd)


def test_a_pid_file_is_private_and_one_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    place = Place(str(tmp_path), "x")
    Path(place.pid).write_text("999999999\n")
    os.chmod(place.pid, 0o644)
    held = lock.take(place)
    assert os.stat(place.pid).st_mode & 0o777 == 0o600 and not os.get_inheritable(held.fd)
    held.write(7)
    assert Path(place.pid).read_bytes() == b"7\n"
    held.remove()
    with pytest.raises(StorageError, match="cannot open"):
        lock.take(Place(str(tmp_path / "nowhere"), "x"))
