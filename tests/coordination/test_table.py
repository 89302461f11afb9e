"""Tables of short texts: symbols and facts."""

from pathlib import Path

import pytest

from tests.coordination.conftest import trail
from treadle.coordination.ledger import Blackboard, Symbols
from treadle.coordination.planning import Planning
from treadle.errors import ConfigError, NotFound


@pytest.mark.parametrize("key", ["", "a\tb", "a\nb"])
def test_a_key_that_would_break_a_list_is_refused(planning: Planning, key: str) -> None:
    with pytest.raises(ConfigError):
        Symbols(planning).set(key, "v")


def test_values_that_others_stored_as_numbers_are_texts(planning: Planning) -> None:
    Blackboard(planning).document.create()
    Path(planning.path("blackboard.json")).write_text('{"version":"2.0.0","facts":{"port":5173,"on":true}}')
    assert Blackboard(planning).get("port") == "5173"
    assert Blackboard(planning).all() == {"port": "5173", "on": "true"}


def test_a_removed_fact_is_gone_and_the_others_stay(planning: Planning) -> None:
    board = Blackboard(planning)
    board.set("port", "5173")
    board.set("url", "http://localhost")
    board.delete("port")
    board.delete("never there")
    assert board.all() == {"url": "http://localhost"}
    assert [row for row in trail(planning) if row[1] == "del"] == [
        ["blackboard", "del", "port"],
        ["blackboard", "del", "never there"],
    ]
    with pytest.raises(NotFound, match="heimdall-blackboard list"):
        board.get("port")


def test_of_several_ids_for_one_value_the_first_is_found(planning: Planning) -> None:
    symbols = Symbols(planning)
    for name, value in (("b", "other"), ("a", "same"), ("c", "same")):
        symbols.set(name, value)
    assert symbols.reverse("same") == "a"
    with pytest.raises(NotFound, match="no symbol has the value 'nothing'"):
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
