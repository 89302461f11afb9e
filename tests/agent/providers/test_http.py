"""The client itself; how it takes a broken service is in test_hostile.py."""

import asyncio
import socket
import subprocess
import sys

import pytest

from tests.agent.providers.helpers import ask, collect, reply, serving, text
from treadle.agent.providers.chat import ChatFormat
from treadle.agent.providers.http import Endpoint, HttpProvider, RetryPolicy
from treadle.agent.providers.known import Price
from treadle.agent.providers.names import ModelSettings
from treadle.agent.providers.script import parse
from treadle.errors import AuthFailed, ConfigError, ProviderError
from treadle.testing.server import ModelServer


def provider(url: str, **fields: object) -> HttpProvider:
    retry = RetryPolicy(tries=1)
    return HttpProvider(Endpoint(name="acme", base_url=url, retry=retry, **fields), "m", ChatFormat())  # type: ignore[arg-type]


async def answer(raw: bytes) -> tuple[asyncio.Server, str]:
    """A service that says `raw` to the one who asks, then closes."""

    async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(raw)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(say, "127.0.0.1", 0)
    return server, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def said(raw: bytes) -> list[str]:
    server, url = await answer(raw)
    async with server:
        client = provider(url)
        try:
            return [text(await collect(client))]
        finally:
            await client.aclose()


async def test_a_service_that_answers_with_one_document_is_read() -> None:
    body = b'{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}'
    assert await said(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n" + body) == ["hi"]


async def test_a_stream_that_ends_with_its_connection_is_read() -> None:
    body = b'data: {"choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}]}\r\n\r\ndata: [DONE]'
    assert await said(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n" + body) == ["hi"]


async def test_an_error_in_a_document_with_status_200_is_an_error() -> None:
    body = b'{"error":{"message":"model is loading","code":503}}'
    with pytest.raises(ProviderError, match="503: model is loading"):
        await said(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n" + body)


@pytest.mark.parametrize("raw", [b"SSH-2.0-OpenSSH_9.2\r\n", b"HTTP/1.1 abc\r\n\r\n", b""])
async def test_what_is_not_http_is_a_clear_error(raw: bytes) -> None:
    with pytest.raises(ProviderError, match="the connection to acme broke"):
        await said(raw)


async def test_a_refused_key_names_its_variable_and_not_the_key() -> None:
    async with ModelServer(parse("reply=[{error={status=401, message='bad key'}}]")) as server:
        client = provider(server.url + "/v1", key="sk-secret", key_variable="ACME_API_KEY")
        with pytest.raises(AuthFailed, match="check ACME_API_KEY") as caught:
            await collect(client)
        await client.aclose()
        assert server.asked[0].headers["authorization"] == "Bearer sk-secret"
    assert "sk-secret" not in str(caught.value)


@pytest.mark.parametrize("key", ["schlüssel\u2028", "a\nb"])
async def test_a_key_that_no_header_can_carry_is_a_setting_to_correct(key: str) -> None:
    client = provider("http://127.0.0.1:9/v1", key=key, key_variable="ACME_API_KEY")
    with pytest.raises(ConfigError, match="ACME_API_KEY has characters"):
        await collect(client)


@pytest.mark.parametrize("url", ["ftp://x/v1", "http://[::1", "http://"])
async def test_a_strange_address_is_a_clear_error(url: str) -> None:
    client = provider(url)
    with pytest.raises(ProviderError, match="acme"):
        await collect(client)
    await client.aclose()


async def test_a_proxy_is_not_used_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    async with serving("chat", "reply=[{text='x'}]") as (client, _):
        assert text(await collect(client)) == "x"


async def test_a_proxy_is_used_for_other_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ModelServer(parse("reply=[{text='through the proxy'}]")) as server:
        for name in ("HTTP_PROXY", "http_proxy"):
            monkeypatch.setenv(name, server.url)
        for name in ("NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.delenv(name, raising=False)
        client = provider("http://models.example/v1")
        assert text(await collect(client)) == "through the proxy"
        await client.aclose()


async def test_the_price_from_the_settings_is_used_when_the_service_names_none() -> None:
    async with ModelServer(
        parse("reply=[{text='x', usage={input=1000000}}, {usage={input=1000000}, cost=9.0}]")
    ) as server:
        endpoint = Endpoint(name="acme", base_url=server.url + "/v1")
        client = HttpProvider(endpoint, "m", ChatFormat(), price=Price(input=2, output=0))
        first, second = (await reply(client)).usage, (await reply(client)).usage
        await client.aclose()
    assert first is not None and first.cost_usd == 2.0
    assert second is not None and second.cost_usd == 9.0


async def test_a_service_that_keeps_the_connection_open_after_the_end_does_not_hold_us() -> None:
    body = b'data: {"choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 9999\r\n\r\n"
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setblocking(False)
    client = provider(f"http://127.0.0.1:{listening.getsockname()[1]}")

    async def hold() -> None:
        loop = asyncio.get_running_loop()
        peer, _ = await loop.sock_accept(listening)
        await loop.sock_sendall(peer, head + body)
        while await loop.sock_recv(peer, 65536):
            pass
        peer.close()

    holding = asyncio.create_task(hold())
    assert text(await collect(client)) == "hi"
    await client.aclose()
    async with asyncio.timeout(60):
        await holding
    listening.close()


async def test_a_list_that_is_not_one_is_a_clear_error() -> None:
    server, url = await answer(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nnope")
    async with server:
        client = provider(url)
        with pytest.raises(ProviderError, match="list of models"):
            await client.models()
        await client.aclose()


async def test_halves_of_characters_in_a_prompt_are_replaced_and_not_fatal() -> None:
    async with serving("chat", "reply=[{text='x'}]") as (client, server):
        await collect(client, ask("file \udcff name"))
        assert server.asked[0].body["messages"][1]["content"] == "file ? name"


def test_a_key_or_password_is_not_shown() -> None:
    endpoint = Endpoint(name="acme", base_url="https://me:secret@host/v1", key="sk-secret")
    assert "secret" not in repr(endpoint) + str(ModelSettings(api_key="sk-secret"))
    assert endpoint.shown_url == "https://host/v1"


def test_the_client_can_be_loaded_before_the_first_request() -> None:
    code = (
        "import sys; from treadle.agent.providers.names import resolve\n"
        "provider = resolve('chat:m', {'TREADLE_BASE_URL': 'http://127.0.0.1:9'})\n"
        "before = 'h11' in sys.modules; provider.prepare(); print(before, 'h11' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "False True\n"


async def test_it_can_be_closed_twice_and_used_again() -> None:
    async with serving("chat", "reply=[{text='x', times='always'}]") as (client, _):
        await collect(client)
        await client.aclose()
        await client.aclose()
        assert text(await collect(client)) == "x"


@pytest.mark.parametrize(
    ("status", "key", "hint"),
    [
        (401, "ACME_KEY", "check ACME_KEY"),
        (403, "ACME_KEY", "check ACME_KEY"),
        (401, "", None),
        (404, "", "does http://127.0.0.1:PORT have the model 'm'? `treadle models` lists what it offers"),
        (300, "", "http://127.0.0.1:PORT has moved; set the new base URL"),
        (399, "", "http://127.0.0.1:PORT has moved; set the new base URL"),
        (400, "", None),
        (402, "ACME_KEY", None),
    ],
)
async def test_a_refusal_says_what_to_do_where_that_is_known(status: int, key: str, hint: str | None) -> None:
    server, url = await answer(b"HTTP/1.1 %d x\r\ncontent-length: 2\r\n\r\nno" % status)
    async with server:
        client = provider(url, key_variable=key)
        with pytest.raises(ProviderError) as caught:
            await collect(client)
        await client.aclose()
    assert caught.value.status == status and caught.value.hint == (hint and hint.replace("http://127.0.0.1:PORT", url))
