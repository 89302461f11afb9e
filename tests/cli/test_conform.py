"""`treadle conform` as it is typed."""

import json
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from click import UsageError

from tests.installed import treadle as run
from treadle.cli.conform import _absolute, _variables

WORKER = str(Path(sys.executable).parent / "treadle-worker")
BAD = [sys.executable, "-m", "treadle.testing.faulty_worker"]
LAST = "shutdown is answered"


def test_a_right_program_exits_0_and_each_clause_is_a_line() -> None:
    done = run("conform", "worker", "--only", LAST, "--", WORKER)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("ok Lifecycle: shutdown is answered by shutdown_ok")
    assert done.stdout.endswith(f"{WORKER}: worker: 1 of 1 clauses kept\n")


def test_a_wrong_one_exits_1_and_what_was_seen_is_shown_in_every_form(tmp_path: Path) -> None:
    junit = tmp_path / "out.xml"
    bad = json.dumps({"shutdown": [{"exit": 0}]})
    done = run("conform", "worker", "--only", LAST, f"--junit={junit}", "--", *BAD, bad)
    assert done.returncode == 1 and "NO Lifecycle" in done.stdout and "its output ended" in done.stdout
    assert ET.parse(junit).getroot().get("failures") == "1"


def test_variables_have_a_value_and_programs_of_this_directory_whole_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _variables(["A=1=2", "B="]) == {"A": "1=2", "B": ""}
    with pytest.raises(UsageError, match="--env C has no =: write --env NAME=VALUE"):
        _variables(["A=1", "C"])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").write_text("#!/bin/sh\n")
    (tmp_path / "mine").chmod(0o755)
    assert _absolute(["./mine", "mine", "./gone", "sh"]) == (str(tmp_path / "mine"), "mine", "./gone", "sh")
    with pytest.raises(UsageError, match="there is no program ./gone"):
        _absolute(["./gone"])
