"""What only the client under the providers does; what a person sees of it is in test_http.py."""

import pytest
from msgspec.structs import replace

from tests.agent.providers.helpers import ONCE, collect, serving, text
from treadle.agent.providers.client import ServiceClient
from treadle.agent.providers.endpoint import Endpoint, loopback
from treadle.errors import ConfigError, LineTooLong, ProviderError

NOWHERE = Endpoint(name="acme", base_url="http://127.0.0.1:9/v1")


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("http://127.0.0.1:1/v1", True),
        ("http://localhost/v1", True),
        ("http://[::1]/v1", True),
        ("https://127.0.0.1/v1", False),
        ("http://10.0.0.1/v1", False),
        ("http://example.com", False),
        ("http://[::1", False),
    ],
)
def test_this_machine_is_reached_without_proxy_and_certificates(url: str, local: bool) -> None:
    assert loopback(url) is local


@pytest.mark.parametrize("key", ["k\u00e9y", "two\nlines"])
def test_a_key_with_characters_that_no_key_has_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(ConfigError, match="characters that no key has") as refused:
        ServiceClient(replace(NOWHERE, key=key), {})
    assert key not in str(refused.value)


async def test_what_the_library_raises_is_said_in_our_words() -> None:
    client = ServiceClient(NOWHERE, {})
    with pytest.raises(ProviderError, match="cannot reach acme at http://127.0.0.1:9/v1") as caught:
        async with client.post("/chat", b"{}"):
            pass
    assert caught.value.retryable
    with pytest.raises(ProviderError, match="cannot reach acme"):
        await client.get("/models")
    await client.aclose()


async def test_a_reply_that_is_too_large_cannot_be_tried_again() -> None:
    assert not ServiceClient(NOWHERE, {})._failed(LineTooLong("too large")).retryable


async def test_a_stream_that_still_talks_has_no_time_limit() -> None:
    async with serving("chat", "reply=[{text='a b c d e f g h', pace=0.4}]", idle=2, retry=ONCE) as (provider, _):
        assert text(await collect(provider)) == "a b c d e f g h"
