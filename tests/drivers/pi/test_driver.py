"""How pi is started: its session, and which of its tools it is offered."""

from pathlib import Path
from typing import Any

import pytest

from tests.drivers.talks import SAYS, WAITS, written
from tests.drivers.test_session import replayed
from treadle.drivers.card import cards
from treadle.drivers.pi.driver import EXTENSION, _options, level_of
from treadle.errors import Unsupported
from treadle.io.process import table
from treadle.session import Reasoning, SessionSpec


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
    with pytest.raises(Unsupported, match="always saves a resumed"):
        words(resume="s1", persist=False)


def test_a_copy_of_whatever_was_last_is_refused() -> None:
    with pytest.raises(Unsupported, match="named by its id"):
        words(resume="", fork=True)


def test_how_much_it_thinks_is_on_its_command_line_in_its_own_words() -> None:
    assert words(thinking=Reasoning(effort="high")) == ["--thinking", level_of("high")]
    assert words(thinking=Reasoning(effort="none")) == ["--thinking", level_of("none")]
    assert words(resume="s1", tools=("edit_file", "glob"), denied_tools=("edit_file",))[-2:] == ["--tools", "find"]


async def test_a_session_has_the_id_that_pi_says_and_our_extension(tmp_path: Path) -> None:
    state = {"id": "treadle-1", "command": "get_state", "success": True, "data": {"sessionId": "s2"}}
    talk = ((WAITS, {"type": "get_state", "id": "treadle-1"}), (SAYS, {"type": "response", **state}))
    agent = replayed(cards()["pi"], written(tmp_path / "talk.jsonl", *talk))
    session = await agent.open(SessionSpec.of(cwd=str(tmp_path), resume="s1"))
    try:
        line = table.command_line(session.peer.child.pid)  # type: ignore[attr-defined]
        assert session.id == "s2" and line[-4:] == ["--extension", EXTENSION, "--session", "s1"]
    finally:
        await session.close()
