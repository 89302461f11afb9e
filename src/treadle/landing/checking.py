"""A check of a car as an order without an agent: on any node, with a receipt, and asked twice it is run once."""

import asyncio
import contextlib
import socket

from treadle.errors import LocalError, TreadleError
from treadle.fleet import client
from treadle.fleet.engine.bus import Bus
from treadle.fleet.intake import bundles
from treadle.fleet.orders import new_id
from treadle.fleet.run.null import NAME as NULL
from treadle.fleet.run.resume.continuing import TRAIN
from treadle.landing.bench import Bench
from treadle.receipts.trace import Check
from treadle.wire.fleet.orders import Spec
from treadle.wire.fleet.records import Order
from treadle.wire.fleet.train import Car, TrainRecord

TRIES = 3
"""How often it is asked again when no verdict came: its node was lost, or an earlier train called it off."""


async def check(bus: Bus, bench: Bench, name: str, record: TrainRecord, car: Car, bring: tuple[str, ...]) -> Check:
    """The verdict on this car. The same commit, check and try have one verdict, no matter who asks for it and when."""
    await asyncio.to_thread(bench.lend, car.commit, record.tip)
    try:
        for number in range(TRIES):
            order = await _ended(bus, _spec(name, record, car, bring, number))
            if order.result.get("verified") is not None or order.state == "failed":
                break
        ok = order.result.get("verified") is True
        output = str(order.result.get("says") or "") or order.why
        return Check(command=record.verify, exit_code=0 if ok else 1, output_tail=output)
    finally:
        await asyncio.to_thread(bench.take_back, car.commit)


def _spec(name: str, record: TrainRecord, car: Car, bring: tuple[str, ...], number: int) -> Spec:
    key = "\0".join((name, car.commit, record.verify, record.setup, str(car.reds), str(number)))
    return Spec(
        id=new_id(f"check\0{key}"),
        task=f"Check {', '.join(car.orders)} on {record.branch} of {record.repository}",
        agent=NULL,
        root=record.repository,
        base=car.commit,
        verify=record.verify,
        setup=record.setup,
        bring=bring,
        priority=9,
        by=TRAIN,
    )


async def _ended(bus: Bus, spec: Spec) -> Order:
    if any(each.alive and each.host != socket.gethostname() for each in await client.nodes(bus)):
        spec = await bundles.send(bus, spec)  # a node on another machine may take it
    (given,) = await client.submit(bus, [spec])
    try:
        return await client.wait(bus, given.id)
    except asyncio.CancelledError:
        with contextlib.suppress(LocalError, TreadleError):  # it is not wanted any more
            await client.cancel(bus, given.id, why="its car was built again", by=TRAIN)
        raise
