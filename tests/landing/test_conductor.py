"""Finished work that names a branch lands by itself, once, also when the one who drives is replaced."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.fleet.repositories import git
from tests.landing.finished import Finished, clean
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import TRAIN, encode
from treadle.landing import train
from treadle.landing.train import Conductor
from treadle.wire.fleet.records import Note
from treadle.wire.fleet.train import (
    Boarding,
    LandingIntent,
    QueuedChange,
    ReturnedChange,
    TrainRecord,
    TrainRequest,
)


@asynccontextmanager
async def driving(bus: Bus, count: int = 1) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(Conductor().ride(bus)) for _ in range(count)]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def until(bus: Bus, repository: Path, landed: int = 0, *, paused: bool = False) -> TrainRecord:
    name = train.name_of(str(repository / ".git"), "main")
    async with asyncio.timeout(60):
        while True:
            found = (await train.trains(bus)).get(name)
            if found is not None and (found.paused is not None if paused else found.landed >= landed):
                return found
            await asyncio.sleep(0.05)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train, "IDLE_SECONDS", 0.05)


async def marked(bus: Bus, finished: Finished, name: str, files: dict[str, str | None], verify: str = "true") -> str:
    order = await finished.order(name, files)
    mark = Boarding(order=order, root=str(finished.repository), branch="main", verify=verify)
    await bus.put(f"boards.{order}", encode(mark))
    return order


@pytest.mark.slow
async def test_what_is_marked_lands_and_the_mark_is_gone(bus: Bus, finished: Finished, repository: Path) -> None:
    async with driving(bus):
        await marked(bus, finished, "one", {"one.txt": "x\n"}, verify="test -e a.txt")
        assert (await until(bus, repository, 1)).verify == "", "an order's check is not the branch's"
        await marked(bus, finished, "red", {"red.txt": "x\n"}, verify="false")
        await marked(bus, finished, "two", {"two.txt": "x\n"})
        (out,) = (await until(bus, repository, 2)).left_out
        assert (out.order, out.kind, out.output) == ("red", "red", "`false`, the check of the order itself:\n")
        async with asyncio.timeout(60):
            while await bus.keys("boards.*"):
                await asyncio.sleep(0.05)
    assert sorted(each.name for each in repository.glob("*o*.txt")) == ["one.txt", "two.txt"] and clean(repository)
    told = git(repository, "log", "--format=%B", "main")
    assert [told.count(f"Order: {name}\n") for name in ("one", "two")] == [1, 1]


async def test_two_conductors_at_once_land_it_once(bus: Bus, finished: Finished, repository: Path) -> None:
    async with driving(bus, 2):
        await marked(bus, finished, "one", {"one.txt": "x\n"})
        await until(bus, repository, 1)
    assert git(repository, "log", "--format=%B", "main").count("Order: one\n") == 1


async def test_a_mark_that_was_not_removed_does_not_queue_again_what_was_sent_back(
    bus: Bus, finished: Finished, repository: Path
) -> None:
    async with driving(bus):
        await marked(bus, finished, "one", {"one.txt": "x\n"}, verify="false")
        name = train.name_of(str(repository / ".git"), "main")
        async with asyncio.timeout(60):
            while not (found := (await train.trains(bus)).get(name)) or not any(each.by for each in found.back):
                await asyncio.sleep(0.05)
        await bus.put("boards.one", encode(Boarding(order="one", root=str(repository), branch="main")))
        async with asyncio.timeout(60):
            while await bus.keys("boards.*"):
                await asyncio.sleep(0.05)
        assert (await train.trains(bus))[name].back == found.back and not found.queue


@pytest.mark.slow
async def test_a_mark_that_comes_back_with_a_killed_engine_lands_nothing_that_a_person_has_refused(
    bus: Bus, finished: Finished, repository: Path
) -> None:
    refused = await finished.order("refused", {"one.txt": "x\n"})
    order = await client.get_order(bus, refused)
    await bus.put(f"order.{refused}", encode(replace(order, result={**order.result, "not_landed": "a person said no"})))
    await bus.put("boards.refused", encode(Boarding(order=refused, root=str(repository), branch="main", verify="true")))
    async with driving(bus):
        await marked(bus, finished, "two", {"two.txt": "x\n"})
        await until(bus, repository, 1)
        async with asyncio.timeout(60):
            while await bus.keys("boards.*"):
                await asyncio.sleep(0.05)
    assert not (repository / "one.txt").exists() and (repository / "two.txt").exists()


async def test_one_that_is_replaced_leaves_the_rest_to_the_next(bus: Bus, finished: Finished, repository: Path) -> None:
    gate = repository / ".git/objects/info"
    async with driving(bus):
        await marked(bus, finished, "one", {"one.txt": "x\n"}, verify=f"while ! test -e {gate}/go; do sleep 0.02; done")
        name = train.name_of(str(repository / ".git"), "main")
        async with asyncio.timeout(60):
            while not (found := (await train.trains(bus)).get(name)) or not found.row:
                await asyncio.sleep(0.05)
    (gate / "go").touch()
    assert not (repository / "one.txt").exists()
    async with driving(bus):
        await until(bus, repository, 1)


async def test_a_repository_that_is_on_another_machine_is_left_to_that_one(bus: Bus, finished: Finished) -> None:
    await bus.put("boards.far", encode(Boarding(order="far", root="/nowhere/at/all", branch="main")))
    async with driving(bus):
        await marked(bus, finished, "one", {"one.txt": "x\n"})
        await until(bus, finished.repository, 1)
        async with asyncio.timeout(60):
            while await bus.keys("boards.*") != ["boards.far"]:
                await asyncio.sleep(0.05)


async def test_what_delays_a_train_is_in_its_record(bus: Bus, finished: Finished, repository: Path) -> None:
    (repository / "a.txt").write_text("mine\n")
    async with driving(bus):
        await marked(bus, finished, "one", {"a.txt": "x\n"})
        async with asyncio.timeout(60):
            while not (delays := [each.delay for each in (await train.trains(bus)).values() if each.delay]):
                await asyncio.sleep(0.05)
    assert "a.txt" in delays[0].why


async def test_a_mark_that_leads_nowhere_is_noted_and_stops_no_other(
    bus: Bus, finished: Finished, repository: Path
) -> None:
    lost = await finished.order("lost", {"lost.txt": "x\n"})
    await bus.put(f"boards.{lost}", encode(Boarding(order=lost, root=str(repository), branch="nowhere")))
    notes = await bus.client.subscribe("fleet.in.>")
    async with driving(bus):
        await marked(bus, finished, "one", {"one.txt": "x\n"})
        await until(bus, repository, 1)
        while b"cannot land on nowhere" not in (await notes.next_msg(timeout=60)).data:
            pass


async def test_a_branch_without_a_check_stands_still_until_it_has_one(
    bus: Bus, finished: Finished, repository: Path
) -> None:
    async with driving(bus):
        await marked(bus, finished, "one", {"one.txt": "x\n"}, verify="")
        found = await until(bus, repository, paused=True)
        assert found.paused is not None and "no check is set for main" in found.paused.what
        await train.ensure(bus, str(repository), "main", verify="true")
        await until(bus, repository, 1)


async def test_a_mark_that_cannot_be_read_is_removed_and_keeps_no_other_from_landing(
    bus: Bus, finished: Finished, repository: Path
) -> None:
    await bus.put("boards.aaa", b"{}")
    await bus.put("steers.aaa", b"nothing")
    async with driving(bus):
        await marked(bus, finished, "one", {"one.txt": "x\n"})
        await until(bus, repository, 1)
        async with asyncio.timeout(60):
            while await bus.keys("boards.*") or await bus.keys("steers.*"):
                await asyncio.sleep(0.05)


async def test_a_train_is_paused_and_resumed_by_who_may_not_write_its_record(
    bus: Bus, finished: Finished, repository: Path
) -> None:
    name = await train.ensure(bus, str(repository), "main", verify="true")
    riding = Conductor()

    async def steer(to: str, **request: str) -> TrainRecord:
        await bus.put(f"steers.{to}", encode(TrainRequest(by="ann", **request)))
        await riding._steer(bus)
        assert await bus.named(["steers.*"]) == {}
        return (await train.trains(bus))[name]

    paused = (await steer(name, pause="a freeze")).paused
    assert paused is not None and (paused.by, paused.what) == ("ann", "a freeze") and paused.at > 0
    assert (await steer("nowhere", pause="x")).paused == paused
    assert (await steer(name)).paused is None


async def test_what_helps_a_train_is_not_queued_by_its_mark(bus: Bus, finished: Finished, repository: Path) -> None:
    first = await finished.order("first", {"one.txt": "x\n"})
    helper = await finished.order("helper", {"two.txt": "x\n"}, by=TRAIN, retry_of=first)
    again = await finished.order("again", {"three.txt": "x\n"}, by="ann", retry_of=first)
    for order in (helper, again):
        await bus.put(f"boards.{order}", encode(Boarding(order=order, root=str(repository), branch="main")))
    await Conductor()._take_up(bus)
    (record,) = (await train.trains(bus)).values()
    assert [each.order for each in record.queue] == [again] and not record.verify
    assert await bus.named(["boards.*"]) == {}


async def test_a_train_is_driven_if_it_has_work_here_and_does_not_stand_still(bus: Bus, repository: Path) -> None:
    queued = (QueuedChange(order="a", commit="c"),)
    back = (ReturnedChange(order="a", first="a", commit="c", kind="red", why="w", at=1.0),)
    records: dict[str, dict[str, Any]] = {
        "idle": {},
        "queued": {"queue": queued},
        "back": {"back": back},
        "landing": {"landing": LandingIntent(old="0", new="1", tree="2", orders=("a",))},
        "paused": {"queue": queued, "paused": Note(at=1.0, by="ann", what="x")},
        "far": {"queue": queued, "repository": "/nowhere/at/all"},
    }
    for name, fields in records.items():
        record = TrainRecord(**{"repository": str(repository), "branch": "main", "verify": "true", **fields})
        await bus.put(f"train.{name}", encode(record))
    assert sorted(await Conductor().due(bus)) == ["back", "landing", "queued"]
