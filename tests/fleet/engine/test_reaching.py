"""Reaching the engine: what is in the way is said, and not tried for ever."""

import asyncio
import socket

import pytest
from msgspec.structs import replace

from tests.fleet.engine.buses import restart
from tests.waiting import until
from treadle.errors import Denied
from treadle.fleet.engine import places
from treadle.fleet.engine.bus import Bus, Unreachable
from treadle.fleet.engine.reaching import Address


async def test_a_dead_port_is_told_at_once() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # and does not listen
        async with asyncio.timeout(60):
            with pytest.raises(Unreachable, match="no one answers"):
                await Bus.connect(Address(url=f"nats://127.0.0.1:{silent.getsockname()[1]}"))


@pytest.mark.parametrize("how", ["before it says anything", "after its greeting"])
async def test_an_engine_that_hangs_up_is_asked_again_and_told_when_it_goes_on(fleet: places.Fleet, how: str) -> None:
    """As it does with the one who comes in the moment in which it reads its users again."""
    host, _, port = fleet.url.removeprefix("nats://").rpartition(":")
    hangs_up, asked = 1, 0

    async def pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while data := await source.read(65536):
            target.write(data)
        target.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        there, back = await asyncio.open_connection(host, int(port))
        if asked <= hangs_up:
            if how.startswith("after"):
                writer.write(await there.readline())
            back.close()
            return writer.close()
        await asyncio.gather(pass_on(reader, back), pass_on(there, writer), return_exceptions=True)

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as between:
        address = replace(fleet.address("admin"), url=f"nats://127.0.0.1:{between.sockets[0].getsockname()[1]}")
        bus = await Bus.connect(address, patience=60)
        assert await bus.get("order.none") is None
        await bus.close()
        hangs_up = asked + 1000
        with pytest.raises(Unreachable, match="no one answers"):
            await Bus.connect(address, patience=0.5)
        assert asked > 4


async def test_wrong_credentials_are_told_and_not_tried_for_ever(fleet: places.Fleet) -> None:
    with pytest.raises(Denied, match="credentials"):
        await Bus.connect(Address(url=fleet.url, user="admin", password="wrong"))


async def test_what_listens_is_called_when_the_engine_is_back_even_if_another_fails(
    fleet: places.Fleet, bus: Bus
) -> None:
    calls = []

    def broken() -> None:
        raise RuntimeError("a listener of ours is broken")

    bus.returned += [broken, lambda: calls.append(1)]
    restart(fleet)
    await until(lambda: calls)
    assert await bus.put("order.a", b"1", expect=0)
