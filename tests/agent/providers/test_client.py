"""What only the client under the providers does; what a person sees of it is in test_http.py."""

import pytest
from msgspec.structs import replace

from treadle.agent.providers.http import LOCAL_PATIENCE, Endpoint, ServiceClient
from treadle.agent.providers.script import parse
from treadle.errors import ProviderError
from treadle.io.http import BadAddress, BrokenAnswer, CannotConnect, TooSilent, WrongPeer
from treadle.testing.server import ModelServer

NOWHERE = Endpoint(name="acme", base_url="http://127.0.0.1:9/v1")


@pytest.mark.parametrize(
    ("error", "says", "retryable"),
    [
        (CannotConnect("refused"), "cannot reach acme at http://127.0.0.1:9/v1: refused", True),
        (CannotConnect(""), "cannot reach acme at http://127.0.0.1:9/v1: no answer", True),
        (WrongPeer("no such name"), "cannot reach acme at http://127.0.0.1:9/v1: no such name", False),
        (TooSilent("x"), "acme sent nothing for 120 s", True),
        (BrokenAnswer("half"), "the connection to acme broke: half", True),
        (BrokenAnswer(""), "the connection to acme broke: BrokenAnswer", True),
        (BadAddress("no host"), "acme at http://127.0.0.1:9/v1: no host", False),
    ],
)
async def test_each_failure_has_its_words(error: Exception, says: str, retryable: bool) -> None:
    failed = ServiceClient(NOWHERE, {})._failed(error)
    assert (failed.message, failed.retryable, failed.provider) == (says, retryable, "acme")


async def test_a_server_of_this_machine_is_waited_for_a_moment_and_another_as_long_as_there_is_time() -> None:
    for url, patience in (("http://127.0.0.1:9/v1", LOCAL_PATIENCE), ("http://example.com/v1", float("inf"))):
        client = ServiceClient(replace(NOWHERE, base_url=url), {})
        assert client._failed(CannotConnect("x")).patience == patience


@pytest.mark.parametrize(("no_proxy", "proxied"), [(None, False), ("", True), ("other", False)])
async def test_this_machine_is_behind_the_proxy_only_where_no_proxy_is_empty(
    monkeypatch: pytest.MonkeyPatch, no_proxy: str | None, proxied: bool
) -> None:
    for name in ("NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy", "HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    if no_proxy is not None:
        monkeypatch.setenv("no_proxy", no_proxy)
    async with ModelServer(parse("reply=[{text='x', times='always'}]")) as server:
        monkeypatch.setenv("http_proxy", server.url)
        client = ServiceClient(NOWHERE, {})
        try:
            response, _ = await client.get("/models")
            assert proxied and response.status == 200
        except ProviderError as error:
            assert not proxied and "cannot reach acme" in error.message
        await client.aclose()
