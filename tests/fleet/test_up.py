"""The fleet of this machine: started, found again, looked at and stopped."""

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fleet.conftest import activity_of, give, make_fleet, runner_pid, spec, until_state
from tests.fleet.conftest import nothing_left as nothing_left
from treadle.errors import ConfigError, LocalError, NotFound
from treadle.fleet import client, node, up
from treadle.fleet.engine import places, server
from treadle.io.files import locked
from treadle.io.process import table


@pytest.fixture
async def running(nothing_left: None) -> AsyncIterator[list[str]]:
    told: list[str] = []
    await up.up(name="n1", slots=1, lease=2.0, say=told.append)
    yield told
    await up.down()


async def test_it_tells_each_step_and_joins_what_is_there(running: list[str]) -> None:
    assert [line.split()[0] for line in running] == ["engine", "streams", "node", "ready"]
    again: list[str] = []
    await up.up(name="n1", say=again.append)
    assert "found" in again[0] and "found" in again[2]
    with pytest.raises(LocalError, match="belongs to the fleet at"):
        await up.up(url="nats://127.0.0.1:1")


async def test_what_is_up_is_told_and_after_down_nothing_is(running: list[str]) -> None:
    found = await up.status()
    assert found["scheduler"] == "n1" and found["engine"]["version"] and found["disk_bytes"] > 0
    assert [each["name"] for each in found["nodes_here"]] == ["n1"] and found["runners_here"] == []
    told: list[str] = []
    await up.down(say=told.append, forget=True)
    assert not server.is_up() and told[-1] == "all that was stored is removed"
    with pytest.raises(NotFound, match="is in no fleet"):
        await up.status()
    await up.up(name="n1", slots=1, lease=2.0)


async def test_down_without_an_engine_still_ends_the_nodes(running: list[str]) -> None:
    (process,) = [process for _, process in up.local_nodes()]
    assert process is not None
    await asyncio.to_thread(server.stop)
    await up.down()
    assert not table.lives(process.pid, process.start) and not server.is_up()
    assert places.load().private


@pytest.mark.slow
async def test_a_runner_goes_on_when_its_node_is_killed_and_the_next_one_adopts_it(
    nothing_left: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREADLE_WARM", "60")  # as on a person's machine
    await up.up(name="n1", slots=1, lease=5.0)
    try:
        async with client.connected() as bus:
            (name,) = await give(bus, spec("null:300:300"))
            pid = await runner_pid(name)
            await until_state(bus, name, "running")
            (process,) = [process for _, process in up.local_nodes()]
            assert process is not None and table.send(process, signal.SIGKILL)
            await up._gone([(process.pid, process.start)])
            await up.up(name="n1", slots=1)
            async with asyncio.timeout(60):
                while not activity_of(await client.why(bus, name)).pid == pid:
                    await asyncio.sleep(0.05)
            assert (await client.get_order(bus, name)).attempt == 1
            await client.cancel(bus, name)
            assert (await client.wait(bus, name, 60)).state == "cancelled"
    finally:
        await up.down()


def test_a_machine_s_fleet_is_made_once_and_another_s_is_not_taken_over(
    state_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = up._fleet("", "", "", 1, 0.0)
    assert made.private and set(made.users) == {"admin", "submit", "watch"} and made.lease == 5.0
    assert len(set(made.users.values())) == 3 and up._fleet("", "", "", 3, 9.0) == made == up._fleet(
        made.url, "", "", 1, 0.0
    )
    with pytest.raises(LocalError, match="this machine belongs to the fleet at nats://127.0.0.1:") as refused:
        up._fleet("nats://other", "", "", 1, 0.0)
    assert refused.value.hint == "`treadle fleet down --forget` first"
    os.unlink(os.path.join(places.root(), "fleet.json"))
    monkeypatch.chdir(state_home)
    for wrong in ("nonsense", "http://there:4222", "nats://there,nonsense"):
        with pytest.raises(ConfigError, match="is not the address of a NATS server"):
            up._fleet(wrong, "", "", 1, 0.0)
    theirs = up._fleet("tls://me:word@there", "me.creds", "~/ca.pem", 3, 0.0)
    assert not theirs.private and theirs.users == {} and (theirs.lease, theirs.replicas) == (15.0, 3)
    assert theirs.creds == str(state_home / "me.creds") and theirs.ca == os.path.expanduser("~/ca.pem")
    os.unlink(os.path.join(places.root(), "fleet.json"))
    assert up._fleet("tls://there", "", "", 1, 2.0) == places.Fleet(url="tls://there", private=False, lease=2.0)


async def test_a_fleet_whose_engine_is_away_is_told_as_such(state_home: Path) -> None:
    made = make_fleet()
    found = await up.status()
    assert (found["url"], found["private"], found["engine"], found["scheduler"]) == (made.url, True, None, None)
    assert "no one answers" in found["problem"] and found["nodes_here"] == found["runners_here"] == []
    assert found["disk_free_bytes"] > 0 and found["directory"] == places.root()
    told: list[str] = []
    assert await up.down(say=told.append) == {"runners": 0, "nodes": 0, "engine": False, "page": False}
    assert told == ["nodes   0 stopped"] and places.load() == made


async def test_an_engine_without_a_scheduler_says_so_and_one_without_room_too(
    fleet: places.Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = await up.status()
    assert found["engine"]["pid"] and found["problem"].startswith("no scheduler answers (")
    monkeypatch.setattr(node, "DISK_LEAST", 10**18)
    assert (await up.status())["problem"] == "the engine's disk is full: free some space, and it continues by itself"
    monkeypatch.setattr(up, "START_SECONDS", 0.0)
    async with client.connected() as bus:
        with pytest.raises(LocalError, match="no scheduler answers within 0 s") as refused:
            await up.await_scheduler(bus, "n1")
    assert str(refused.value.hint).endswith("nodes/n1/node.log")


def test_nodes_here_are_those_that_hold_their_lock_with_their_process(state_home: Path) -> None:
    assert list(up.local_nodes()) == []
    here = Path(node.directory_of("n1"))
    node.directory_of("gone")
    (here / "pid").write_text(str(os.getpid()))
    with locked(str(here / "lock"), 0):
        assert [(name, process and process.pid) for name, process in up.local_nodes()] == [
            ("gone", None),
            ("n1", os.getpid()),
        ]
        assert not up.start_node(node.NodeSettings(name="n1")), "there is one of that name"
        (here / "pid").write_text("none")
        assert dict(up.local_nodes())["n1"] is None
    assert dict(up.local_nodes())["n1"] is None


async def test_what_does_not_end_in_time_is_killed_and_another_process_with_its_number_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(up, "STOP_SECONDS", 0.0)
    with subprocess.Popen(["/bin/sh", "-c", "trap '' TERM; echo; read x"], stdin=-1, stdout=-1) as stubborn:
        assert stubborn.stdout is not None and stubborn.stdout.readline()
        start = table.start_time(stubborn.pid)
        table.send_to(stubborn.pid, start + 1, signal.SIGKILL)
        table.send_to(stubborn.pid, start, signal.SIGTERM)
        assert table.lives(stubborn.pid, start)
        await asyncio.wait_for(up._gone([(stubborn.pid, start)]), 60)
        assert stubborn.wait(60) == -signal.SIGKILL
