"""Machines of a fleet as a person starts, joins, stops, saves and cleans them."""

import asyncio
import json
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.fleet.commands import as_json, fleet, requested, stored, typed, typed_json
from tests.installed import TREADLE
from treadle.fleet import keeper, up
from treadle.fleet.engine import server
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import encode
from treadle.serve import background as running_page
from treadle.wire.fleet.records import Control, NodeRecord


def installed(*arguments: str, code: int = 0) -> str:
    done = subprocess.run(
        [TREADLE, "fleet", *arguments], capture_output=True, text=True, timeout=120, cwd=os.environ["HOME"]
    )
    assert done.returncode == code, (arguments, done.stdout, done.stderr)
    return done.stdout if code == 0 else done.stdout + done.stderr


def kill_all(*kinds: str) -> None:
    """Kill the keeper, if asked, before what it would start again."""
    keeping, engine, page = keeper.running(), server.running(), running_page.find()
    nodes = [process.pid for _, process in up.local_nodes() if process is not None]
    pids = {"keeper": [keeping.pid] if keeping else [], "node": nodes}
    pids |= {"engine": [engine.pid] if engine else [], "page": [page.pid] if page else []}
    pids["runner"] = [note.pid for _, _, note in up.live_runners()]
    for pid in [pid for kind in kinds for pid in pids[kind]]:
        os.kill(pid, signal.SIGKILL)


def until(seen: Callable[[], object]) -> None:
    deadline = time.monotonic() + 90
    while not seen():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.slow
def test_what_is_killed_comes_back_by_itself_and_an_order_goes_on(nothing_left: None) -> None:
    fleet("up", "--name", "n1", "--slots", "2", "--lease", "2")
    before = as_json("status")
    fleet("up", "--no-page")
    assert as_json("status")["engine"] == before["engine"], "it joins what is there"
    order = fleet("submit", "sleep", "--agent", "null:300:300").strip()
    until(lambda: up.live_runners() and as_json("show", order)["order"]["state"] == "running")
    kill_all("node")
    assert "orders     unknown: no scheduler answers; 1 at work" in fleet("status", code=1)
    until(lambda: asyncio.run(up.status())["scheduler"])
    kill_all("keeper", "engine", "page")
    until(lambda: asyncio.run(up.status())["scheduler"] and running_page.find() and keeper.running())
    shown = as_json("show", order)["order"]
    assert (shown["state"], shown["attempt"]) == ("running", 1)
    assert {name: known["total"] for name, known in as_json("status")["restarts"].items()} == {
        "node-n1": 1,
        "page": 1,
        "engine": 1,
    }
    assert "page started again 1 time, last" in fleet("status")
    fleet("down")
    assert keeper.running() is None and running_page.find() is None and not server.is_up()
    assert all(process is None for _, process in up.local_nodes())


@pytest.mark.slow
def test_at_login_a_unit_starts_what_was_there(running: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "/nowhere")  # so there is no systemd
    told = as_json("up", "--no-page", "--at-login")
    assert told["unit"] == str(tmp_path / "systemd/user/treadle-fleet.service")
    text = Path(told["unit"]).read_text()
    starts, stops = (shlex.split(line.partition("=")[2]) for line in text.splitlines() if line.startswith("ExecSt"))
    assert starts[-2:] == ["up", "--no-page"] and f'"TREADLE_HOME={os.environ["TREADLE_HOME"]}"' in text
    assert "web page" in subprocess.run([*starts[:-1], "--help"], capture_output=True, text=True).stdout
    assert "Stop the fleet" in subprocess.run([*stops, "--help"], capture_output=True, text=True).stdout


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
    assert "is in no fleet" in fleet("status", code=1)


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

    assert "not an invitation code" in fleet("join", "nonsense", code=1)
    joined = json.loads(elsewhere("join", "-", "--label", "far", "--json", stdin=code))
    assert joined == {"node": "second", "kept_by": "the keeper"}
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


async def test_what_down_would_forget_is_asked_and_a_no_stops_nothing(bus: Bus) -> None:
    assert "Aborted!" in await typed("down", "--forget", code=1, stdin="n\n")
    assert "nothing was stopped or removed" in await typed("down", "--forget", code=1) and server.is_up()
    shown = await typed("status", code=1)
    assert "orders     unknown: no scheduler answers\n" in shown and "problem    no scheduler answers" in shown
    told = await typed("down", "--forget", both=True, stdin="y\n")
    assert "Remove all orders, events and results of this fleet? [y/N]" in told and "nodes   0 stopped" in told
    assert "page    stopped" not in told and not server.is_up()


@pytest.mark.slow
def test_what_is_stored_is_archived_and_cleaned(running: None, tmp_path: Path) -> None:
    order = fleet("submit", "nothing", "--agent", "null", "--wait").split()[0]
    assert "orders are kept for 90 days after they ended, or until they take 8 GB" in fleet("keep")
    assert as_json("keep", "--keep", "forever", "--keep-size", "1") == {"keep_seconds": 0.0, "keep_bytes": 1024**3}
    assert "needs --older-than" in fleet("keep", "--archive", "x", code=1)
    assert as_json("keep", "--older-than", "1d", "--dry-run") == {"orders": []}
    archive = tmp_path / "old.jsonl"
    while f"order.{order}" not in (archive.read_text() if archive.exists() else ""):  # until it is a second old
        fleet("keep", "--older-than", "1s", "--archive", str(archive))
    kept = json.loads(archive.read_text().splitlines()[0])
    assert kept[f"receipt.{order}"]["outcome"] == "done" and f"spec.{order}" in kept
    while order in fleet("ls"):  # the scheduler removes it, and may be busy with it now
        fleet("keep", "--older-than", "1s")
    assert "there is no order" in fleet("show", order, code=1)


async def test_what_is_kept_is_shown_set_and_cleaned_as_typed(bus: Bus, tmp_path: Path) -> None:
    for keep_seconds, keep_bytes, said in (
        (86400.0, 0, "orders are kept for 1 days after they ended\n"),
        (0.0, 1024**3 // 2, "orders are kept for ever, or until they take 0.5 GB\n"),
    ):
        await bus.put("control", encode(Control(keep_seconds=keep_seconds, keep_bytes=keep_bytes)))
        assert await typed("keep") == said and await requested(bus) == []
    keeps = {"keep_seconds": 0.0, "keep_bytes": 1024**3 // 2}
    for words, asked, found in (
        (("--for", "2d"), {"keep_seconds": 172800.0}, {"keep_seconds": 172800.0}),
        (("--keep", "forever"), {"keep_seconds": 0.0}, {}),
        (("--size", "0"), {"keep_bytes": 0}, {"keep_bytes": 0}),
        (("--keep-size", "2"), {"keep_bytes": 2 * 1024**3}, {"keep_bytes": 2 * 1024**3}),
    ):
        assert await typed_json("keep", *words) == {**keeps, **found}
        assert await requested(bus) == [{"do": "keep", **asked}]
    await stored(bus, "old", changed=time.time() - 7200)
    await stored(bus, "busy", changed=time.time() - 7200, state="running")
    await stored(bus, "new")
    archive = tmp_path / "archive"
    clean = ["keep", "--older-than", "1h", "--archive", str(archive)]
    assert await typed(*clean, "--dry-run") == "1 orders would be removed\n"
    assert await requested(bus) == [] and not archive.exists()
    assert await typed(*clean) == "1 orders are removed\n"
    assert await requested(bus) == [{"do": "clean", "orders": ["old"]}]
    assert json.loads(archive.read_text()).keys() == {"spec.old", "order.old"}
    assert await typed_json("keep", "--older-than", "1h", "--keep", "1d") == {"orders": ["old"]}
    assert [request["do"] for request in await requested(bus)] == ["keep", "clean"]
