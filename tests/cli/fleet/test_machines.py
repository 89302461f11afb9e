"""Machines of a fleet as a person starts, joins and stops them."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.fleet.commands import as_json, fleet, requested, typed, typed_json
from tests.installed import TREADLE
from treadle.cli.fleet.machines import _show_status
from treadle.fleet import up
from treadle.fleet.engine import places, server
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import encode
from treadle.io.process import table
from treadle.serve import background as running_page
from treadle.wire.fleet.records import NodeRecord


def installed(*arguments: str, code: int = 0) -> str:
    done = subprocess.run(
        [TREADLE, "fleet", *arguments], capture_output=True, text=True, timeout=120, cwd=os.environ["HOME"]
    )
    assert done.returncode == code, (arguments, done.stdout, done.stderr)
    return done.stdout if code == 0 else done.stdout + done.stderr


@pytest.mark.slow
def test_the_installed_command_takes_an_order_from_up_to_down(nothing_left: None) -> None:
    installed("up", "--name", "n1", "--lease", "2", "--no-page")
    order = installed("submit", "do nothing", "--agent", "null:0.2:3", "--wait").split()[0]
    assert "attempt   1 on n1, done" in installed("show", order[:6])
    assert "there is no order 'nothing'" in installed("show", "nothing", code=1)
    installed("down")
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


@pytest.mark.slow
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


@pytest.mark.slow
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


UP: dict[str, Any] = {
    "url": "nats://127.0.0.1:1",
    "private": True,
    "directory": "/d",
    "engine": {"version": "2.12", "pid": 7, "started": 0.0},
    "disk_bytes": 1_500_000,
    "disk_free_bytes": 2_500_000_000,
    "page": "http://127.0.0.1:2",
    "scheduler": "n1",
    "since": 0.0,
    "nodes": [
        {"name": "n1", "alive": True, "at_work": ["a"], "slots": 4, "says": "free"},
        {"name": "n2", "alive": False, "at_work": [], "slots": 4, "says": "not heard"},
    ],
    "nodes_here": [{"name": "n1", "pid": 9}],
    "orders": {"running": 2, "asking": 1},
    "trains": [
        {"branch": "main", "waiting": 2, "oldest": 0.0, "paused": "", "back": 1, "asking": 3, "landed": 4},
        {"branch": "next", "waiting": 1, "oldest": 1.0, "paused": "red", "back": 0, "asking": 0, "landed": 0},
    ],
    "problem": "no room",
}


def status(capsys: pytest.CaptureFixture[str], **changed: Any) -> list[str]:
    _show_status({**UP, **changed})
    return capsys.readouterr().out.splitlines()


def test_what_is_up_is_shown_line_by_line_and_what_is_not_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    old = f"{time.time() / 86400:.0f}d"
    assert status(capsys) == [
        f"engine     nats://127.0.0.1:1: nats-server 2.12, process 7, up {old}",
        "disk       1.5 MB in /d, 2.5 GB free",
        "page       http://127.0.0.1:2 (`treadle serve --link` prints a link)",
        f"scheduler  n1, for {old}",
        "node       n1: 1 of 4 slots; free",
        "node       n2: gone; not heard",
        "orders     1 asking, 2 running",
        "train      main: 2 waiting, 1 sent back, 3 asking, 4 landed",
        f"train      next: 1 waiting, the oldest for {old}, 0 sent back, 0 asking, 0 landed; stands still: red",
        "problem    no room",
    ]
    nothing = {name: None for name in ("engine", "page", "scheduler", "orders", "trains", "nodes", "problem")}
    assert status(capsys, **nothing)[::2] == ["engine     nats://127.0.0.1:1: down", "node       n1: process 9"]
    here = [{"name": "n1", "pid": None}]
    assert status(capsys, **nothing, private=False, nodes_here=here) == [
        "engine     nats://127.0.0.1:1",
        "node       n1: down",
        "orders     none at work or waiting",
    ]


async def test_nodes_are_listed_also_when_they_are_gone_and_drained_as_typed(bus: Bus) -> None:
    for record in (
        NodeRecord(name="n1", slots=4, labels=("a", "b"), version="1.0", heard=time.time() - 130),
        NodeRecord(name="n2", slots=2),
    ):
        await bus.put(f"node.{record.name}", encode(record))
    assert [line.split() for line in (await typed("nodes")).splitlines()] == [
        ["NODE", "STATE", "SLOTS", "LABELS", "VERSION", "SAYS"],
        ["n1", "gone", "0/4", "a,b", "1.0", *"no scheduler is up, last heard 2m ago".split()],
        ["n2", "gone", "0/2", "-", "?", *"no scheduler is up".split()],
    ]
    assert [node["name"] for node in await typed_json("nodes")] == ["n1", "n2"]
    for words, asked in (
        (("n1", "--why", "w"), {"do": "drain", "node": "n1", "why": "w"}),
        (("n1", "--undo", "--wait"), {"do": "undrain", "node": "n1"}),
        (("n1", "--wait"), {"do": "drain", "node": "n1"}),
    ):
        assert await typed("drain", *words) == "" and await requested(bus) == [asked]
    assert await typed_json("drain", "n1") == {"node": "n1", "drained": True}
    assert await typed_json("drain", "n1", "--undo") == {"node": "n1", "drained": False}


async def test_an_invitation_names_who_may_come_and_until_when(bus: Bus) -> None:
    found = await typed_json("invite", "far", "--valid", "5m", "--url", "nats://x:1")
    assert found["node"] == "far" and 290 < found["until"] - time.time() <= 300
    assert "worker:far" not in places.load().users and len((await typed("invite", "far")).split()) == 1
    assert "there are no credentials of a worker 'far'" in await typed("remove", "far", code=1)


async def test_what_down_would_forget_is_asked_and_a_no_stops_nothing(bus: Bus) -> None:
    assert "Aborted!" in await typed("down", "--forget", code=1, stdin="n\n")
    assert "nothing was stopped or removed" in await typed("down", "--forget", code=1) and server.is_up()
    shown = await typed("status", code=1)
    assert "orders     none at work or waiting\n" in shown and "problem    no scheduler answers" in shown
    told = await typed("down", "--forget", both=True, stdin="y\n")
    assert "Remove all orders, events and results of this fleet? [y/N]" in told and "nodes   0 stopped" in told
    assert "page    stopped" not in told and not server.is_up()


def test_a_limit_of_a_node_that_is_none_is_refused(nothing_left: None) -> None:
    for wrong in ("repo", "=1", "repo=x", "repo="):
        assert f"{wrong!r} is no limit" in fleet("node", "--limit", wrong, code=1)
