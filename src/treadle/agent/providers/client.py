"""The HTTP client under our providers, and the one place that turns its failures into provider errors."""

import logging
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from treadle import __version__
from treadle.agent.providers.endpoint import Endpoint, loopback
from treadle.errors import ConfigError, LineTooLong, ProviderError
from treadle.io.http import BadAddress, CannotConnect, HttpClient, HttpError, Response, TooSilent

log = logging.getLogger(__name__)
LOCAL_PATIENCE = 10.0
"""How many seconds to wait for a server on this machine that does not accept connections yet."""
LARGEST = 16 * 1024 * 1024
"""Bytes of an answer that is read whole, such as a list of models."""


class ServiceClient:
    """Connections to one endpoint. What goes wrong on the way is a ProviderError."""

    def __init__(self, endpoint: Endpoint, headers: Mapping[str, str]) -> None:
        if not (endpoint.key.isascii() and endpoint.key.isprintable()):
            what = endpoint.key_variable or "the API key"
            raise ConfigError(f"{what} has characters that no key has", hint="was it copied whole and alone?")
        self._endpoint = endpoint
        self._http = HttpClient(
            {
                "content-type": "application/json",
                "accept": "*/*",
                "accept-encoding": "identity",
                "user-agent": f"treadle/{__version__}",
                **headers,
                **endpoint.headers,
            },
            connect_seconds=endpoint.connect_timeout,
            idle_seconds=endpoint.idle_timeout,
            # In a sandbox with an empty `no_proxy`, the services of this machine are behind the proxy too.
            direct=loopback(endpoint.base_url) and os.environ.get("no_proxy") != "",
            socket=endpoint.socket,
        )

    @asynccontextmanager
    async def post(self, path: str, body: bytes) -> AsyncIterator[Response]:
        log.info("request: POST %s, %d bytes", self._url(path), len(body))
        try:
            async with self._http.request("POST", self._url(path), body) as response:
                log.info("answer: status %d from %s", response.status, self._url(path))
                yield response
        except (HttpError, LineTooLong) as error:
            log.info("request failed: %s: %s", self._url(path), error)
            raise self._failed(error) from error

    async def get(self, path: str) -> tuple[Response, bytes]:
        """The answer, with its whole body."""
        try:
            async with self._http.request("GET", self._url(path)) as response:
                return response, await response.whole(LARGEST)
        except HttpError as error:
            raise self._failed(error) from error

    async def aclose(self) -> None:
        await self._http.aclose()

    def _url(self, path: str) -> str:
        return self._endpoint.base_url.rstrip("/") + path

    def _failed(self, error: Exception) -> ProviderError:
        name, where = self._endpoint.name, self._endpoint.shown_url
        if isinstance(error, (LineTooLong, BadAddress)):
            return ProviderError(f"{name} at {where}: {error}", provider=name)
        if isinstance(error, CannotConnect):
            why = str(error) or "no answer"
            failed = ProviderError(f"cannot reach {name} at {where}: {why}", provider=name, retryable=True)
            if loopback(self._endpoint.base_url):
                failed.patience = LOCAL_PATIENCE
            return failed
        if isinstance(error, TooSilent):
            idle = f"{self._endpoint.idle_timeout:g} s"
            return ProviderError(f"{name} said nothing for {idle}", provider=name, retryable=True)
        why = str(error) or type(error).__name__
        return ProviderError(f"the connection to {name} broke: {why}", provider=name, retryable=True)
