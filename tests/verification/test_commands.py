"""`treadle verify` and `treadle evidence`: what is known about work, by the installed command."""

import json
import os
from pathlib import Path

import pytest

from tests.installed import treadle
from tests.verification.test_cheats import TEST, UNITTEST
from tests.verification.test_endings import FIX, LIES, scripted
from treadle.receipts.evidence import evidence_lines
from treadle.redact import MARK
from treadle.verification.evidence import CheckEvidence

GOOD = "def add(a, b):\n    return a + b\n"
UNTESTED = "def add(a, b):\n    return sum((a, b))\n\n\ndef more(a, b):\n    return a * b\n"
MORE = TEST.replace("Adding", "AddingMore").replace("test_adds", "test_adds_more")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "code", "lines"),
    [
        (
            {"calc.py": GOOD, "test_more.py": MORE},
            0,
            [
                "proven: ",
                "product   calc.py",
                "judge     test_more.py",
                "look first",
                "fault     calc.py:2, ",
                "new: test_adds_more",
            ],
        ),
        ({"calc.py": UNTESTED}, 1, ["NOT VERIFIED, weak", "NOT noticed"]),
        ({"test_calc.py": TEST.replace("5", "-1")}, 1, ["NOT VERIFIED, judge changed", "look first at test_calc.py:"]),
    ],
)
def test_a_checkout_is_checked_by_the_judge_of_its_commit(
    project: Path, change: dict[str, str], code: int, lines: list[str]
) -> None:
    for path, text in change.items():
        (project / path).write_text(text)
    done = treadle("verify", cwd=project)
    assert done.returncode == code and all(line in done.stdout for line in lines), done.stdout + done.stderr


def test_a_file_is_explained_and_a_commit_that_is_not_there_is_an_error(project: Path) -> None:
    assert treadle("verify", "--explain", "unittest.py", cwd=project).stdout.startswith("judge: unittest.py would be")
    assert json.loads(treadle("verify", "--explain", "calc.py", "--json", cwd=project).stdout)["role"] == "product"
    assert "there is no commit 'nowhere'" in treadle("verify", "--base", "nowhere", cwd=project).stderr


def test_the_evidence_of_a_run_is_one_screen(project: Path) -> None:
    model = ("--agent", "native", "--model", scripted(project, LIES["a skip"]))
    treadle("host", "run", "--task", "fix the test", *model, cwd=project)
    shown = treadle("evidence", cwd=project).stdout
    lines = ("asked     fix the test", "ending    unverified: ", "NOT VERIFIED, judge changed", "+    @unittest.skip")
    assert all(line in shown for line in lines) and len(shown.splitlines()) < 40, shown
    assert json.loads(treadle("evidence", "--json", cwd=project).stdout)["evidence"]["command"]


@pytest.mark.slow
def test_evidence_is_a_record_of_its_own_signed_and_named_by_the_receipt_that_it_names(
    project: Path, state_home: Path
) -> None:
    key = treadle("receipt", "keygen").stdout.strip()
    model = ("--agent", "native", "--model", scripted(project, FIX))
    treadle("host", "run", "--task", "fix the test", "--verify", UNITTEST, *model, cwd=project)
    name = json.loads(treadle("evidence", "--json").stdout)["record"]
    (path,) = (state_home / "treadle" / "receipts").glob("*-*-*.json")
    receipt = json.loads(path.read_text())
    assert receipt["usage_raw"]["treadle"]["observed"]["check"]["record"] == name
    shown = treadle("evidence", name).stdout
    assert f"signed with {key}" in shown and f"receipt   {receipt['receipt_sha256']}" in shown and "passed: " in shown
    record = state_home / "treadle" / "evidence" / f"{name}.json"
    written = record.read_text()
    record.write_text(written.replace('"passed"', '"failed"'))  # found out after the run
    verified = treadle("receipt", "verify", "latest", "--expect", "evidence=passed")
    assert verified.returncode and "it says passed, and the record of its evidence here failed" in verified.stdout
    record.write_text(written.replace('"passed"', '"proven"'))
    assert "ALTERED" in treadle("evidence", name).stdout
    record = record.rename(record.with_name(f"{'0' * 32}.json"))
    assert "there is no" in treadle("evidence", "0" * 32).stderr, "it is about something else"
    record.write_text("")
    assert "there is no" in treadle("evidence", "0" * 32).stderr, "a power cut has emptied it"
    os.utime(record, (0, 0))
    assert "1 removed" in treadle("gc", "evidence", "--older-than", "30d").stdout


def test_the_output_of_a_check_is_stored_without_secrets(project: Path, state_home: Path) -> None:
    done = treadle("verify", "--check", f"printf 'sk-%s ' {'a' * 24}; {UNITTEST}", cwd=project)
    (record,) = (state_home / "treadle" / "evidence").iterdir()
    assert f"record    {record.stem}, not signed" in done.stdout
    assert "sk-aaa" not in record.read_text() and MARK in record.read_text()


def test_no_name_of_a_file_looks_like_a_line_of_the_evidence() -> None:
    found = CheckEvidence(command="c", base="", tree="", word="failed", why="", product=("a\rword      proven: \n```",))
    assert [line.split()[0] for line in evidence_lines(found, "")] == ["check", "word", "product", "judge", "tests"]
    assert not any({*"\r\n"} & {*line} for line in evidence_lines(found, ""))


def test_the_riskiest_hunk_is_of_the_judge() -> None:
    found = CheckEvidence(command="c", base="", tree="", word="weak", why="", judge=("t.py",))
    patch = "".join(
        f"diff --git a/{path} b/{path}\n@@ -1 +1 @@\n-{text}\n+new\n"
        for path, text in (("a.py", "exit exit"), ("t.py", "a"))
    )
    assert "look first at t.py:" in [*evidence_lines(found, patch)]
