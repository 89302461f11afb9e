"""Readers that pull: nothing lost, nothing twice, whatever happens to the engine."""

import asyncio

from tests.fleet.engine.test_bus import restart
from treadle.fleet.engine import places, server
from treadle.fleet.engine.bus import EVENTS, INBOX, STATE, Bus
from treadle.fleet.engine.pull import Pull


async def collect(pull: Pull, count: int) -> list[int]:
    found: list[int] = []
    async with asyncio.timeout(60):
        while len(found) < count:
            found += [int(message.data) for message in await pull.next(1.0)]
    return found


async def test_a_reader_gets_what_was_there_and_what_comes(bus: Bus) -> None:
    for number in range(600):
        await bus.publish("fleet.ev.o.1.n", b"%d" % number)
    pull = Pull(bus, EVENTS, filters=("fleet.ev.o.>",), batch=50)
    assert await collect(pull, 600) == list(range(600))
    await bus.publish("fleet.ev.o.1.n", b"600")
    assert await collect(pull, 1) == [600]
    await pull.close()


async def test_a_reader_that_looks_away_for_long_misses_nothing(bus: Bus) -> None:
    pull = Pull(bus, EVENTS, filters=("fleet.ev.o.>",), batch=10)
    await pull.ready()
    for number in range(1500):
        await bus.client.publish("fleet.ev.o.1.n", b"%d" % number)
    await bus.client.flush()
    assert await collect(pull, 1500) == list(range(1500))
    await pull.close()


async def test_a_reader_goes_on_after_a_restart_without_gap_or_double(fleet: places.Fleet, bus: Bus) -> None:
    pull = Pull(bus, EVENTS, filters=("fleet.ev.o.>",), batch=20)
    for number in range(50):
        await bus.publish("fleet.ev.o.1.n", b"%d" % number)
    first = await collect(pull, 10)
    restart(fleet)
    again = await server.await_ready(fleet)
    for number in range(50, 100):
        await again.publish("fleet.ev.o.1.n", b"%d" % number)
    await again.close()
    assert first + await collect(pull, 100 - len(first)) == list(range(100))
    await pull.close()


async def test_what_is_not_acknowledged_comes_again_for_ever(bus: Bus) -> None:
    await bus.publish("fleet.in.wish.x", b"1")
    pull = Pull(bus, INBOX, durable="inbox", batch=5)
    for _ in range(3):
        async with asyncio.timeout(60):
            while not (messages := await pull.next(1.0)):
                pass
        await messages[0].nak()
    async with asyncio.timeout(60):
        while not (messages := await pull.next(1.0)):
            pass
    await messages[0].ack_sync()
    info = await bus.api(f"STREAM.INFO.{INBOX}")
    assert info["state"]["messages"] == 0
    await pull.close()


async def test_several_filters_and_a_start_are_kept(bus: Bus) -> None:
    await bus.put("order.a", b"1")
    start = await bus.put("order.b", b"2")
    await bus.put("node.n", b"3")
    await bus.put("lease.x", b"9")
    pull = Pull(bus, STATE, filters=("$KV.fleet.order.*", "$KV.fleet.node.*"), start=start)
    assert await collect(pull, 2) == [2, 3]
    await pull.close()
