"""`kill -9` of any process leaves nothing behind."""

import json
import os
import signal
from pathlib import Path

import pytest

from tests.terminal.support import Stage, alive, connected, log_lines, until
from treadle.io.process import table
from treadle.terminal import aftermath, lock
from treadle.terminal.places import Place

HOSTILE = r"""
import os, signal, sys, time
def hide(levels):
    for number in (1, 2, 3, 15):
        signal.signal(number, signal.SIG_IGN)
    for kind in range(levels):
        if os.fork() == 0:
            os.setsid()
            if os.fork():
                os._exit(0)                       # a daemon: its parent is gone
            if kind % 2:
                os.execvpe("env", ["env", "-i", "sleep", "60"], {})   # without a trace of our environment
            for fd in range(3):
                os.close(fd)
            time.sleep(60)
        os.wait()                                 # the one between; what it left is the reaper's now
    print("ready", flush=True)
    time.sleep(60)
hide(4)
"""


def family(place: Place) -> tuple[int, int, list[table.Process]]:
    """The reaper, the supervisor, and everything below the reaper."""
    supervisor, child = place.pids()
    (reaper,) = [process for process in table.processes() if process.parent == supervisor]
    return reaper.pid, supervisor, table.descendants(reaper.pid)


def gone(members: list[table.Process]) -> bool:
    return not [member for member in members if table.start_time(member.pid) == member.start and alive(member.pid)]


def hostile(stage: Stage) -> tuple[Place, int, int, list[table.Process]]:
    place = stage.python(HOSTILE)
    with connected(place) as client:
        assert b"ready" in next(client.output(50))
    reaper, supervisor, members = family(place)
    assert len(members) == 5  # the child and four hidden ones
    return place, reaper, supervisor, members


def test_killing_the_supervisor_leaves_nothing_of_a_hostile_tree(stage: Stage) -> None:
    place, reaper, supervisor, members = hostile(stage)
    os.kill(supervisor, signal.SIGKILL)
    until(lambda: gone(members) and not alive(reaper))
    assert not os.path.exists(place.sock) and not os.path.exists(place.pid)
    record = json.loads(Path(place.exit).read_text())
    assert record["code"] == 137 and "supervisor" in record["reason"]
    assert log_lines(place)[-1]["event"] == "supervisor died"


def test_killing_the_supervisors_whole_session_leaves_nothing_either(stage: Stage) -> None:
    place, reaper, supervisor, members = hostile(stage)
    os.killpg(os.getpgid(supervisor), signal.SIGKILL)
    until(lambda: gone(members) and not alive(reaper))
    assert not os.path.exists(place.pid)


def test_killing_the_reaper_makes_the_supervisor_end_the_program_in_order(stage: Stage) -> None:
    place = stage.start("sh", "-c", "sleep 60 & wait")
    reaper, supervisor, members = family(place)
    os.kill(reaper, signal.SIGKILL)
    until(lambda: gone(members) and not alive(supervisor))
    assert not os.path.exists(place.pid)
    assert json.loads(Path(place.exit).read_text())["code"] == 143


def test_killing_the_child_is_an_exit_like_any_other(stage: Stage) -> None:
    place = stage.start("sleep", "60")
    with connected(place) as client:
        os.kill(place.pids()[1], signal.SIGKILL)
        assert list(client.output(50)) == []
        assert client.exit_code == 137


def test_a_hostile_tree_is_ended_by_stop_with_a_report(stage: Stage) -> None:
    place, _, _, members = hostile(stage)
    with connected(place) as client:
        report = client.stop(grace=0.3)
    assert gone(members)
    assert len(report["ended"]) == 5 and report["survivors"] == []
    assert "SIGKILL" in {entry["by"] for entry in report["ended"]}


def test_a_supervisor_that_fails_is_cleaned_up_after(stage: Stage, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="directory"):
        stage.start("sleep", "60", workdir=str(tmp_path / "no" / "such" / "directory"))
    assert list(stage.directory.glob("*.pid")) == []
    stage.start("sleep", "60", id="t1")


@pytest.fixture
def died(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A terminal whose supervisor has just died, with its lock where the one who cleans up gets it."""
    place = Place(str(tmp_path), "new")
    held = lock.take(place)
    held.write(os.getpid(), 77)
    monkeypatch.setattr(aftermath, "LOCK", held.fd)
    for path in (place.sock, place.state, place.summary):
        Path(path).touch()
    return place


def clean_up(place: Place, *command: str, started_as: str = "new", killed: str = "") -> None:
    aftermath.main([place.directory, started_as, str(Path(place.directory) / "x.log"), *command, killed])


def test_the_end_is_recorded_under_the_last_id_and_what_others_would_trip_over_is_removed(
    died: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    clean_up(died, "sh", "-c", "x", killed="12,13")
    record = json.loads(Path(died.exit).read_text())
    assert record.pop("ended").endswith("Z")
    said = {"code": 137, "reason": aftermath.REASON, "command": ["sh", "-c", "x"], "pid": 77}
    assert record == {"format": 1, "id": "new", **said}
    (line,) = [json.loads(line) for line in (Path(died.directory) / "x.log").read_text().splitlines()]
    assert (line["level"], line["event"], line["session"]) == ("error", "supervisor died", "new")
    assert line["ended"] == [12, 13] and line["reason"] == aftermath.REASON
    assert sorted(path.name for path in Path(died.directory).iterdir()) == ["new.exit", "x.log"]
    assert synced == [], "whoever wants the id waits for this"
    with pytest.raises(OSError):
        os.fstat(aftermath.LOCK)


def test_what_is_recorded_already_stays_and_nothing_may_have_been_killed(died: Place) -> None:
    Path(died.exit).write_text("how it ended")
    os.unlink(died.sock)
    clean_up(died)
    assert Path(died.exit).read_text() == "how it ended" and not os.path.exists(died.summary)
    assert json.loads((Path(died.directory) / "x.log").read_text())["ended"] == []


def test_another_terminal_that_has_the_id_by_now_keeps_its_files(died: Place) -> None:
    os.unlink(died.pid)
    Path(died.pid).write_text("1\n2")
    clean_up(died, started_as="new")
    assert os.path.exists(died.sock) and os.path.exists(died.pid) and not os.path.exists(died.exit)
