"""A summary says what the supervisor would say, and is not trusted when that may have changed."""

import os
import signal
from pathlib import Path

from tests.terminal.support import Stage, connected, until
from tests.waiting import stop
from treadle.terminal import summary
from treadle.terminal.places import Place


def of(place: Place) -> dict[str, object]:
    return summary.read(place) or {}


def test_it_says_what_the_supervisor_says(stage: Stage) -> None:
    place = stage.start("sh", "-c", "echo hello; PS1='sh$ ' exec sh -i", workdir="/")
    until(lambda: of(place).get("state") == "idle" and of(place).get("last_line") == "sh$")
    with connected(place) as client:
        detail = client.detail()
    row = of(place)
    assert row["pid"] == detail["pid"] == place.pids()[1]
    assert [row[key] for key in ("command", "workdir", "started")] == [
        detail[key] for key in ("command", "workdir", "started")
    ]
    assert row["alive"] is True and row["id"] == place.id
    assert isinstance(row["state_ms"], int) and isinstance(row["idle_ms"], int)


def test_the_summary_follows_the_state(stage: Stage) -> None:
    place = stage.start("sh", "-c", "PS1='sh$ ' exec sh -i")
    until(lambda: of(place).get("state") == "idle")
    with connected(place) as client:
        client.input(b"printf '\\033]7501;state=blocked:kind=permission\\033\\\\'; sleep 60\n")
        until(lambda: of(place).get("state") == "permission")


def test_that_of_a_supervisor_that_is_stopped_is_not_believed(stage: Stage) -> None:
    place = stage.start("sleep", "60")
    until(lambda: of(place))
    stop(place.pids()[0])
    until(lambda: summary.read(place) is None)
    os.kill(place.pids()[0], signal.SIGCONT)
    until(lambda: of(place))


def test_after_a_hook_has_reported_the_supervisor_is_asked(stage: Stage) -> None:
    place = stage.start("sleep", "60")
    until(lambda: of(place))
    Path(place.state).write_text("idle\n")
    assert summary.read(place) is None


def test_there_is_none_when_the_program_has_ended_or_the_supervisor_is_gone(stage: Stage) -> None:
    ended = stage.start("true")
    until(lambda: not os.path.exists(ended.summary))
    killed = stage.start("sleep", "60")
    until(lambda: of(killed))
    os.kill(killed.pids()[0], signal.SIGKILL)
    until(lambda: not os.path.exists(killed.summary))
    assert summary.read(killed) is None


def test_one_that_cannot_be_read_is_none(stage: Stage) -> None:
    place = stage.start("sleep", "60")
    until(lambda: of(place))
    for text in (b"", b"{", b"[]", b'{"format": 7}', b'{"format": 1}', b"\xff"):
        Path(place.summary).write_bytes(text)
        assert summary.read(place) is None
