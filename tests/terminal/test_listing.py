"""What a list says of each terminal, and who is next for a person."""

import os
from pathlib import Path

from tests.terminal.support import Stage, until
from treadle.io import files
from treadle.terminal.listing import in_line, row, rows
from treadle.terminal.places import Place

ASKS = r"printf '\033]7501;state=blocked:kind=permission\033\\'; exec cat"


def asking(stage: Stage, name: str) -> Place:
    place = stage.start("sh", "-c", ASKS, id=name)
    until(lambda: row(place)["state"] == "permission" and os.path.exists(place.summary))
    return place


def test_when_a_state_began_does_not_depend_on_when_it_is_read_nor_from_whom(stage: Stage) -> None:
    place = asking(stage, "a")
    summed_up = row(place)
    until(lambda: row(place)["state_ms"] > summed_up["state_ms"])
    assert row(place)["began"] == summed_up["began"]
    os.unlink(place.summary)
    assert row(place)["began"] == summed_up["began"]


def test_the_first_to_ask_is_the_first_in_line_whichever_is_read_first(stage: Stage) -> None:
    for name in ("z", "a", "m"):
        asking(stage, name)
    stage.start("cat", id="b")
    assert [found["id"] for found in sorted(rows(str(stage.directory)), key=in_line)] == ["z", "a", "m", "b"]


def test_one_that_has_ended_has_its_record_and_one_without_says_so(tmp_path: Path) -> None:
    place = Place(str(tmp_path), "x")
    Path(place.exit).write_text('{"format": 1, "code": 3, "reason": "why", "ended": "then", "pid": 7}')
    dead = {"id": "x", "alive": False, "state": "dead"}
    assert row(place) == {**dead, "code": 3, "reason": "why", "ended": "then"}
    Path(place.exit).write_text("broken")
    assert row(place) == {**dead, "code": None, "reason": "its supervisor wrote no exit record", "ended": None}
    assert [found["id"] for found in rows(str(tmp_path))] == ["x"]


def test_a_lock_says_that_it_lives_whatever_its_socket_says(tmp_path: Path) -> None:
    place = Place(str(tmp_path), "x")
    with files.locked(place.pid):
        Path(place.pid).write_text("11\n12")
        silent = {"id": "x", "alive": True, "state": "unknown", "idle_ms": None}
        assert row(place) == {**silent, "pid": 12, "reason": "its socket was removed and is being recreated"}
        Path(place.pid).write_text("11")
        assert row(place)["pid"] is None
