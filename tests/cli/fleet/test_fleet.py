"""The fleet as a person uses it, from `up` to `down`."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.fleet.commands import as_json, fleet
from tests.conftest import need
from treadle.cli.completion.lists import rows
from treadle.fleet import places, server, up
from treadle.fleet.api import running as running_page
from treadle.io.process import table

TREADLE = os.path.join(os.path.dirname(sys.executable), "treadle")


def typed(*arguments: str, code: int = 0) -> str:
    done = subprocess.run(
        [TREADLE, "fleet", *arguments], capture_output=True, text=True, timeout=120, cwd=os.environ["HOME"]
    )
    assert done.returncode == code, (arguments, done.stdout, done.stderr)
    return done.stdout if code == 0 else done.stdout + done.stderr


def test_the_installed_command_takes_an_order_from_up_to_down(nothing_left: None) -> None:
    typed("up", "--name", "n1", "--lease", "2", "--no-page")
    order = typed("submit", "do nothing", "--agent", "null:0.2:3", "--wait").split()[0]
    assert "attempt   1 on n1, done" in typed("show", order[:6])
    assert "there is no order 'nothing'" in typed("show", "nothing", code=1)
    typed("down")
    assert not server.is_up()


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


def test_started_twice_it_joins_and_after_kill_9_it_mends(running: None) -> None:
    before = as_json("status")
    assert before["page"] is None
    fleet("up", "--name", "n1", "--no-page")
    assert as_json("status")["engine"] == before["engine"]
    order = fleet("submit", "sleep", "--agent", "null:60:60").strip()
    for _, process in up.local_nodes():
        assert process is not None and table.send(process, signal.SIGKILL)
    found = server.running()
    assert found is not None
    os.kill(found.pid, signal.SIGKILL)
    deadline = time.monotonic() + 60
    while server.is_up() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert "down" in fleet("status", code=1)
    fleet("up", "--name", "n1", "--slots", "2", "--no-page")
    assert as_json("show", order)["order"]["id"] == order
    fleet("cancel", order, "--wait")


def test_down_leaves_no_process_and_gives_orders_back(running: None) -> None:
    order = fleet("submit", "sleep", "--agent", "null:60:60").strip()
    deadline = time.monotonic() + 60
    while as_json("show", order)["order"]["state"] != "running" and time.monotonic() < deadline:
        time.sleep(0.1)
    fleet("down")
    assert not server.is_up() and up.live_runners() == []
    assert all(process is None for _, process in up.local_nodes())
    link = as_json("up", "--name", "n1")["page"]
    address, _, code = link.partition("/#")
    assert as_json("status")["page"] == address and address in fleet("status") and code not in fleet("status")
    attempts = as_json("show", order)["order"]["attempts"]
    assert attempts[0]["outcome"] == "handed_back"
    fleet("cancel", order, "--wait")
    stopped = as_json("down", "--forget", "--yes")
    assert (stopped["nodes"], stopped["page"], stopped["engine"], stopped["forgotten"]) == (1, True, True, True)
    assert running_page.find() is None
    assert "belongs to no fleet" in fleet("status", code=1)


def test_a_second_machine_joins_with_a_code_and_takes_what_asks_for_it(
    running: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = as_json("invite", "second", "--may", "submit", "--valid", "5m")["code"]

    def elsewhere(*arguments: str, stdin: str = "") -> str:
        with monkeypatch.context() as there:
            there.setenv("TREADLE_HOME", str(tmp_path / "second"))
            return fleet(*arguments, stdin=stdin)

    def gone() -> None:
        deadline = time.monotonic() + 60
        while "second  gone" not in fleet("nodes"):
            assert time.monotonic() < deadline

    assert "no invitation" in fleet("join", "nonsense", code=1)
    joined = json.loads(elsewhere("join", "-", "--label", "far", "--json", stdin=code))
    assert joined == {"node": "second", "kept_by": "a process of its own"}
    try:
        stopped = json.loads(elsewhere("down", "--json"))
        assert stopped == {"runners": 0, "nodes": 1, "page": False, "engine": False, "forgotten": False}
        gone()
        elsewhere("up")  # as after the machine was switched off: a worker again, with its labels
        order = fleet("submit", "x", "--agent", "null:0.2:2", "--label", "far", "--wait").split()[0]
        assert as_json("show", order)["order"]["node"] == "second"
        assert order in elsewhere("ls") and fleet("logs", order).count(" of 2") == 2
        asked = elsewhere("submit", "y", "--agent", "null:60:60").strip()
        elsewhere("cancel", asked, "--wait")
    finally:
        elsewhere("down")
    gone()
    assert as_json("remove", "second") == {"node": "second", "removed": True}
    assert "no credentials" in fleet("remove", "second", code=1)


def test_a_copy_of_a_stopped_fleet_is_a_backup(running: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = fleet("submit", "x", "--agent", "null:0.1:2", "--wait").split()[0]
    fleet("pause", "fleet", "--why", "backup")
    waiting = fleet("submit", "y", "--agent", "null").strip()
    fleet("down")
    home = os.environ["TREADLE_HOME"]
    shutil.copytree(home, tmp_path / "copy")
    shutil.rmtree(home)
    monkeypatch.setenv("TREADLE_HOME", str(tmp_path / "copy"))
    try:
        fleet("up", "--name", "n1", "--no-page")
        assert fleet("logs", done).count(" of 2") == 2 and as_json("show", waiting)["order"]["state"] == "queued"
        fleet("resume", "fleet")
        fleet("wait", waiting, "--timeout", "60")
    finally:
        fleet("down")


def test_programs_without_treadle_in_other_languages_give_orders(running: None) -> None:
    examples = Path(__file__).parents[3] / "examples"
    address = places.load().address("submit")
    url = address.url.replace("nats://", f"nats://submit:{address.password}@")
    for argv in ([sys.executable, "fleet_client.py"], [need("node"), "fleet_client.mjs"]):
        done = subprocess.run([*argv, url, "x", "null"], cwd=examples, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and "ended: done" in done.stdout, done.stdout + done.stderr


def test_the_demo_shows_what_it_promises_and_leaves_nothing_behind(tmp_path: Path) -> None:
    done = subprocess.run(
        [TREADLE, "demo"], capture_output=True, text=True, timeout=170, env={**os.environ, "TMPDIR": str(tmp_path)}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for part in ("dollars waits: prices.py overlaps", "stock asks: python3 check_shop.py", "was killed (kill -9)"):
        assert part in done.stdout
    assert "the page, for your browser: http://127.0.0.1:" in done.stdout
    assert "check_shop.py: OK" in done.stdout and "4 receipts for 4 orders" in done.stdout
    assert list(tmp_path.iterdir()) == []
    left = [each for each in table.processes() if any(str(tmp_path) in word for word in table.command_line(each.pid))]
    assert left == []
