"""How pi is started: its session, and which of its tools it is offered."""

from typing import Any

import pytest

from treadle.drivers.pi.driver import BUILT_IN, _options
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
        ({"resume": "s1", "persist": False}, ["--session", "s1"]),
        ({"tools": ("read_file", "bash")}, ["--tools", "read,bash"]),
        ({"tools": ()}, ["--tools", ""]),
        ({"tools": ("read_file", "write_file"), "denied_tools": ("write_file",)}, ["--tools", "read"]),
    ],
)
def test_what_is_asked_for_is_on_its_command_line(options: dict[str, Any], argv: list[str]) -> None:
    assert words(**options) == argv


def test_a_tool_that_is_denied_is_taken_from_all_that_it_has() -> None:
    (_, offered) = words(denied_tools=("edit_file", "bash"))
    assert offered.split(",") == [name for name in BUILT_IN if name not in ("edit", "bash")]


def test_a_copy_of_whatever_was_last_is_refused() -> None:
    with pytest.raises(Unsupported, match="named by its id"):
        words(resume="", fork=True)
