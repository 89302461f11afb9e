"""Looking at orders, and what a person types in a day."""

import json
import re
import subprocess
from pathlib import Path

from click.testing import CliRunner

from tests.cli.fleet.commands import as_json, fleet
from tests.fleet.conftest import repository as repository
from tests.fleet.repositories import edits
from tests.installed import TREADLE
from treadle.cli.completion.command import rows
from treadle.cli.fleet import fleet as group
from treadle.host.store import ReceiptStore


def told_how_to_answer(*arguments: str) -> str:
    """What a command says that waits for an order, which is answered as soon as it says how."""
    with subprocess.Popen([TREADLE, "fleet", *arguments], stderr=subprocess.PIPE, text=True) as waiting:
        try:
            assert waiting.stderr is not None
            said = ""
            while (found := re.search(r"treadle fleet answer (\w+) allow\|deny", said)) is None:
                line = waiting.stderr.readline()
                assert line, said
                said += line
            fleet("answer", found[1], "deny")
            return said + waiting.stderr.read()
        finally:
            waiting.kill()


def test_who_waits_or_follows_is_told_that_it_asks_and_how_to_answer(
    running: None, repository: Path, tmp_path: Path
) -> None:
    model = edits(tmp_path, "x", "a.txt", "two", "install /dev/null asked.txt")
    words = ["submit", "do it", "--root", str(repository), "--agent", "native", "--model", model]
    said = told_how_to_answer(*words, "--wait")
    (first,) = as_json("ls")
    assert f"{first['id']} asks: " in said and "install /dev/null asked.txt" in said
    assert said.count(f"treadle fleet answer {first['id']} allow|deny") == 1
    second = fleet(*words).split()[0]
    assert f"treadle fleet answer {second} allow|deny" in told_how_to_answer("logs", second, "-f")
    assert "asks: " not in CliRunner().invoke(group, ["wait", first["id"], second]).stderr, "both have ended"
    assert len(ReceiptStore()) == 2 and ReceiptStore().check() == [], "`treadle receipt` shows what orders did"


def test_what_down_does_is_said_also_where_there_is_no_terminal(running: None) -> None:
    said = CliRunner().invoke(group, ["down"])
    assert said.exit_code == 0 and "engine" in said.stderr


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
    assert as_json("budget", "fleet", "--max-tokens", "5") == {"scope": "fleet", "tokens": 5}
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
