"""One process works on a train, the others watch and say what happens."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.fleet.test_merging import Finished
from tests.landing.test_train import CHECK, empty
from treadle.fleet.engine.bus import Bus
from treadle.landing import train
from treadle.landing.driving import DriverSeat
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
    one, two = DriverSeat(bus, "t"), DriverSeat(bus, "t")
    assert await one.taken() and not await two.taken() and await one.taken()
    await one.leave()
    assert await two.taken() and not await one.taken()
    await two.leave()
    code = (
        "import asyncio, os, signal\n"
        "from treadle.fleet.client import connected\n"
        "from treadle.landing.driving import DriverSeat\n"
        "async def main():\n"
        "    async with connected() as bus:\n"
        "        assert await DriverSeat(bus, 't').taken()\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "asyncio.run(main())"
    )
    done = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", code], env=dict(os.environ), timeout=60)
    assert done.returncode == -signal.SIGKILL and await one.taken()
