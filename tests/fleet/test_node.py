"""A node: how it starts runners, and what it says when it cannot."""

import asyncio
import os
from pathlib import Path

import pytest

from tests.fleet.conftest import Start, give, runner_pid, spec, until_state
from treadle.fleet import client, node, runs
from treadle.fleet.bus import Bus
from treadle.io.process import warm


async def test_runners_are_copies_of_a_warm_parent_that_ends_when_it_is_dismissed(
    bus: Bus, start_node: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREADLE_WARM", "60")
    await start_node()
    one, two = await give(bus, spec("null:60:60"), spec("null:60:60"))
    pids = [await runner_pid(one), await runner_pid(two)]
    parents = {int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]) for pid in pids}
    assert len(parents) == 1 and "treadle-warm" in Path(f"/proc/{parents.pop()}/comm").read_text()
    warm.dismiss(node.RUNNERS)
    await until_state(bus, one, "running")
    for name in (one, two):
        await client.cancel(bus, name)
        assert (await client.wait(bus, name, 60)).state == "cancelled"


async def test_a_runner_outlives_the_warm_parent_it_came_from(
    bus: Bus, start_node: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREADLE_WARM", "60")
    await start_node()
    (name,) = await give(bus, spec("null:2:6"))
    await runner_pid(name)
    warm.dismiss(node.RUNNERS)
    order = await client.wait(bus, name, 60)
    assert order.state == "done" and order.attempt == 1


async def test_a_node_that_cannot_start_a_runner_says_so_and_takes_nothing_more(
    bus: Bus, start_node: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    await start_node("bad", slots=4, labels=("here",))
    await start_node("good", slots=4)
    place = Path(runs.places.inside("runs"))
    place.rmdir()
    place.write_text("no directory")  # as good as a disk that takes nothing
    try:
        (name,) = await give(bus, spec("null:0.1:2", labels=("here",)))
        async with asyncio.timeout(60):
            while not any("could not start" in str(each["says"]) for each in await client.nodes(bus)):
                await asyncio.sleep(0.05)
        order = await client.get_order(bus, name)
        assert order.attempts[0].outcome == "lost" and "could not be started there" in order.attempts[0].why
    finally:
        place.unlink()
        os.mkdir(place, 0o700)


async def test_a_node_without_room_on_its_disk_takes_nothing(
    bus: Bus, start_node: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node, "DISK_LEAST", 1 << 62)
    await start_node()
    (name,) = await give(bus, spec())
    async with asyncio.timeout(60):
        while "disk is full" not in str((await client.why(bus, name)).get("nodes")):
            await asyncio.sleep(0.05)


def test_what_is_known_of_a_runner_that_left_no_report(tmp_path: Path) -> None:
    assert node._how(str(tmp_path)) == "its runner was ended, without a word"
    (tmp_path / "runner.log").write_text("first\nlast words\n")
    assert node._how(str(tmp_path)) == "its runner was ended: last words"
