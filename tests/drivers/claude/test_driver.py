"""How Claude Code is started: which session, with which tools, and nothing secret on its command line."""

import uuid
from typing import Any

import pytest

from treadle.drivers.claude.driver import _options, _session_choice
from treadle.errors import ConfigError
from treadle.session import Instructions, SessionSpec, Toolset

ID = str(uuid.UUID(int=1))


def chosen(**options: Any) -> tuple[str, list[str]]:
    return _session_choice(SessionSpec.of(cwd="/", **options))


def test_a_session_goes_on_begins_with_an_id_or_is_copied_under_one() -> None:
    assert chosen(resume="s1") == ("s1", ["--resume", "s1"]) and chosen(resume="") == ("", ["--continue"])
    assert chosen(session_id=ID) == (ID, ["--session-id", ID])
    assert chosen(resume="s1", fork=True, session_id=ID) == (
        ID,
        ["--resume", "s1", "--fork-session", "--session-id", ID],
    )
    assert chosen(resume="", fork=True, session_id=ID)[1][0] == "--continue"
    made, argv = chosen()
    assert uuid.UUID(made) and argv == ["--session-id", made]


def test_an_id_that_it_would_not_take_is_refused() -> None:
    with pytest.raises(ConfigError, match="give a UUID"):
        chosen(session_id="mine")


def test_its_own_modes_decide_nothing_but_a_plan() -> None:
    for mode, own in (("plan", "plan"), ("yolo", "default"), ("auto-edit", "default"), (None, "default")):
        assert _options(SessionSpec(cwd="/", mode=mode), {})[:2] == ["--permission-mode", own]  # type: ignore[arg-type]


def test_tools_directories_and_sources_are_passed_on() -> None:
    tools = Toolset(offered=("bash", "read_file"), denied=("write_file",), only_servers=True)
    spec = SessionSpec(cwd="/", model="m", tools=tools, add_dirs=("/a", "/b"), instructions=Instructions(sources=()))
    argv = _options(spec, {"setting_sources": "user"})
    assert argv[argv.index("--tools") + 1] == "Bash,Read" and argv[argv.index("--disallowedTools") + 1] == "Write"
    assert argv.count("--add-dir") == 2 and "--strict-mcp-config" in argv
    assert "--setting-sources=" in argv, "what is asked for counts before the settings"
    assert "--setting-sources=user" in _options(SessionSpec(cwd="/"), {"setting_sources": "user"})
    assert not [word for word in _options(SessionSpec(cwd="/"), {"setting_sources": 3}) if "sources" in word]
    assert "--no-session-persistence" in _options(SessionSpec.of(cwd="/", persist=False), {})
