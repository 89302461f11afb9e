"""Looking at orders, and what a person types in a day."""

import json
import subprocess
from pathlib import Path

from tests.cli.fleet.commands import as_json, fleet
from tests.installed import TREADLE
from treadle.cli.completion.lists import rows


def test_a_day_with_a_fleet(running: None, tmp_path: Path) -> None:
    assert as_json("status")["scheduler"] == "n1"
    order = fleet("submit", "do nothing", "--agent", "null:0.2:3", "--idempotency-key", "k", "--wait").split()[0]
    assert "(given before)" in fleet("submit", "do nothing", "--agent", "null:0.2:3", "--idempotency-key", "k")
    assert as_json("ls")[0]["id"] == order and order in fleet("ls", "--state", "done")
    shown = fleet("show", order[:6])
    assert "attempt   1 on n1, done" in shown and "receipt   sha256" in shown
    assert fleet("logs", order).count(" of 3") == 3
    lines = [json.loads(line) for line in fleet("logs", order, "--json").splitlines()]
    assert [line["n"] for line in lines] == [1, 2, 3]
    assert "done" in fleet("explain", order)
    assert rows("orders") == f"{order}\tdone: do nothing\n", "what a Tab offers"
    slow = fleet("submit", "sleep", "--agent", "null:60:60").strip()
    fleet("cancel", slow, "--why", "enough", "--wait")
    assert "cancelled" in fleet("wait", slow, code=4)
    assert "ended already" in fleet("cancel", slow, code=1)
    again = fleet("retry", slow).strip()
    assert again != slow and as_json("show", again)["spec"]["retry_of"] == slow
    fleet("cancel", again, "--wait")
    assert as_json("budget", "fleet", "--tokens", "5") == {"scope": "fleet", "usd": None, "tokens": 5}
    assert as_json("limit", "agent:claude", "2") == {"scope": "agent:claude", "most": 2}
    fleet("pause", "label:x", "--why", "later")
    fleet("resume", "label:x")
    fleet("drain", "n1", "--undo")
    assert "n1" in fleet("nodes") and as_json("approvals") == []
    assert "no order" in fleet("show", "nothing", code=1)


def test_changes_are_told_as_they_happen_one_in_a_line(running: None) -> None:
    before = fleet("submit", "first", "--agent", "null", "--project", "p", "--wait").split()[0]
    argv = [TREADLE, "fleet", "ls", "--watch", "--json", "--project", "p"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as watching:
        try:
            assert watching.stdout is not None and json.loads(watching.stdout.readline())["id"] == before
            fleet("submit", "of another project", "--agent", "null", "--wait")
            after = fleet("submit", "second", "--agent", "null", "--project", "p", "--wait").split()[0]
            seen = [json.loads(watching.stdout.readline())]
            while seen[-1]["state"] != "done":
                seen.append(json.loads(watching.stdout.readline()))
            assert {order["id"] for order in seen} == {after}
        finally:
            watching.kill()
