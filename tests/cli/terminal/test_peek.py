"""`treadle peek`: the screen as it is."""

import json
from pathlib import Path

import pytest

from tests.cli.terminal.shells import Here
from tests.terminal.support import connected, until


def test_peek_shows_the_screen(here: Here, tmp_path: Path) -> None:
    place = here.stage.start("sh", "-c", "printf '\\n\\033[31mred\\n \\n'; cat", id="x", cols=40, rows=6)
    with connected(place) as client:
        until(lambda: client.detail()["output"]["end"])
    assert here("peek", "x") == "\nred\n"
    found = json.loads(here("peek", "x", "--json"))
    assert found["cursor"] == {"x": 0, "y": 3, "visible": True} and len(found["lines"]) == 6
    picture = tmp_path / "x.png"
    assert here("peek", "x", "--png", str(picture)) == ""
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_an_empty_screen_is_nothing_and_one_that_has_ended_is_still_there(here: Here) -> None:
    here.stage.start("cat", id="x", cols=40, rows=6)
    assert here("peek", "x") == ""
    place = here.stage.start("echo", "last words", id="y", linger=0.0)
    until(lambda: not Path(place.pid).exists())
    assert here("peek", "y") == "last words\n"


@pytest.mark.parametrize(("words", "code"), [((), 2), (("x", "y"), 2), (("nowhere",), 1)])
def test_one_terminal_that_exists_is_named(here: Here, words: tuple[str, ...], code: int) -> None:
    assert here.run("peek", *words)[:2] == (code, "")
