"""A summary says what the supervisor would say, and is not trusted when that may have changed."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.terminal.support import Stage, until
from tests.waiting import stop
from treadle.io import files
from treadle.terminal import history
from treadle.terminal.places import Place


def of(place: Place) -> dict[str, object]:
    return history.read(place) or {}


def test_that_of_a_supervisor_that_is_stopped_is_not_believed(stage: Stage) -> None:
    place = stage.start("sleep", "60")
    until(lambda: of(place))
    stop(place.pids()[0])
    until(lambda: history.read(place) is None)
    os.kill(place.pids()[0], signal.SIGCONT)
    until(lambda: of(place))


def test_after_a_hook_has_reported_the_supervisor_is_asked(stage: Stage) -> None:
    place = stage.start("sleep", "60")
    until(lambda: of(place))
    Path(place.state).write_text("idle\n")
    assert history.read(place) is None


def test_there_is_none_when_the_program_has_ended_or_the_supervisor_is_gone(stage: Stage) -> None:
    ended = stage.start("true")
    until(lambda: not os.path.exists(ended.summary))
    killed = stage.start("sleep", "60")
    until(lambda: of(killed))
    os.kill(killed.pids()[0], signal.SIGKILL)
    until(lambda: not os.path.exists(killed.summary))
    assert history.read(killed) is None


def test_one_that_cannot_be_read_is_none(stage: Stage) -> None:
    place = stage.start("sleep", "60")
    until(lambda: of(place))
    for text in (b"", b"{", b"[]", b'{"format": 7}', b'{"format": 1}', b"\xff"):
        Path(place.summary).write_bytes(text)
        assert history.read(place) is None


@pytest.fixture
def written(tmp_path: Path) -> Iterator[Place]:
    """A summary of a terminal that this process supervises."""
    place = Place(str(tmp_path), "x")
    state = {"name": "idle", "since_ms": 5000, "began": 7, "agent": "claude", "message": None, "hint": "idle"}
    with files.locked(place.pid):
        detail = {"supervisor": os.getpid(), "state_file": place.state, "pid": 9, "state": state, "command": ["sh"]}
        history.write(place, {**detail, "workdir": "/", "started": "then", "last_line": "l", "prompts": []}, 2000)
        yield place


def test_times_are_right_when_it_is_read_later(written: Place) -> None:
    row = of(written)
    assert {key: row[key] for key in ("id", "alive", "pid", "state", "began", "agent", "message", "hint")} == {
        "id": "x", "alive": True, "pid": 9, "state": "idle", "began": 7, "agent": "claude", "message": None,
        "hint": "idle",
    }  # fmt: skip
    assert {key: row[key] for key in ("command", "workdir", "started", "last_line", "prompts")} == {
        "command": ["sh"], "workdir": "/", "started": "then", "last_line": "l", "prompts": []
    }  # fmt: skip
    assert 5000 <= int(str(row["state_ms"])) < 65_000 and 2000 <= int(str(row["idle_ms"])) < 62_000
    Path(written.out).write_text("output since")
    assert int(str(of(written)["idle_ms"])) < 2000
    os.utime(written.out, (1 << 40, 1 << 40))
    assert of(written)["idle_ms"] == 0


def test_a_report_of_the_same_moment_may_be_the_newer_one(written: Place) -> None:
    Path(written.state).touch()
    for of_report, trusted in ((50, True), (100, False), (101, False)):
        os.utime(written.summary, (100, 100))
        os.utime(written.state, (of_report, of_report))
        assert bool(of(written)) is trusted


def test_it_is_trusted_only_with_its_lock_and_its_supervisor(tmp_path: Path, written: Place) -> None:
    text = Path(written.summary).read_text()
    Path(written.summary).write_text(text.replace(str(os.getpid()), "999999999"))
    assert of(written) == {}
    Path(written.summary).write_text(text)
    assert of(written)
    free = Place(str(tmp_path), "free")
    Path(free.summary).write_text(text)
    Path(free.pid).touch()
    assert of(free) == {}
