"""The shell examples of the protocol's specification, typed literally and in order, and the output it shows."""

import json
import os
import subprocess
from pathlib import Path

from tests.coordination.conftest import BIN

EXAMPLES = r"""
echo '{"type":"task_result","from":"coder","msg_id":"m1","task":"3.2","status":"pass","criteria":[1,2],"commit":"a2ef507"}' \
| heimdall-validate
echo "exit $?"
heimdall-resolve set F12 "src/matching/engine.ts"
heimdall-resolve set C3 "balances sum to zero"
heimdall-resolve F12
heimdall-resolve C3
heimdall-resolve --reverse "src/matching/engine.ts"
heimdall-resolve list
heimdall-capsule write w1 --what "added LOB engine" --where F12 --gotcha "seed must be fixed" >/dev/null
heimdall-capsule write w2 --what "added book diff" --where F13 --depends w1 >/dev/null
heimdall-capsule write w3 --what "unrelated docs" --where README >/dev/null
heimdall-capsule hydrate w2 | grep WHAT
heimdall-capsule deps w2
heimdall-brief build --task 3.2 --spec "implement book diff" \
--symbols F12,C3 --capsules w2 --invariants INVARIANTS.md >brief.txt
echo "exit $?"
heimdall-blackboard set dev_port 5173
heimdall-blackboard set node_version 20.11.0
heimdall-blackboard get dev_port
heimdall-blackboard list
heimdall-ledger log --role orchestration --kind delta_brief --tokens 3300 --msg-id b1
heimdall-ledger log --role orchestration --kind delta_brief --tokens 7950
heimdall-ledger baseline --role orchestration --tokens 41000
heimdall-ledger delta --role orchestration | tail -1
heimdall-gate to-message --report evals/oracles/exchange-lob/report.json \
--from sentinel-bloat --msg-id g1 | heimdall-validate
"""  # noqa: E501
PRINTED = """\
{"valid":true,"errors":[]}
exit 0
F12 = src/matching/engine.ts
C3 = balances sum to zero
src/matching/engine.ts
balances sum to zero
F12
F12	src/matching/engine.ts
C3	balances sum to zero
WHAT: added LOB engine
WHAT: added book diff
w1
w2
exit 0
dev_port = 5173
node_version = 20.11.0
5173
dev_port	5173
node_version	20.11.0
logged orchestration/delta_brief=3300
logged orchestration/delta_brief=7950
baseline orchestration = 41000 (v1)
  orchestration: 41000 -> 11250 tokens (v1 baseline -> measured; -73%)
{"valid":true,"errors":[]}
"""
ROUND_TRIP = r"""
mkdir -p bin && ln -s "$(command -v heimdall-ledger-mcp)" "$(command -v heimdall-claim)" bin/
printf '%s\n' \
'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"clientInfo":{"name":"cursor"}}}' \
'{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"make_claim","arguments":{"surfaces":["src/a/**"],"task":"T-9"}}}' \
| bin/heimdall-ledger-mcp
bin/heimdall-claim list
"""  # noqa: E501


def shell(project: Path, script: str) -> str:
    env = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], cwd=project, env=env, capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == ""
    return done.stdout


def test_the_examples_print_what_the_document_says(project: Path) -> None:
    report = project / "evals/oracles/exchange-lob/report.json"
    report.parent.mkdir(parents=True)
    report.write_text(json.dumps({"gate_id": "exchange-lob", "status": "pass", "metrics": {}, "wave": None}))
    assert shell(project, EXAMPLES) == PRINTED
    brief = (project / "brief.txt").read_text()
    assert "F12 = src/matching/engine.ts" in brief and "unrelated docs" not in brief
    actions = [line.split("\t")[1:] for line in (project / ".planning/protocol.log").read_text().splitlines()]
    assert actions[0] == ["validate", "accept", "m1"]
    assert all(len(action) == 3 for action in actions)
    assert len(actions) == 23  # one line for each command


def test_a_claim_made_over_mcp_is_seen_on_the_command_line(project: Path) -> None:
    listed = shell(project, ROUND_TRIP).splitlines()[2:]
    assert listed[0] == "ACTIVE CLAIMS (1)"
    assert "/cursor" in listed[1] and "T-9 (via heimdall-ledger-mcp:haid:" in listed[1]
    assert listed[2] == "    src/a/**"
