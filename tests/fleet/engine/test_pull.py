"""Readers that pull: nothing lost, nothing twice, whatever happens to the engine."""

import asyncio
from collections.abc import Awaitable, Callable

import nats.errors
import pytest
from nats.aio.msg import Msg

from tests.fleet.engine.buses import ScriptedClient, restart
from tests.fleet.engine.buses import client as client
from tests.fleet.engine.buses import pauses as pauses
from treadle.fleet.engine import places, server, streams
from treadle.fleet.engine.bus import EVENTS, INBOX, STATE, Bus
from treadle.fleet.engine.streams import Pull, give_back


async def collect(reader: Pull, count: int) -> list[int]:
    found: list[int] = []
    async with asyncio.timeout(60):
        while len(found) < count:
            found += [int(message.data) for message in await reader.next(1.0)]
    return found


async def test_a_reader_gets_what_was_there_and_what_comes(bus: Bus) -> None:
    for number in range(120):
        await bus.publish("fleet.ev.o.1.n", b"%d" % number)
    reader = Pull(bus, EVENTS, filters=("fleet.ev.o.>",), batch=50)
    assert await collect(reader, 120) == list(range(120))
    await bus.publish("fleet.ev.o.1.n", b"120")
    assert await collect(reader, 1) == [120]
    await reader.close()


async def test_a_reader_that_looks_away_for_long_misses_nothing(bus: Bus) -> None:
    reader = Pull(bus, EVENTS, filters=("fleet.ev.o.>",), batch=10)
    await reader.ready()
    for number in range(1500):
        await bus.client.publish("fleet.ev.o.1.n", b"%d" % number)
    await bus.client.flush()
    assert await collect(reader, 1500) == list(range(1500))
    await reader.close()


async def test_a_reader_goes_on_after_a_restart_without_gap_or_double(fleet: places.Fleet, bus: Bus) -> None:
    reader = Pull(bus, EVENTS, filters=("fleet.ev.o.>",), batch=20)
    for number in range(50):
        await bus.publish("fleet.ev.o.1.n", b"%d" % number)
    first = await collect(reader, 10)
    restart(fleet)
    again = await server.await_ready(fleet)
    for number in range(50, 100):
        await again.publish("fleet.ev.o.1.n", b"%d" % number)
    await again.close()
    assert first + await collect(reader, 100 - len(first)) == list(range(100))
    await reader.close()


async def test_what_is_not_acknowledged_comes_again_for_ever(bus: Bus) -> None:
    await bus.publish("fleet.in.wish.x", b"1")
    reader = Pull(bus, INBOX, durable="inbox", batch=5)
    for _ in range(3):
        async with asyncio.timeout(60):
            while not (messages := await reader.next(1.0)):
                pass
        await messages[0].nak()
    async with asyncio.timeout(60):
        while not (messages := await reader.next(1.0)):
            pass
    await messages[0].ack_sync()
    info = await bus.api(f"STREAM.INFO.{INBOX}")
    assert info["state"]["messages"] == 0
    await reader.close()


async def test_several_filters_and_a_start_are_kept(bus: Bus) -> None:
    await bus.put("order.a", b"1")
    start = await bus.put("order.b", b"2")
    await bus.put("node.n", b"3")
    await bus.put("lease.x", b"9")
    reader = Pull(bus, STATE, filters=("$KV.fleet.order.*", "$KV.fleet.node.*"), start=start)
    assert await collect(reader, 2) == [2, 3]
    await reader.close()


# Without an engine: what is asked for, and what each message means...


def numbers(messages: list[Msg]) -> list[int]:
    return [int(message.data) for message in messages]


def arrives(client: ScriptedClient) -> Callable[[Msg], Awaitable[None]]:
    (hear,) = client.heard.values()
    return hear


def made(client: ScriptedClient) -> list[str]:
    """The consumers that were made, in order."""
    return [sent.subject.rpartition(".")[2] for sent in client.sent if ".CONSUMER.CREATE." in sent.subject]


def asked(client: ScriptedClient) -> list[str]:
    """Whom it asked for messages."""
    return [sent.subject.rpartition(".")[2] for sent in client.sent if ".MSG.NEXT." in sent.subject]


async def test_a_lost_connection_that_is_back_is_asked_again_and_a_silent_pull_too(
    client: ScriptedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    bus, arrived = client.bus(), asyncio.Event()
    client.answers = [{}, {}, {}]
    reader = Pull(bus, EVENTS, start=3, arrived=arrived)
    await reader.ready()
    await arrives(client)(client.stored(3, made(client)[0]))
    arrived.clear()
    (back,) = bus.returned
    back()
    assert arrived.is_set() and await reader.ready() == [], "its next consumer sends it again"
    assert len(made(client)) == 2 and reader.position == 3
    client.heard.clear()
    durable = Pull(bus, INBOX, durable="inbox")
    await durable.ready()
    await arrives(client)(client.stored(8, "any"))
    bus.returned[1]()
    assert numbers(await durable.ready()) == [8] and asked(client).count("inbox") == 2
    assert durable.position == 1, "the engine knows where it is"
    monkeypatch.setattr(streams, "SLACK", -streams.EXPIRES - 1)
    await reader.ready()
    assert len(made(client)) == 3


async def test_a_reader_that_ends_removes_its_consumer_or_gives_back_what_it_holds(client: ScriptedClient) -> None:
    bus = client.bus()
    client.answers = [{}, {}]
    reader, durable = Pull(bus, EVENTS), Pull(bus, INBOX, durable="inbox")
    await reader.ready()
    await reader.close()
    assert client.sent[-1].subject == f"$JS.API.CONSUMER.DELETE.{EVENTS}.{made(client)[0]}" and client.heard == {}
    await durable.ready()
    for number in (4, 5):
        await arrives(client)(client.stored(number, "inbox"))
    client.sent.clear()
    await durable.close()
    assert [sent.data for sent in client.sent] == [b"-NAK", b"-NAK"] and bus.returned == [] and client.heard == {}
    await durable.close()
    await Pull(bus, EVENTS).close()
    assert len(client.sent) == 2, "one that asked for nothing has nothing to remove"
    client.fails = nats.errors.ConnectionClosedError()
    await give_back([client.stored(6, "inbox")])
