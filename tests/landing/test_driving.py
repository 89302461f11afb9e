"""One process works on a train, the others watch and say what happens."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.fleet.engine.buses import StoringClient
from tests.landing.finished import Finished
from tests.landing.trains import CHECK, empty
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import encode
from treadle.io.process import table
from treadle.landing import train
from treadle.landing.train import Train, driver_lease
from treadle.receipts.trace import Check
from treadle.wire.fleet.train import Car, DriverRecord, LeftOut, QueuedChange, ReturnedChange, TrainRecord


@pytest.mark.slow
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
    one, two = driver_lease(bus, "t"), driver_lease(bus, "t")
    assert await one.taken() and not await two.taken() and await one.taken()
    await one.leave()
    assert await two.taken() and not await one.taken()
    await two.leave()
    code = (
        "import asyncio, os, signal\n"
        "from treadle.fleet.client import connected\n"
        "from treadle.landing.train import driver_lease\n"
        "async def main():\n"
        "    async with connected() as bus:\n"
        "        assert await driver_lease(bus, 't').taken()\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "asyncio.run(main())"
    )
    done = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", code], env=dict(os.environ), timeout=60)
    assert done.returncode == -signal.SIGKILL and await one.taken()


@pytest.mark.parametrize(
    ("holder", "gone"),
    [
        ({"pid": 0, "host": "elsewhere"}, True),
        ({"host": "elsewhere", "start": 1}, False),
        ({}, False),
        ({"start": 1}, True),
    ],
)
async def test_a_seat_is_taken_only_from_one_that_this_machine_knows_to_be_gone(
    holder: dict[str, Any], gone: bool
) -> None:
    bus, found = StoringClient().bus(), table.look(os.getpid())
    assert found is not None
    mine = DriverRecord(host=socket.gethostname(), pid=os.getpid(), start=found.start, token="x")
    await bus.put("drives.t", encode(replace(mine, **holder)))
    assert await driver_lease(bus, "t").taken() is gone


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
        "back     a: sent back as h: it was red",
    ]
    assert train.happened_between(after, after) == []
