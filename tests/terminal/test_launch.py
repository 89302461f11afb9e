"""Starting a terminal: what is refused before anything runs, and what is cleaned up first."""

import os
from pathlib import Path

import pytest

from tests.terminal.support import Stage, connected, until, watch


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"id": "../x"}, "cannot be the id"), ({"workdir": "/no/such"}, "/no/such"), ({"cols": 70000}, "cols")],
)
def test_what_makes_no_sense_is_refused_and_leaves_nothing(
    stage: Stage, settings: dict[str, object], words: str
) -> None:
    with pytest.raises(RuntimeError, match=words):
        stage.start("true", **settings)
    assert list(stage.directory.iterdir()) == []


def test_the_files_of_an_earlier_session_of_the_same_id_are_put_away(stage: Stage) -> None:
    place = stage.start("sh", "-c", "echo first; exit 1", id="x", linger=0.0)
    until(lambda: not os.path.exists(place.pid))
    assert watch(stage.start("sh", "-c", "echo second", id="x"))[0] == b"second\r\n"
    assert Path(place.out).read_bytes() == b"second\r\n"


def test_a_directory_with_a_long_name_gets_a_short_socket(tmp_path: Path) -> None:
    directory = tmp_path / ("d" * 100)
    directory.mkdir(mode=0o700)
    stage = Stage(directory)
    try:
        place = stage.start("sleep", "60")
        assert len(place.sock) <= 107 and not place.sock.startswith(str(directory))
        with connected(place) as client:
            assert client.status().alive == 1
    finally:
        stage.close()
