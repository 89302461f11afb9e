"""The HTTP library under our providers, and the one place that knows its errors. Slow to import: only when needed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import httpx2

from treadle import __version__
from treadle.agent.providers.loopback import loopback
from treadle.errors import ConfigError, LineTooLong, ProviderError

if TYPE_CHECKING:
    from treadle.agent.providers.http import Endpoint

LOCAL_PATIENCE = 10.0
"""Seconds for which a server on this machine is waited for that does not take connections."""
LINGER = 0.25
"""Seconds to wait, after the last event, for the end of the body that lets the connection be used again."""


class ServiceClient:
    """Connections to one endpoint. What goes wrong on the way is a ProviderError."""

    def __init__(self, endpoint: Endpoint, headers: Mapping[str, str]) -> None:
        if not (endpoint.key.isascii() and endpoint.key.isprintable()):
            what = endpoint.key_variable or "the API key"
            raise ConfigError(f"{what} has characters that no key has", hint="was it copied whole and alone?")
        idle, local = endpoint.idle_timeout, loopback(endpoint.base_url)
        self._endpoint = endpoint
        self._http = httpx2.AsyncClient(
            headers={
                "content-type": "application/json",
                "accept-encoding": "identity",
                "user-agent": f"treadle/{__version__}",
                **headers,
                **endpoint.headers,
            },
            transport=httpx2.AsyncHTTPTransport(uds=endpoint.socket) if endpoint.socket else None,
            timeout=httpx2.Timeout(connect=endpoint.connect_timeout, read=idle, write=idle, pool=None),
            # A server on this machine is reached without a proxy and without TLS, so no certificates are read.
            trust_env=not local,
            verify=not local,
        )

    @asynccontextmanager
    async def post(self, path: str, body: bytes) -> AsyncIterator[httpx2.Response]:
        try:
            async with self._http.stream("POST", self._url(path), content=body) as response:
                yield response
        except (httpx2.HTTPError, httpx2.InvalidURL, LineTooLong) as error:
            raise self._failed(error) from error

    async def get(self, path: str) -> httpx2.Response:
        try:
            return await self._http.get(self._url(path))
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise self._failed(error) from error

    async def linger(self, chunks: AsyncIterator[bytes]) -> None:
        try:
            async with asyncio.timeout(LINGER):
                async for _ in chunks:
                    return
        except (TimeoutError, httpx2.HTTPError):
            pass  # the reply is complete: only the connection is lost

    async def aclose(self) -> None:
        await self._http.aclose()

    def _url(self, path: str) -> str:
        return self._endpoint.base_url.rstrip("/") + path

    def _failed(self, error: Exception) -> ProviderError:
        name, where = self._endpoint.name, self._endpoint.shown_url
        if isinstance(error, (LineTooLong, httpx2.InvalidURL, httpx2.UnsupportedProtocol, httpx2.DecodingError)):
            return ProviderError(f"{name} at {where}: {error}", provider=name)
        if isinstance(error, (httpx2.ConnectError, httpx2.ConnectTimeout)):
            why = str(error) or "no answer"
            failed = ProviderError(f"cannot reach {name} at {where}: {why}", provider=name, retryable=True)
            if loopback(self._endpoint.base_url):
                failed.patience = LOCAL_PATIENCE
            return failed
        if isinstance(error, httpx2.TimeoutException):
            idle = f"{self._endpoint.idle_timeout:g} s"
            return ProviderError(f"{name} said nothing for {idle}", provider=name, retryable=True)
        why = str(error) or type(error).__name__
        return ProviderError(f"the connection to {name} broke: {why}", provider=name, retryable=True)
