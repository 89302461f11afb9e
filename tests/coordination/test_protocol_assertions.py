"""The 55 assertions of the protocol's own suite, in its order, against the installed commands."""

import json
from pathlib import Path

from tests.coordination.conftest import Run

NAMES = ["validate", "resolve", "capsule", "brief", "blackboard", "ledger", "gate", "protocol", "claim"]


def test_1_to_9_every_command_answers_help(installed: Run) -> None:
    for name in (*NAMES, "haid", "ledger-mcp"):
        done = installed(name, "--help")
        assert done.returncode == 0 and done.stdout.startswith(f"heimdall-{name}: ")


def test_10_to_14_init(installed: Run, project: Path) -> None:
    assert installed("protocol", "init").returncode == 0
    planning = project / ".planning"
    assert json.loads((planning / "protocol" / "symbols.json").read_text()) == {"version": "2.0.0", "symbols": {}}
    assert (planning / "blackboard.json").read_text() == '{"version":"2.0.0","facts":{}}\n'
    assert (planning / "protocol" / "capsules").is_dir()
    schema = json.loads((planning / "protocol" / "message-schema.json").read_text())
    assert schema["$id"] == "https://heimdall/protocol/message-schema-2.0.0.json"


def test_15_to_20_symbols(installed: Run) -> None:
    assert installed("resolve", "set", "F12", "src/matching/engine.ts").returncode == 0
    assert installed("resolve", "set", "C3", "balances sum to zero").returncode == 0
    assert installed("resolve", "F12").stdout == "src/matching/engine.ts\n"
    assert installed("resolve", "C3").stdout == "balances sum to zero\n"
    assert installed("resolve", "--reverse", "src/matching/engine.ts").stdout == "F12\n"
    assert installed("resolve", "F99").returncode == 1


def test_21_to_25_blackboard(installed: Run) -> None:
    assert installed("blackboard", "set", "dev_port", "5173").returncode == 0
    assert installed("blackboard", "set", "node_version", "20.11.0").returncode == 0
    assert installed("blackboard", "get", "dev_port").stdout == "5173\n"
    assert installed("blackboard", "get", "node_version").stdout == "20.11.0\n"
    assert installed("blackboard", "get", "nothing").returncode == 1


def waves(installed: Run) -> None:
    full = ["--what", "did one", "--where", "F12", "--decision", "sorted", "--gotcha", "seed must be fixed"]
    assert installed("capsule", "write", "wave1", *full).returncode == 0
    assert installed("capsule", "write", "wave2", "--what", "did two", "--depends", "wave1").returncode == 0
    assert installed("capsule", "write", "wave3", "--what", "did three").returncode == 0


def test_26_to_32_capsules(installed: Run, project: Path) -> None:
    waves(installed)
    text = (project / ".planning" / "protocol" / "capsules" / "wave1.md").read_text()
    assert text.count("\n") <= 10
    hydrated = installed("capsule", "hydrate", "wave2").stdout
    assert hydrated.index("did one") < hydrated.index("did two")
    assert "did three" not in hydrated


GOOD = json.dumps(
    {"type": "task_result", "from": "c", "msg_id": "m1", "task": "3.2", "status": "pass", "criteria": [1, 2, 4]}
)
BAD = json.dumps({"type": "task_result", "from": "c", "msg_id": "m1", "status": "banana"})


def test_33_to_36_validate(installed: Run) -> None:
    accepted = installed("validate", stdin=GOOD)
    assert (accepted.stdout, accepted.returncode) == ('{"valid":true,"errors":[]}\n', 0)
    rejected = installed("validate", stdin=BAD)
    assert rejected.returncode == 1
    assert json.loads(rejected.stdout)["errors"] == [
        "task_result: missing required field: task",
        'task_result: status not in enum ["pass","fail","partial"]: banana',
    ]
    truncated = installed("validate", stdin=GOOD[:-10])
    assert (json.loads(truncated.stdout)["errors"], truncated.returncode) == (["unparseable JSON"], 1)
    unknown = installed("validate", stdin='{"type":"frobnicate","from":"a","msg_id":"m"}')
    assert unknown.returncode == 1


def test_37_to_38_on_receipt(installed: Run) -> None:
    mended = installed("validate", "--on-receipt", stdin=f"{BAD}\n{GOOD}\n")
    assert mended.returncode == 0
    assert mended.stdout == "ACCEPTED on retry (attempt 2)\n"
    assert "retry" in mended.stderr
    assert installed("validate", "--on-receipt", stdin=f"{BAD}\n{BAD}\n").returncode == 1


def test_39_to_44_brief(installed: Run, project: Path) -> None:
    installed("resolve", "set", "F12", "src/matching/engine.ts")
    waves(installed)
    (project / ".planning" / "PLAN-alpha.md").write_text("THE WHOLE PLAN BODY")
    options = ["--task", "3.2", "--spec", "implement book diff", "--symbols", "F12", "--capsules", "wave2"]
    brief = installed("brief", "build", *options)
    assert brief.returncode == 0
    for wanted in ("implement book diff", "F12", "wave2", "src/matching/engine.ts"):
        assert wanted in brief.stdout
    assert "THE WHOLE PLAN BODY" not in brief.stdout
    assert "did three" not in brief.stdout


def test_45_to_51_ledger(installed: Run, project: Path) -> None:
    log = ["log", "--kind", "delta_brief", "--role"]
    assert installed("ledger", *log, "orchestration", "--tokens", "12000").returncode == 0
    assert installed("ledger", *log, "coder", "--tokens", "800").returncode == 0
    assert len((project / ".planning" / "protocol" / "ledger.jsonl").read_text().splitlines()) == 2
    report = installed("ledger", "report")
    assert report.returncode == 0
    assert report.stdout.splitlines()[1:] == [
        "  coder: 800 tokens (1 msgs)",
        "  orchestration: 12000 tokens (1 msgs)",
        "  TOTAL: 12800 tokens",
    ]
    assert installed("ledger", "baseline", "--role", "orchestration", "--tokens", "41000").returncode == 0
    delta = installed("ledger", "delta", "--role", "orchestration").stdout
    assert "41000" in delta and "12000" in delta


def test_52_to_55_gate(installed: Run, project: Path) -> None:
    report = {
        "gate_id": "exchange-lob",
        "status": "pass",
        "first_divergence": None,
        "metrics": {"sessions": 4000},
        "fix_hint": "",
        "haid": "haid:local",
        "wave": None,
        "ts": "2026-06-11T12:07:27Z",
    }
    (project / "report.json").write_text(json.dumps(report))
    made = installed("gate", "to-message", "--report", "report.json", "--from", "sentinel-bloat", "--msg-id", "g1")
    assert installed("validate", stdin=made.stdout).returncode == 0
    message = json.loads(made.stdout)
    assert message["gate_id"] == "exchange-lob"
    assert message["status"] == "pass"
    assert "metrics" not in message
    assert list(message) == ["type", "from", "msg_id", "ts", "gate_id", "status", "report_ref"]
    assert message["report_ref"] == str(project / "report.json")
