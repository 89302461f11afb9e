"""One process works on a train, the others watch and say what happens."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

from msgspec.structs import replace

from tests.landing.test_merging import Finished
from tests.landing.trains import CHECK, empty
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import encode
from treadle.landing import train
from treadle.landing.driving import DriverLease, DriverRecord
from treadle.landing.train import Train
from treadle.receipts.trace import Check
from treadle.wire.fleet.train import Car


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
        "from treadle.landing.driving import DriverLease\n"
        "async def main():\n"
        "    async with connected() as bus:\n"
        "        assert await DriverLease(bus, 't').taken()\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "asyncio.run(main())"
    )
    done = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", code], env=dict(os.environ), timeout=60)
    assert done.returncode == -signal.SIGKILL and await one.taken()


async def test_a_seat_of_another_machine_that_died_is_taken_even_if_the_engine_does_not_end_it(bus: Bus) -> None:
    dead = DriverRecord(host="elsewhere", pid=os.getpid(), start=1, token="x")
    await bus.put("drives.t", encode(dead))  # without an end, as an engine that was killed may show one
    seat = DriverLease(bus, "t", overdue=0.2)
    assert not await seat.taken()
    async with asyncio.timeout(60):
        while not await seat.taken():
            await asyncio.sleep(0.02)


async def test_a_seat_of_another_machine_that_is_renewed_is_not_taken(bus: Bus) -> None:
    there, seat = DriverLease(bus, "t"), DriverLease(bus, "t", overdue=0.2)
    there._mine = replace(there._mine, host="elsewhere")
    assert await there.taken()
    for _ in range(3):
        assert not await seat.taken()
        await asyncio.sleep(0.15)
        there._renewed = 0.0  # it is time to renew it
        assert await there.taken()
