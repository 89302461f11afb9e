"""The sessions that Claude Code keeps, found in its files."""

import json
import os
from pathlib import Path

from tests.drivers.test_session import replayed
from treadle.drivers.card import cards
from treadle.drivers.claude import stored
from treadle.drivers.claude.stored import History, stored_sessions
from treadle.drivers.places import filled, place_of
from treadle.events import TurnStarted
from treadle.session import SessionSpec

CARD = cards()["claude"]
ID = "951a0b96-ba4e-4647-84cb-7d7578edcae5"


def keep(home: Path, cwd: Path, prompt: str, session: str = ID) -> Path:
    path = Path(filled(place_of(CARD, {"CLAUDE_CONFIG_DIR": str(home)}), session, str(cwd)))
    path.parent.mkdir(parents=True, exist_ok=True)
    record = {"type": "user", "uuid": "u", "message": {"content": prompt}, "cwd": str(cwd)}
    path.write_text(json.dumps(record) + "\n" if prompt else "")
    return path


def test_the_history_is_what_was_there_when_the_session_was_opened(tmp_path: Path) -> None:
    path = keep(tmp_path, tmp_path, "before")
    history = History(CARD, {"CLAUDE_CONFIG_DIR": str(tmp_path)}, ID, str(tmp_path))
    with path.open("a") as file:
        file.write(json.dumps({"type": "user", "uuid": "v", "parentUuid": "u", "message": {"content": "after"}}))
    assert [event.prompt for event in history.events() if isinstance(event, TurnStarted)] == ["before"]
    assert History(CARD, {"CLAUDE_CONFIG_DIR": str(tmp_path)}, "", str(tmp_path)).events() == []


def test_sessions_of_a_directory_or_all_are_listed_latest_first(tmp_path: Path) -> None:
    environ, here, there = {"CLAUDE_CONFIG_DIR": str(tmp_path)}, tmp_path / "here", tmp_path / "there"
    old = keep(tmp_path, here, "old")
    os.utime(old, (1, 1))
    keep(tmp_path, here, "new", ID.replace("9", "8"))
    keep(tmp_path, here, "", ID.replace("9", "7"))
    keep(tmp_path, here, "a subagent", "agent-1")
    keep(tmp_path, there, "elsewhere", ID.replace("9", "6"))
    assert [(one.title, one.cwd) for one in stored_sessions(CARD, environ, str(here))] == [
        ("new", str(here)),
        ("old", str(here)),
    ]
    assert {one.title for one in stored_sessions(CARD, environ, None)} == {"new", "old", "elsewhere"}


async def test_a_resumed_session_has_its_history_and_its_models(tmp_path: Path) -> None:
    agent = replayed(CARD, "resumed")
    home = {"CLAUDE_CONFIG_DIR": str(tmp_path)}
    keep(tmp_path, tmp_path, "before", "the-old-one")
    session = await agent.open(SessionSpec.of(cwd=str(tmp_path), resume="the-old-one", env=home))
    try:
        assert [event.prompt for event in session.history() if isinstance(event, TurnStarted)] == ["before"]  # type: ignore[attr-defined]
        menu = await session.menu()  # type: ignore[attr-defined]
        assert menu.current == "default" and "sonnet" in [one.id for one in menu.offered]
    finally:
        await session.close()


def test_a_session_that_is_too_long_is_not_read(tmp_path: Path) -> None:
    path = keep(tmp_path, tmp_path, "before")
    os.truncate(path, stored.LONGEST + 1)
    history = History(CARD, {"CLAUDE_CONFIG_DIR": str(tmp_path)}, ID, str(tmp_path))
    assert history.too_long and history.events() == []
