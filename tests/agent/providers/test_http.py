"""The client itself; how it takes a broken service is in test_hostile.py."""

import asyncio

import pytest

from tests.agent.providers.helpers import collect, text
from treadle.agent.providers.chat import ChatFormat
from treadle.agent.providers.http import Endpoint, HttpProvider, RetryPolicy
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
    with pytest.raises(ConfigError, match="ACME_API_KEY contains characters"):
        await collect(client)


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
