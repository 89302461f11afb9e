"""How pi is started: its session, and which of its tools it is offered."""

from typing import Any

import pytest

from treadle.drivers.pi.driver import _options
from treadle.errors import Unsupported
from treadle.session import SessionSpec


def words(**options: Any) -> list[str]:
    return _options(SessionSpec.of(cwd="/", **options))


@pytest.mark.parametrize(
    ("options", "argv"),
    [
        ({}, []),
        ({"model": "m"}, ["--model", "m"]),
        ({"resume": ""}, ["--continue"]),
        ({"resume": "s1"}, ["--session", "s1"]),
        ({"resume": "s1", "fork": True}, ["--fork", "s1"]),
        ({"persist": False}, ["--no-session"]),
        ({"tools": ("read_file", "bash")}, ["--tools", "read,bash"]),
        ({"tools": ()}, ["--tools", ""]),
        ({"tools": ("read_file", "write_file"), "denied_tools": ("write_file",)}, ["--tools", "read"]),
    ],
)
def test_what_is_asked_for_is_on_its_command_line(options: dict[str, Any], argv: list[str]) -> None:
    assert words(**options) == argv


def test_a_tool_that_is_denied_is_taken_from_those_it_offers_by_itself() -> None:
    assert words(denied_tools=("edit_file", "bash")) == ["--tools", "read,write"]


def test_a_session_that_goes_on_cannot_be_one_that_is_not_stored() -> None:
    with pytest.raises(Unsupported, match="keeps a session that goes on"):
        words(resume="s1", persist=False)


def test_a_copy_of_whatever_was_last_is_refused() -> None:
    with pytest.raises(Unsupported, match="named by its id"):
        words(resume="", fork=True)
