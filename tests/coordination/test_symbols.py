"""Short ids for artifacts, looked up both ways."""

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
