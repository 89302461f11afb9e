"""`treadle doctor`."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from treadle.cli.doctor import doctor


def test_it_says_what_works_and_never_shows_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    result = CliRunner().invoke(doctor)
    assert result.exit_code == 0 and "OPENAI_API_KEY set" in result.output and "very-secret" not in result.output


def test_a_state_directory_that_cannot_be_used_is_a_failure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TREADLE_HOME", str(tmp_path / "file" / "x"))
    result = CliRunner().invoke(doctor, ["--json"])
    [state] = [check for check in json.loads(result.output) if check["name"] == "directory"]
    assert result.exit_code == 1 and not state["ok"] and "TREADLE_HOME" in state["says"]
