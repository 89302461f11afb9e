"""MCP servers as a list and as a table."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from treadle.wire.acp.connection import as_list, as_table, transport

NAMES = st.text(min_size=1)
TABLES = st.dictionaries(st.text(), st.text())
STDIO = st.fixed_dictionaries({"command": NAMES, "args": st.lists(st.text()), "env": TABLES})
REMOTE = st.fixed_dictionaries({"type": st.sampled_from(["http", "sse"]), "url": NAMES, "headers": TABLES})


@given(st.dictionaries(NAMES, STDIO | REMOTE))
def test_a_list_made_of_a_table_gives_the_table_back(table: dict[str, dict[str, Any]]) -> None:
    assert as_table(as_list(table)) == table


@given(st.recursive(st.none() | st.text() | st.integers(), lambda some: st.lists(some) | st.dictionaries(NAMES, some)))
def test_whatever_a_client_sends_is_a_table_of_names(told: Any) -> None:
    assert all(name and isinstance(entry, dict) for name, entry in as_table(told).items())


def test_the_way_to_a_server_has_one_name_whatever_other_programs_call_it() -> None:
    assert transport({"command": "x"}) == "stdio"
    assert transport({"url": "u"}) == transport({"url": "u", "type": "streamable-http"}) == "http"
    assert transport({"url": "u", "type": "sse"}) == "sse"


def test_what_is_missing_is_empty_and_what_is_odd_is_left_out() -> None:
    assert as_list({"a": {}, "b": {"url": "u"}}) == [
        {"name": "a", "command": "", "args": [], "env": []},
        {"type": "http", "name": "b", "url": "u", "headers": []},
    ]
    given = [{"name": "a", "command": "x", "env": {"A": "b"}, "later": 1}, {"name": ""}, {"name": 7}, "odd"]
    assert as_table(given) == {"a": {"command": "x", "env": {"A": "b"}}}
    assert as_table([{"name": "a", "env": ["odd", {"name": "A", "value": "b"}], "headers": 7}]) == {
        "a": {"env": {"A": "b"}, "headers": {}}
    }
    assert transport({"type": "sse"}) == "stdio"
