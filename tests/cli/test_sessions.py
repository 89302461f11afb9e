"""`treadle sessions`."""

import json
import os
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from treadle.agent.messages import AssistantMessage, UserMessage
from treadle.agent.records import MessageRecord, TurnBegan
from treadle.agent.session_list import list_sessions
from treadle.agent.transcript import Transcript, history_of
from treadle.cli.sessions import sessions
from treadle.errors import NotFound


def test_no_sessions_says_how_to_start_one() -> None:
    assert "treadle -p PROMPT" in CliRunner().invoke(sessions).output


def test_sessions_are_listed_for_people_and_for_programs(tmp_path: Path) -> None:
    transcript = Transcript.create(cwd=str(tmp_path), model="m", session_id="abc", name="mine")
    transcript.append(TurnBegan(turn="t", prompt="hello"))
    transcript.close()
    assert "abc" in CliRunner().invoke(sessions).output
    [entry] = json.loads(CliRunner().invoke(sessions, ["--json"]).output)
    assert entry["id"] == "abc" and entry["name"] == "mine" and entry["prompt"] == "hello"
    assert json.loads(CliRunner().invoke(sessions, ["--json", "--here"]).output) == []


@pytest.fixture
def kept(tmp_path: Path) -> str:
    transcript = Transcript.create(cwd=str(tmp_path), model="m", session_id="abc", name="mine")
    transcript.append(
        TurnBegan(turn="t", prompt="why?"),
        MessageRecord(message=UserMessage(text="why?")),
        MessageRecord(message=AssistantMessage(text="Because\x1b[2J of the **loom**.")),
    )
    transcript.close()
    return "abc"


def test_a_session_is_shown_and_nothing_in_it_acts_on_the_terminal(kept: str) -> None:
    for name in ("abc", "ab", "mine"):
        shown = CliRunner().invoke(sessions, ["show", name]).output
        assert "## You\n\nwhy?" in shown and "**loom**" in shown and "\x1b" not in shown
    told = json.loads(CliRunner().invoke(sessions, ["show", "abc", "--json"]).output)
    assert [message["role"] for message in told["messages"]] == ["user", "assistant"]


def test_the_form_of_an_export_follows_the_files_name(kept: str, tmp_path: Path) -> None:
    for name, begin in (("x.html", "<!doctype html>"), ("x.json", "{"), ("x.md", "# mine"), ("x", "# mine")):
        result = CliRunner().invoke(sessions, ["export", kept, "-o", str(tmp_path / name)])
        assert result.exit_code == 0 and (tmp_path / name).read_text().startswith(begin)
    assert (tmp_path / "x.md").stat().st_mode & 0o777 == 0o600
    assert CliRunner().invoke(sessions, ["export", kept, "--format", "html"]).output.startswith("<!doctype")


def test_sessions_are_found_by_what_was_said(kept: str) -> None:
    found = CliRunner().invoke(sessions, ["search", "LOOM"])
    assert found.exit_code == 0 and "abc" in found.output and "**loom**" in found.output
    assert json.loads(CliRunner().invoke(sessions, ["search", "loom", "--json"]).output)[0]["session"]["id"] == "abc"
    assert CliRunner().invoke(sessions, ["search", "nothing"]).exit_code == 1
    assert CliRunner().invoke(sessions, ["search", "loom", "--here"]).exit_code == 1


def test_named_sessions_are_removed_at_once(kept: str) -> None:
    assert CliRunner().invoke(sessions, ["rm", "mine"]).output == "removed abc\n1 session\n"
    assert list_sessions() == []
    assert isinstance(CliRunner().invoke(sessions, ["rm", "mine"]).exception, NotFound)


def test_old_ones_go_only_when_told_twice_and_young_ones_stay(kept: str) -> None:
    Transcript.create(cwd="/x", model="m", session_id="young").close()
    os.utime(history_of(kept), (time.time() - 40 * 86400,) * 2)
    assert "would remove abc" in CliRunner().invoke(sessions, ["rm", "--older-than", "30d"]).output
    assert len(list_sessions()) == 2
    told = json.loads(CliRunner().invoke(sessions, ["rm", "--older-than", "30d", "--force", "--json"]).output)
    assert told == {"removed": ["abc"], "would_remove": [], "open": []}
    assert [entry.id for entry in list_sessions()] == ["young"]


def test_one_that_is_open_stays_and_is_named() -> None:
    transcript = Transcript.create(cwd="/x", model="m", session_id="busy")
    result = CliRunner().invoke(sessions, ["rm", "busy"])
    assert result.exit_code == 1 and "busy is open in another process" in result.output
    transcript.close()
    assert len(list_sessions()) == 1


def test_rm_alone_removes_nothing(kept: str) -> None:
    assert CliRunner().invoke(sessions, ["rm"]).exit_code == 2
    assert CliRunner().invoke(sessions, ["rm", "abc", "--older-than", "1d"]).exit_code == 2
    assert len(list_sessions()) == 1
