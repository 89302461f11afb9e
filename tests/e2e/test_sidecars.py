"""Sidecars of others under our control plane, with the installed command."""

import json
import sys
from pathlib import Path

import pytest

from tests.conftest import need
from tests.installed import treadle

ROOT = Path(__file__).parent.parent.parent

SEEDS_EXAMPLE = """
const readline = require('readline');

(async () => {
  const hello = {
    t: 'hello',
    contract_version: 'abp/v0.1',
    backend: { id: 'my-node-sidecar' },
    capabilities: { streaming: 'native' },
  };
  process.stdout.write(JSON.stringify(hello) + '\\n');

  const rl = readline.createInterface({ input: process.stdin });
  for await (const line of rl) {
    const msg = JSON.parse(line);
    if (msg.t === 'run') {
      const refId = msg.id;
      process.stdout.write(JSON.stringify({
        t: 'event',
        ref_id: refId,
        event: { ts: new Date().toISOString(), type: 'assistant_message', text: 'Done' },
      }) + '\\n');
      process.stdout.write(JSON.stringify({
        t: 'final',
        ref_id: refId,
        receipt: { /* ... */ },
      }) + '\\n');
      break;
    }
  }
})();
"""
"""As the document has it, in an async function: `require` and a bare `for await` do not go together."""
RECEIPT = """{
  meta: {
    run_id: refId, work_order_id: msg.work_order.id, contract_version: 'abp/v0.1',
    started_at: new Date().toISOString(), finished_at: new Date().toISOString(), duration_ms: 0,
  },
  backend: hello.backend, capabilities: hello.capabilities, usage_raw: {}, usage: {}, trace: [], artifacts: [],
  verification: { harness_ok: false }, outcome: 'complete',
}"""
"""What the document leaves out."""


def run(sidecar: str, cwd: Path, *more: str) -> dict[str, object]:
    done = treadle("host", "run", "--task", "remember the milk", "--sidecar", sidecar, "--json", *more, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_the_example_of_the_protocols_document(tmp_path: Path) -> None:
    need("node")
    (tmp_path / "sidecar.cjs").write_text(SEEDS_EXAMPLE.replace("{ /* ... */ }", RECEIPT))
    receipt = run("node sidecar.cjs", tmp_path)
    assert receipt["outcome"] == "complete" and receipt["backend"]["id"] == "my-node-sidecar"  # type: ignore[index]
    assert [event["text"] for event in receipt["trace"]] == ["Done"]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "command", [f"{sys.executable} {ROOT}/examples/sidecar.py", f"node {ROOT}/examples/sidecar.mjs"]
)
def test_our_examples_do_what_they_say(tmp_path: Path, command: str) -> None:
    if command.startswith("node"):
        need("node")
    receipt = run(command, tmp_path, "--apply")
    assert receipt["outcome"] == "complete"
    whole = receipt["usage_raw"]["treadle"]  # type: ignore[index]
    more = {**whole, **whole["observed"]}
    assert [each for each in more["notes"] if each["where"] != "sandbox"] == [] and more["differences"] == []
    assert (tmp_path / "NOTES.md").read_text() == "- remember the milk\n"
