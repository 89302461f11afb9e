"""`treadle sessions`."""

import json
from pathlib import Path

from click.testing import CliRunner

from treadle.agent.transcript import Transcript, TurnBegan
from treadle.cli.sessions import sessions


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
