"""How Claude Code is started: which session, with which tools, and nothing secret on its command line."""

import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.drivers.claude.test_stored import keep
from tests.drivers.test_session import replayed
from treadle.drivers.card import cards
from treadle.drivers.claude.driver import WIRE, _options, _session_choice
from treadle.errors import ConfigError
from treadle.events import TurnStarted
from treadle.io.process import table
from treadle.session import Instructions, Reasoning, SessionSpec, Toolset

CLAUDE = cards()["claude"]

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


def test_what_is_not_asked_for_is_not_on_the_command_line() -> None:
    assert _options(SessionSpec(cwd="/"), {}) == ["--permission-mode", "default"]
    asked = SessionSpec(
        cwd="/",
        model="m",
        thinking=Reasoning(effort="high"),
        instructions=Instructions(plugins=("/p", "/q"), sources=("user",)),
    )
    assert _options(asked, {"setting_sources": "project"}) == [
        *("--model", "m", "--effort", "high", "--permission-mode", "default"),
        *("--plugin-dir", "/p", "--plugin-dir", "/q", "--setting-sources=user"),
    ]
    bare = _options(SessionSpec.of(cwd="/", project=False), {"setting_sources": "project"})
    assert bare == ["--permission-mode", "default", "--strict-mcp-config", "--setting-sources="]
    only = SessionSpec(cwd="/", tools=Toolset(offered=(), only_servers=True))
    assert _options(only, {}) == ["--permission-mode", "default", "--tools", "", "--strict-mcp-config"]
    with pytest.raises(ConfigError) as wrong:
        chosen(resume="s1", fork=True, session_id="x")
    assert wrong.value.hint == "give a UUID" and "'x' cannot be the id" in wrong.value.message


async def test_a_session_that_goes_on_is_opened_with_its_id_and_its_history(tmp_path: Path) -> None:
    agent, environ = replayed(CLAUDE, "resumed"), {"CLAUDE_CONFIG_DIR": str(tmp_path)}
    keep(tmp_path, tmp_path, "before", "the-old-one")
    session = await agent.open(SessionSpec.of(cwd=str(tmp_path), resume="the-old-one", env=environ))
    try:
        words = table.command_line(session.peer.child.pid)  # type: ignore[attr-defined]
        assert words[-4:] == ["--resume", "the-old-one", "--permission-mode", "default"]
        assert " ".join(WIRE) in " ".join(words)
        assert [event.prompt for event in session.history() if isinstance(event, TurnStarted)] == ["before"]  # type: ignore[attr-defined]
        menu = await session.menu()  # type: ignore[attr-defined]
        assert menu.current == "default" and "sonnet" in [one.id for one in menu.offered]
    finally:
        await session.close()


async def test_the_sessions_of_a_directory_are_listed_by_the_agent(tmp_path: Path) -> None:
    agent = replayed(CLAUDE, "text", environ={"CLAUDE_CONFIG_DIR": str(tmp_path)})
    keep(tmp_path, tmp_path, "here", ID)
    assert [one.title for one in await agent.stored_sessions(str(tmp_path))] == ["here"]
    assert await agent.stored_sessions("/elsewhere") == [] and len(await agent.stored_sessions()) == 1
