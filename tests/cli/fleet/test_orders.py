"""Giving orders: from files, from lines, and by programs in other languages."""

import subprocess
import sys
from pathlib import Path

from tests.cli.fleet.commands import as_json, fleet
from tests.conftest import need
from treadle.fleet.engine import places


def test_orders_come_from_files_and_lines(running: None, tmp_path: Path) -> None:
    many = tmp_path / "orders.toml"
    many.write_text('[[order]]\ntask = "a"\npriority = 7\n[[order]]\ntask = "b"\n')
    given = as_json("submit", "--file", str(many), "--agent", "null", "--wait")
    assert [(order["title"], order["state"]) for order in given] == [("a", "done"), ("b", "done")]
    lines = '{"task": "c"}\n{"task": "d", "labels": ["none-has-it"]}\n'
    ids = fleet("submit", "--file", "-", "--agent", "null", stdin=lines).split()
    assert len(ids) == 2 and "has no label none-has-it" in fleet("explain", ids[1])
    assert "has no 'tsk'" in fleet("submit", "--file", "-", stdin='{"tsk": "c"}', code=1)
    assert "no task" in fleet("submit", code=1)
    shown = as_json("submit", "x", "--race", "null,null:1:1", "--dry-run")
    assert len(shown) == 2 and shown[0]["race"] == shown[1]["race"]
    assert fleet("wait", ids[1], "--timeout", "0.2", code=124)


def test_programs_without_treadle_in_other_languages_give_orders(running: None) -> None:
    examples = Path(__file__).parents[3] / "examples"
    address = places.load().address("submit")
    url = address.url.replace("nats://", f"nats://submit:{address.password}@")
    for argv in ([sys.executable, "fleet_client.py"], [need("node"), "fleet_client.mjs"]):
        done = subprocess.run([*argv, url, "x", "null"], cwd=examples, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and "ended: done" in done.stdout, done.stdout + done.stderr
