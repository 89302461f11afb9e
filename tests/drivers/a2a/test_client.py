"""What the client makes of answers that a peer should not give. The peer is a real HTTP server on loopback."""

import random
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any

import msgspec
import pytest

from tests.serve.receiver import Receiver, receiving
from treadle.drivers.a2a import driver as client_module
from treadle.drivers.a2a.driver import A2aClient, _origin, connect
from treadle.errors import AuthFailed, ConfigError, RemoteError, RemoteProtocolError, TreadleError
from treadle.wire.a2a.messages import CARD_PATH, A2aEvent, A2aStatus, A2aTask, written

TASK = A2aTask(id="t", context="c", status=A2aStatus(state="completed"))
GARBAGE = [b"", b"{oh no", b"[" * 100_000, b'"\xff"', b"\x00", b"null", b"[]", b"{}", b'{"result":7}', b'{"error":"x"}']


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[A2aClient, Receiver]]:
    async with receiving() as server:
        interface = {"url": server.url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        server.reply = msgspec.json.encode({"name": "x", "supportedInterfaces": [interface]})
        client = await connect(server.url, "")
        try:
            yield client, server
        finally:
            await client.close()


def answer(**more: Any) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", "id": "1", "result": {**written(TASK), **more}, **more})


async def called(client: A2aClient) -> A2aEvent:
    return client.event(await client.call("send", {}))


async def streamed(client: A2aClient) -> list[A2aEvent]:
    async with aclosing(client.stream("stream", {})) as events:
        return [event async for event in events]


async def test_unknown_fields_of_an_answer_change_nothing() -> None:
    async with connected() as (client, server):
        server.reply = answer(x_later={"deep": [1, None, "é"]})
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
            body = bytearray(answer())
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
    whole = answer()
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
        server.reply = answer()
        with pytest.raises(RemoteError, match="more than 10 bytes"):
            await called(client)


async def test_a_stream_over_the_cap_is_an_error_and_one_up_to_it_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    async with connected() as (client, server):
        server.reply = b"data: " + answer() + b"\n\n"
        server.reply += b":" * (64 - len(server.reply) % 64)
        monkeypatch.setattr(client_module, "LARGEST", len(server.reply) // 64)
        assert await streamed(client) == [TASK]
        server.reply += b":"
        with pytest.raises(RemoteProtocolError, match=f"a stream of more than {len(server.reply) - 1} bytes"):
            await streamed(client)


async def test_each_call_says_its_version_and_what_it_takes_and_a_token_only_where_there_is_one() -> None:
    async with connected() as (client, server):
        server.reply = answer()
        await called(client)
        card, call = (each.headers for each in server.heard)
        assert (card["a2a-version"], call["a2a-version"]) == ("1.0", "1.0")
        assert call["content-type"] == "application/json" and "text/event-stream" in call["accept"]
        assert "authorization" not in card and "authorization" not in call
        sent = msgspec.json.decode(server.heard[-1].body)
        assert (sent["jsonrpc"], sent["method"], sent["params"]) == ("2.0", "SendMessage", {}) and sent["id"]


@pytest.mark.parametrize(
    ("status", "error", "words"),
    [
        ("401 No", AuthFailed, "it answered 401"),
        ("403 No", AuthFailed, "it answered 403"),
        ("300 Elsewhere", RemoteError, "it answered 300"),
        ("500 Broken", RemoteError, "it answered 500"),
        ("299 Fine", None, ""),
    ],
)
async def test_a_status_that_is_no_success_is_an_error(
    status: str, error: type[TreadleError] | None, words: str
) -> None:
    async with connected() as (client, server):
        server.status, server.reply = status, answer()
        for ask in (called, streamed):
            if error is None:
                assert await ask(client) in (TASK, [])
                continue
            with pytest.raises(error, match=words) as caught:
                await ask(client)
            assert ("TREADLE_A2A_TOKEN" in (caught.value.hint or "")) is (error is AuthFailed)
        if error is not None:
            with pytest.raises(error, match=words):
                await connect(server.url, "")


async def test_a_refusal_is_told_with_its_code_and_silence_with_the_address() -> None:
    async with connected() as (client, server):
        server.reply = b'{"error": {"code": -32001, "message": "no such task"}, "result": {}}'
        with pytest.raises(RemoteError, match="it refused: no such task") as caught:
            await called(client)
        assert caught.value.details == {"code": -32001}
        url = server.url
    async with connected() as (client, server):
        client.address = msgspec.structs.replace(client.address, url=url)  # where nobody listens any more
        with pytest.raises(RemoteError, match=f"^{url} gave no answer: "):
            await called(client)
        with pytest.raises(RemoteError, match=f"^{url} broke off: "):
            await streamed(client)
    with pytest.raises(RemoteError, match=f"^{url}{CARD_PATH} cannot be read: "):
        await connect(url, "")


@pytest.mark.parametrize("url", ["ftp://agent.example", "agent.example", "https://", "http:///path"])
async def test_what_is_no_address_is_said(url: str) -> None:
    with pytest.raises(ConfigError, match="is not the address of an A2A agent"):
        await connect(url, "")


async def test_the_card_is_where_its_address_says_and_may_lead_to_no_other_server() -> None:
    async with receiving() as server, receiving() as other:
        interface = {"url": f"{server.url}/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        server.reply = other.reply = msgspec.json.encode({"name": "x", "supportedInterfaces": [interface]})
        for url in (server.url, f"{server.url}/", f"{server.url}/it.json"):
            await (await connect(url, "t")).close()
        assert [each.path for each in server.heard] == [CARD_PATH, CARD_PATH, "/it.json"]
        assert {each.headers["authorization"] for each in server.heard} == {"Bearer t"}
        with pytest.raises(RemoteError, match="which is another server") as caught:
            await connect(other.url, "")
        assert server.url in caught.value.message and "if you trust it" in (caught.value.hint or "")


def test_an_origin_is_the_same_with_its_usual_port_and_in_capitals() -> None:
    assert _origin("https://A.example/x") == _origin("https://a.example:443") == ("https", "a.example", 443)
    assert _origin("http://a.example") == ("http", "a.example", 80) and _origin("http://a:81")[2] == 81
