import re

from hypothesis import given
from hypothesis import strategies as st

from treadle.wire.mcp.connection import NAME_CAP, server_prefix, tool_name


def test_a_name_has_the_server_and_the_tool_in_it() -> None:
    assert tool_name("my server", "do.it") == "mcp__my_server__do_it"


def test_two_long_names_that_differ_at_the_end_stay_two() -> None:
    assert tool_name("s" * 60, "t" * 60) != tool_name("s" * 60, "t" * 61)


@given(st.text(), st.text())
def test_any_name_is_one_that_model_services_accept(server: str, tool: str) -> None:
    name = tool_name(server, tool)
    assert len(name) <= NAME_CAP and re.fullmatch(r"mcp__[A-Za-z0-9_-]*", name)


def test_a_name_of_exactly_the_longest_length_is_left_as_it_is() -> None:
    room = NAME_CAP - len(tool_name("s", ""))
    assert tool_name("s", "t" * room) == "mcp__s__" + "t" * room
    assert tool_name("s", "t" * (room + 1)) != ("mcp__s__" + "t" * (room + 1))[:NAME_CAP]


@given(st.text(min_size=1), st.text())
def test_the_names_of_a_servers_tools_begin_with_its_prefix(server: str, tool: str) -> None:
    assert tool_name(server, tool).startswith(server_prefix(server))
    assert server_prefix("my server") == "mcp__my_server__"
