"""The sessions that Claude Code keeps, found in its files."""

import json
import os
from pathlib import Path

import pytest

from treadle.drivers.card import cards, filled, place_of
from treadle.drivers.claude import driver
from treadle.drivers.claude.driver import History, stored_sessions
from treadle.events import TurnStarted

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


def test_a_session_that_is_too_long_is_not_read(tmp_path: Path) -> None:
    path = keep(tmp_path, tmp_path, "before")
    os.truncate(path, driver.LONGEST + 1)
    history = History(CARD, {"CLAUDE_CONFIG_DIR": str(tmp_path)}, ID, str(tmp_path))
    assert history.too_long and history.events() == []


def test_a_session_of_exactly_the_longest_length_is_read_and_only_the_latest_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = {"CLAUDE_CONFIG_DIR": str(tmp_path)}
    path = keep(tmp_path, tmp_path, "before")
    monkeypatch.setattr(driver, "LONGEST", path.stat().st_size)
    history = History(CARD, environ, ID, str(tmp_path))
    assert not history.too_long and len(history.events()) == 1
    assert not History(CARD, environ, "unknown", str(tmp_path)).too_long
    os.utime(keep(tmp_path, tmp_path, "latest", ID.replace("9", "8")), (2e9, 2e9))
    monkeypatch.setattr(driver, "LISTED", 1)
    (latest,) = stored_sessions(CARD, environ, None)
    assert (latest.title, latest.updated, latest.id) == ("latest", 2e9, ID.replace("9", "8"))
    path.with_name(f"{ID.replace('9', '5')}.jsonl").mkdir()
    monkeypatch.setattr(driver, "LISTED", 9)
    assert len(stored_sessions(CARD, environ, None)) == 2, "a directory is no session"


def test_a_session_that_does_not_say_where_it_was_is_of_the_directory_that_was_asked_for(tmp_path: Path) -> None:
    environ = {"CLAUDE_CONFIG_DIR": str(tmp_path)}
    path = keep(tmp_path, tmp_path, "x")
    path.write_text(json.dumps({"type": "user", "uuid": "u", "message": {"content": "x"}}))
    assert [one.cwd for one in stored_sessions(CARD, environ, str(tmp_path))] == [str(tmp_path)]
    assert [one.cwd for one in stored_sessions(CARD, environ, None)] == [""]
