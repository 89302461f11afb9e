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
