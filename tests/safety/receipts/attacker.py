"""A sidecar that does and says what an attack of the corpus tells it. Its order's task is the attack, as JSON."""

import json
import os
import subprocess
import sys
import tempfile
from typing import Any

NOW = "2026-01-01T00:00:00Z"


def say(**message: Any) -> None:
    os.write(1, json.dumps(message).encode() + b"\n")


def run(script: str, run_id: str) -> None:
    who = {f"GIT_{role}_{what}": "agent" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    env = {**os.environ, **who, "RUN": run_id, "TMPDIR": tempfile.mkdtemp(), "GIT_CONFIG_NOSYSTEM": "1"}
    # Given no pipe of ours: what it leaves running must not keep us waiting.
    with open(os.devnull, "r+b") as nowhere:
        subprocess.run(["bash", "-c", script], env=env, stdin=nowhere, stdout=nowhere, stderr=nowhere, timeout=60)


def laid_over(base: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    made = dict(base)
    for name, value in more.items():
        old = made.get(name)
        made[name] = laid_over(old, value) if isinstance(value, dict) and isinstance(old, dict) else value
    return made


def main() -> None:
    backend = {"id": "attacker", "backend_version": None, "adapter_version": None}
    say(t="hello", contract_version="abp/v0.1", backend=backend, capabilities={}, mode="mapped")
    order = json.loads(sys.stdin.readline())
    run_id, attack = order["id"], json.loads(order["work_order"]["task"])
    here = os.getcwd()
    if attack.get("do"):
        run(attack["do"], run_id)
    os.chdir("/")
    events = [{"ts": NOW, **event} for event in attack.get("events", [])]
    said = [f"said/{number}" for number in range(attack.get("said_files", 0))]
    events += [{"ts": NOW, "type": "file_changed", "path": path, "summary": ""} for path in said]
    for event in events:
        say(t="event", ref_id=run_id, event=event)
    for line in attack.get("lines", []):
        os.write(1, line.replace("RUN", run_id).encode() + b"\n")
    invented = [{"ts": NOW, "type": "warning", "message": str(n)} for n in range(attack.get("claim_events", 0))]
    receipt = {
        "meta": {
            "run_id": run_id,
            "work_order_id": order["work_order"]["id"],
            "contract_version": "abp/v0.1",
            "started_at": NOW,
            "finished_at": NOW,
            "duration_ms": 0,
        },
        "backend": backend,
        "capabilities": {},
        "mode": "mapped",
        "usage_raw": None,
        "usage": {},
        "trace": invented,
        "artifacts": [],
        "verification": {"git_diff": None, "git_status": None, "harness_ok": False},
        "outcome": "complete",
    }
    for _ in range(attack.get("finals", 1) if attack.get("final", True) else 0):
        say(t="final", ref_id=run_id, receipt=laid_over(receipt, attack.get("claim", {})))
    if attack.get("after"):
        os.chdir(here)
        run(attack["after"], run_id)


main()
