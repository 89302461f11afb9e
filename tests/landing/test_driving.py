"""One process works on a train, the others watch and say what happens."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.landing.test_merging import Finished
from tests.landing.trains import CHECK, empty
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import encode
from treadle.landing import train
from treadle.landing.train import DriverLease, DriverRecord, Train
from treadle.receipts.trace import Check
from treadle.wire.fleet.train import Car, LeftOut, QueuedChange, ReturnedChange, TrainRecord


async def test_of_two_trains_at_once_one_checks_and_both_tell(bus: Bus, finished: Finished, repository: Path) -> None:
    checked: list[str] = []
    said: list[str] = []

    class Counting(Train):
        async def _check(self, car: Car) -> Check:
            checked.append(car.commit)
            return await super()._check(car)

    names = [await finished.order(f"o{number}", {f"new{number}.txt": "x\n"}) for number in range(3)]
    name = await train.ensure(bus, str(repository), "main", verify=CHECK)
    await train.board(bus, name, names)
    record, _ = await train.load(bus, name)
    both = [Counting(bus, name, record, say=said.append) for _ in range(2)]
    async with asyncio.timeout(60):
        records = await asyncio.gather(*(each.run(empty) for each in both))
    assert [each.landed for each in records] == [3, 3] and len(checked) == len(set(checked)) == 3
    assert sum(line.startswith("landed") and names[0] in line for line in said) == 2


async def test_a_seat_is_given_up_by_leaving_and_taken_at_once_from_the_killed(bus: Bus) -> None:
    one, two = DriverLease(bus, "t"), DriverLease(bus, "t")
    assert await one.taken() and not await two.taken() and await one.taken()
    await one.leave()
    assert await two.taken() and not await one.taken()
    await two.leave()
    code = (
        "import asyncio, os, signal\n"
        "from treadle.fleet.client import connected\n"
        "from treadle.landing.train import DriverLease\n"
        "async def main():\n"
        "    async with connected() as bus:\n"
        "        assert await DriverLease(bus, 't').taken()\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "asyncio.run(main())"
    )
    done = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", code], env=dict(os.environ), timeout=60)
    assert done.returncode == -signal.SIGKILL and await one.taken()


async def test_a_seat_of_another_machine_that_died_is_taken_even_if_the_engine_does_not_end_it(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train, "OVERDUE_SECONDS", 0.2)
    dead = DriverRecord(host="elsewhere", pid=os.getpid(), start=1, token="x")
    await bus.put("drives.t", encode(dead))  # without an end, as an engine that was killed may show one
    seat = DriverLease(bus, "t")
    assert not await seat.taken()
    async with asyncio.timeout(60):
        while not await seat.taken():
            await asyncio.sleep(0.02)


async def test_a_seat_of_another_machine_that_is_renewed_is_not_taken(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train, "OVERDUE_SECONDS", 0.2)
    there, seat = DriverLease(bus, "t"), DriverLease(bus, "t")
    there._mine = replace(there._mine, host="elsewhere")
    assert await there.taken()
    for _ in range(3):
        assert not await seat.taken()
        await asyncio.sleep(0.15)
        there._renewed = 0.0  # it is time to renew it
        assert await there.taken()


def test_what_another_process_has_done_is_told_in_words() -> None:
    def change(name: str) -> QueuedChange:
        return QueuedChange(order=name, commit="c")

    out = LeftOut(order="red", kind="red", why="it was red", at=1.0)
    back = ReturnedChange(order="b", first="a", commit="c", kind="red", why="it was red", at=1.0, by="h")
    before = TrainRecord(
        repository="r",
        branch="main",
        queue=tuple(map(change, ("landed", "waits", "red"))),
        left_out=(replace(out, order="earlier"),),
        back=(replace(back, first="known", by="k"), replace(back, first="unhelped", by="")),
    )
    after = replace(
        before,
        queue=(change("waits"), change("new")),
        left_out=(*before.left_out, out),
        back=(*before.back, back),
    )
    assert train.happened_between(before, after) == [
        "landed   landed",
        "left out red: it was red",
        "back     a as h: it was red",
    ]
    assert train.happened_between(after, after) == []


async def test_a_lease_is_renewed_in_time_and_left_only_by_who_holds_it(bus: Bus) -> None:
    one, two = DriverLease(bus, "t"), DriverLease(bus, "t")
    await two.leave()
    assert await bus.get("drives.t", latest=True) is None, "it held nothing"
    assert await one.taken()
    first = await bus.get("drives.t", latest=True)
    assert first is not None and await one.taken()
    again = await bus.get("drives.t", latest=True)
    assert again is not None and again.revision == first.revision, "it is not renewed at every look"
    one._renewed = 0.0
    assert await one.taken()
    renewed = await bus.get("drives.t", latest=True)
    assert renewed is not None and renewed.revision > first.revision
    await bus.put("drives.t", encode(replace(two._mine, host="elsewhere")))
    await one.leave()
    held = await bus.get("drives.t", latest=True)
    assert held is not None and msgspec.json.decode(held.value, type=DriverRecord).host == "elsewhere"
    assert not await one.taken()


@pytest.mark.parametrize(
    ("holder", "gone"),
    [
        ({"pid": 0}, True),
        ({"pid": 0, "host": "elsewhere"}, True),
        ({"host": "elsewhere", "start": 1}, False),
        ({}, False),
        ({"start": 1}, True),
        ({"pid": 1 << 22}, True),
    ],
)
def test_who_holds_a_lease_is_gone_if_this_machine_knows_it(holder: dict[str, Any], gone: bool) -> None:
    lease = DriverLease(None, "t")  # type: ignore[arg-type]
    assert lease._is_gone(replace(lease._mine, **holder)) is gone
