"""heimdall-ledger: what every message and spawn cost."""

import json
from pathlib import Path

from tests.coordination.conftest import Run


def test_the_report_and_the_change_come_as_json_too(heimdall: Run) -> None:
    heimdall("ledger", "log", "--role", "r", "--kind", "k", "--tokens", "5", "--source", "measured")
    heimdall("ledger", "baseline", "--role", "r", "--tokens", "10")
    assert json.loads(heimdall("ledger", "report", "--json").stdout) == {
        "roles": {"r": {"tokens": 5, "messages": 1}},
        "total": 5,
        "sources": {"measured": 5},
        "unreadable": 0,
    }
    changes = [{"role": "r", "baseline": 10, "measured": 5, "percent": -50}]
    assert json.loads(heimdall("ledger", "delta", "--json").stdout) == changes


def test_tokens_can_be_estimated_instead_of_declared(heimdall: Run, project: Path) -> None:
    (project / "brief.txt").write_text("hello world")
    words = ["log", "--role", "r", "--kind", "k", "--count"]
    assert heimdall("ledger", *words, "brief.txt").stdout == "logged r/k=2\n"
    assert heimdall("ledger", *words, "-", stdin="hello").stdout == "logged r/k=1\n"
    assert heimdall("ledger", *words, "none.txt").returncode == 1
    entries = [json.loads(line) for line in (project / ".planning/protocol/ledger.jsonl").read_text().splitlines()]
    assert [entry["source"] for entry in entries] == ["estimated", "estimated"]


def test_tokens_are_shown_by_role_and_run(heimdall: Run, project: Path) -> None:
    for role, run in (("b", "r1"), ("a", "r1"), ("a", "r2")):
        heimdall("ledger", "log", "--role", role, "--kind", "k", "--tokens", "5", "--run", run)
    report = "token ledger (tokens by role)\n  a: {} tokens ({} msgs)\n  b: 5 tokens (1 msgs)\n  TOTAL: {} tokens\n"
    assert heimdall("ledger", "report").stdout == report.format(10, 2, 15)
    assert heimdall("ledger", "report", "--run", "r1").stdout == report.format(5, 1, 10)
    assert heimdall("ledger", "report", HEIMDALL_RUN="r1").stdout == report.format(5, 1, 10)
    assert heimdall("ledger", "report", "--run", "", HEIMDALL_RUN="r1").stdout == report.format(10, 2, 15)
    assert heimdall("ledger", "baseline", "--role", "a", "--tokens", "20").stdout == "baseline a = 20 (v1)\n"
    first, row = heimdall("ledger", "delta", "--role", "a").stdout.splitlines()
    assert first == "token delta (v1 baseline -> measured)" and row.startswith("  ") and "20" in row and "10" in row
    (row_of_run,) = json.loads(heimdall("ledger", "delta", "--role", "a", "--run", "r1", "--json").stdout)
    assert (row_of_run["role"], row_of_run["measured"]) == ("a", 5)
    entries = [json.loads(line) for line in (project / ".planning/protocol/ledger.jsonl").read_text().splitlines()]
    assert {entry["source"] for entry in entries} == {"declared"} and {entry["kind"] for entry in entries} == {"k"}
    with (project / ".planning/protocol/ledger.jsonl").open("a") as file:
        file.write("no line\n")
    assert heimdall("ledger", "report").stderr == "heimdall-ledger: 1 unreadable line(s) skipped\n"
    for words in ([], ["log"], ["report", "x"], ["log", "--role", "r", "--kind", "k"], ["baseline", "--role", "r"]):
        assert heimdall("ledger", *words).returncode == 2, words
