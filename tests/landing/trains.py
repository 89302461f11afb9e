"""Trains of finished orders."""

from pathlib import Path

from treadle.fleet.engine.bus import Bus
from treadle.landing import train
from treadle.landing.train import Train
from treadle.wire.fleet.train import TrainRecord

CHECK = "! grep -rqs bad *.txt && ! { test -e left.txt && test -e right.txt; }"
"""Red with a bad word in any file, and with two files that do not go together."""


def empty(record: TrainRecord) -> bool:
    return record.paused is not None or not record.queue


async def run(bus: Bus, repository: Path, *orders: str, verify: str = CHECK, slots: int = 2) -> TrainRecord:
    name = await train.ensure(bus, str(repository), "", verify=verify, setup="", slots=slots)
    await train.board(bus, name, orders)
    record, _ = await train.load(bus, name)
    return await Train(bus, name, record).run(empty)
