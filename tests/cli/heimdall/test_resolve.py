"""heimdall-resolve: short ids for artifacts."""

import json

from tests.coordination.conftest import Run


def test_symbols_are_listed_for_people_and_for_programs(heimdall: Run) -> None:
    heimdall("resolve", "set", "F1", "a\tb")
    assert heimdall("resolve", "list").stdout == "F1\ta\\tb\n"
    assert json.loads(heimdall("resolve", "list", "--json").stdout) == {"F1": "a\tb"}
    assert heimdall("resolve", "lookup", "F1").stdout == "a\tb\n"
    for words in ([], ["set", "F1"], ["F1", "F2"]):
        assert heimdall("resolve", *words).returncode == 2, words


def test_an_id_is_found_by_its_value_and_a_lookup_takes_any_name(heimdall: Run) -> None:
    assert heimdall("resolve", "set", "list", "x").stdout == "list = x\n"
    assert heimdall("resolve", "--reverse", "x").stdout == "list\n"
    assert heimdall("resolve", "--reverse", "y").returncode == 1
    assert heimdall("resolve", "lookup", "list").stdout == "x\n"
    assert heimdall("resolve", "list").stdout == "list\tx\n"
    for words in (["lookup", "a", "b"], ["list", "x"], ["set", "a", "b", "c"]):
        assert heimdall("resolve", *words).returncode == 2, words
