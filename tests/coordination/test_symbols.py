"""Short ids for artifacts, looked up both ways."""

from pathlib import Path

import pytest

from tests.coordination.conftest import trail
from treadle.coordination.planning import Planning
from treadle.coordination.symbols import Symbols
from treadle.errors import NotFound


def test_of_several_ids_for_one_value_the_first_is_found(planning: Planning) -> None:
    symbols = Symbols(planning)
    for name, value in (("b", "other"), ("a", "same"), ("c", "same")):
        symbols.set(name, value)
    assert symbols.reverse("same") == "a"
    with pytest.raises(NotFound, match="no symbol stands for 'nothing'"):
        symbols.reverse("nothing")
    assert trail(planning)[-2:] == [["resolve", "reverse", "same->a"], ["resolve", "miss", "nothing->"]]


def test_values_keep_their_ids_and_new_ones_get_the_next_of_their_letter(planning: Planning) -> None:
    symbols = Symbols(planning)
    symbols.set("F12", "a.py")
    symbols.set("FACE", "b.py")
    wanted = {"a.py": "F", "b.py": "F", "make test": "C"}
    assert symbols.assigned(wanted) == {"a.py": "F12", "b.py": "F13", "make test": "C1"}
    before = Path(symbols.document.path).read_bytes()
    assert symbols.assigned({"make test": "C", "a.py": "F"}) == {"make test": "C1", "a.py": "F12"}
    assert Path(symbols.document.path).read_bytes() == before
