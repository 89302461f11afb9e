"""Machines of a fleet as a person starts, joins and stops them."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.fleet.commands import as_json, fleet
from tests.installed import TREADLE
from treadle.fleet import up
from treadle.fleet.engine import server
from treadle.io.process import table
from treadle.serve import running as running_page


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
    assert "`--yes` removes them without asking" in fleet("down", "--forget", code=1)
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
