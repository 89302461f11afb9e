"""What the client makes of answers that a peer should not give. The peer is a real HTTP server on loopback."""

import random
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any

import msgspec
import pytest

from tests.serve.receiver import Receiver, receiving
from treadle.drivers.a2a import client as client_module
from treadle.drivers.a2a.client import A2aClient, connect
from treadle.errors import RemoteError, RemoteProtocolError, TreadleError
from treadle.wire.a2a.records import A2aEvent, A2aStatus, A2aTask
from treadle.wire.a2a.versions import VERSIONS, Version, written

TASK = A2aTask(id="t", context="c", status=A2aStatus(state="completed"))
GARBAGE = [b"", b"{oh no", b"[" * 100_000, b'"\xff"', b"\x00", b"null", b"[]", b"{}", b'{"result":7}', b'{"error":"x"}']


@asynccontextmanager
async def connected(version: Version = "1.0") -> AsyncIterator[tuple[A2aClient, Receiver]]:
    async with receiving() as server:
        interface = {"url": server.url, "protocolBinding": "JSONRPC", "protocolVersion": version}
        server.reply = msgspec.json.encode({"name": "x", "supportedInterfaces": [interface]})
        client = await connect(server.url, "")
        try:
            yield client, server
        finally:
            await client.close()


def answer(version: Version, **more: Any) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", "id": "1", "result": {**written(TASK, version), **more}, **more})


async def called(client: A2aClient) -> A2aEvent:
    return client.event(await client.call("send", {}))


async def streamed(client: A2aClient) -> list[A2aEvent]:
    async with aclosing(client.stream("stream", {})) as events:
        return [event async for event in events]


@pytest.mark.parametrize("version", VERSIONS)
async def test_unknown_fields_of_an_answer_change_nothing(version: Version) -> None:
    async with connected(version) as (client, server):
        server.reply = answer(version, x_later={"deep": [1, None, "é"]})
        assert await called(client) == TASK
        server.reply = b"data: " + server.reply + b"\n\n"
        assert await streamed(client) == [TASK]


@pytest.mark.parametrize("garbage", GARBAGE, ids=lambda garbage: repr(garbage[:12]))
async def test_an_answer_that_is_none_is_an_error_of_the_protocol(garbage: bytes) -> None:
    async with connected() as (client, server):
        server.reply = garbage
        with pytest.raises(RemoteProtocolError):
            await called(client)
        server.reply = b"data: " + garbage + b"\n\n"
        with pytest.raises(RemoteProtocolError):
            await streamed(client)


@pytest.mark.parametrize("garbage", GARBAGE, ids=lambda garbage: repr(garbage[:12]))
async def test_a_card_that_is_none_is_an_error_of_the_protocol(garbage: bytes) -> None:
    async with receiving() as server:
        server.reply = garbage
        with pytest.raises(RemoteProtocolError):
            await connect(server.url, "")


async def test_mutated_answers_give_events_or_our_errors_and_nothing_else() -> None:
    chance = random.Random(7)
    async with connected() as (client, server):
        for _ in range(100):
            body = bytearray(answer("1.0"))
            for _ in range(chance.randrange(1, 4)):
                at = chance.randrange(len(body))
                body[at : at + chance.randrange(3)] = chance.choice([b"{", b'"', b"\n", b"null", b"-1", b"\xff", b""])
            server.reply = bytes(body)
            with suppress(TreadleError):
                await called(client)
            server.reply = b"data: " + bytes(body) + b"\n\n"
            with suppress(TreadleError):
                await streamed(client)


async def test_an_answer_that_is_cut_off_is_an_error() -> None:
    whole = answer("1.0")
    async with connected() as (client, server):
        server.reply = whole[: len(whole) // 2]
        with pytest.raises(RemoteProtocolError):
            await called(client)
        server.reply = b"data: " + whole[: len(whole) // 2]
        with pytest.raises(RemoteProtocolError):
            await streamed(client)


async def test_an_answer_over_the_cap_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async with connected() as (client, server):
        monkeypatch.setattr(client_module, "LARGEST", 10)
        server.reply = answer("1.0")
        with pytest.raises(RemoteError, match="more than 10 bytes"):
            await called(client)
