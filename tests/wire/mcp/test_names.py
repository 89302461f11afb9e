import re

from hypothesis import given
from hypothesis import strategies as st

from treadle.wire.mcp.names import NAME_CAP, tool_name


def test_a_name_has_the_server_and_the_tool_in_it() -> None:
    assert tool_name("my server", "do.it") == "mcp__my_server__do_it"


def test_two_long_names_that_differ_at_the_end_stay_two() -> None:
    assert tool_name("s" * 60, "t" * 60) != tool_name("s" * 60, "t" * 61)


@given(st.text(), st.text())
def test_any_name_is_one_that_model_services_accept(server: str, tool: str) -> None:
    name = tool_name(server, tool)
    assert len(name) <= NAME_CAP and re.fullmatch(r"mcp__[A-Za-z0-9_-]*", name)
