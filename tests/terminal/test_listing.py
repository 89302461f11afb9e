"""What a list says of each terminal, and who is next for a person."""

import os

from tests.terminal.support import Stage, until
from treadle.terminal.listing import row, waiting
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
    assert [found["id"] for found in waiting(str(stage.directory))] == ["z", "a", "m"]
