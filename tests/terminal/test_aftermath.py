"""`kill -9` of any process leaves nothing behind."""

import json
import os
import signal
from pathlib import Path

import pytest

from tests.terminal.support import Stage, alive, connected, log_lines, until
from treadle.io.process import table
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


def test_killing_the_reaper_of_a_hostile_tree_leaves_nothing_of_it(stage: Stage) -> None:
    _, reaper, supervisor, members = hostile(stage)
    os.kill(reaper, signal.SIGKILL)
    until(lambda: gone(members) and not alive(supervisor))


def test_killing_the_child_is_an_exit_like_any_other(stage: Stage) -> None:
    place = stage.start("sleep", "60")
    with connected(place) as client:
        os.kill(place.pids()[1], signal.SIGKILL)
        assert list(client.output(50)) == []
        assert client.exit_code == 137


def test_killing_a_client_is_felt_by_nobody(stage: Stage) -> None:
    place = stage.start("sh", "-c", "while :; do echo x; done")
    pid = os.fork()
    if pid == 0:
        with connected(place) as client:
            for _ in client.output(50):
                pass
        os._exit(0)
    with connected(place) as client:
        until(lambda: any(other["subscribed"] for other in client.detail()["clients"]))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        until(lambda: len(client.detail()["clients"]) == 1)
        assert client.status().alive == 1


def test_a_hostile_tree_is_ended_by_stop_with_a_report(stage: Stage) -> None:
    place, _, _, members = hostile(stage)
    with connected(place) as client:
        report = client.stop(grace=0.3)
    assert gone(members)
    assert len(report["ended"]) == 5 and report["survivors"] == []
    assert "SIGKILL" in {entry["by"] for entry in report["ended"]}


def test_a_supervisor_that_fails_is_cleaned_up_after(stage: Stage, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="asciicast|record|directory"):
        stage.start("sleep", "60", record=str(tmp_path / "no" / "such" / "directory.cast"))
    assert list(stage.directory.glob("*.pid")) == []
    stage.start("sleep", "60", id="t1")
