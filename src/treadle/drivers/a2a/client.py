"""Calls an A2A agent: JSON-RPC over HTTP, in the version that its card names."""

import uuid
from collections.abc import AsyncGenerator, Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from treadle.agent.providers.sse import decoder_for
from treadle.errors import AuthFailed, ConfigError, RemoteError, RemoteProtocolError
from treadle.io.http import HttpClient, HttpError, Response
from treadle.policy.addresses import is_loopback
from treadle.wire.a2a.cards import AgentAddress, read_card
from treadle.wire.a2a.records import CARD_PATH, VERSION_HEADER, A2aEvent
from treadle.wire.a2a.versions import Malformed, Operation, method_of, read_event

LARGEST = 16 * 1024 * 1024
SECONDS = 30.0
SILENCE = 1800.0


class A2aClient:
    """`token` is sent to the origin that the person named, and to no other."""

    def __init__(self, address: AgentAddress, headers: Mapping[str, str]) -> None:
        self.address = address
        self._http = _http({**headers, VERSION_HEADER: address.version}, SILENCE)

    async def call(self, operation: Operation, params: dict[str, Any]) -> Any:
        """The result; RemoteError when it refuses."""
        try:
            async with self._http.request("POST", self.address.url, self._body(operation, params)) as response:
                _admitted(response)
                return _result(await response.whole(LARGEST))
        except HttpError as error:
            raise RemoteError(f"{self.address.url} gave no answer: {error}") from error

    async def stream(self, operation: Operation, params: dict[str, Any]) -> AsyncGenerator[A2aEvent]:
        try:
            async with self._http.request("POST", self.address.url, self._body(operation, params)) as response:
                _admitted(response)
                decoder = decoder_for(response.headers.get("content-type", ""))
                read = 0
                async for chunk in response.chunks():
                    read += len(chunk)
                    if read > 64 * LARGEST:
                        raise RemoteProtocolError(f"a stream of more than {64 * LARGEST} bytes")
                    for data in decoder.feed(chunk):
                        yield self._event(data)
                for data in decoder.end():
                    yield self._event(data)
        except HttpError as error:
            raise RemoteError(f"{self.address.url} broke off: {error}") from error

    async def close(self) -> None:
        await self._http.aclose()

    def event(self, result: Any) -> A2aEvent:
        try:
            return read_event(result, self.address.version)
        except Malformed as error:
            raise RemoteProtocolError(f"it answered what A2A {self.address.version} does not have: {error}") from error

    def _event(self, data: bytes) -> A2aEvent:
        return self.event(_result(data))

    def _body(self, operation: Operation, params: dict[str, Any]) -> bytes:
        method = method_of(self.address.version, operation)
        return msgspec.json.encode({"jsonrpc": "2.0", "id": str(uuid.uuid4()), "method": method, "params": params})


async def connect(url: str, token: str) -> A2aClient:
    """Read the card of the agent at this address, and speak to it as the card says."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"{url!r} is not the address of an A2A agent", hint="such as a2a:https://agent.example")
    if token and parts.scheme == "http" and not is_loopback(parts.hostname):
        raise ConfigError(
            f"{parts.hostname} is another machine, and the token would be sent in plain text", hint="https"
        )
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    if token:
        headers["authorization"] = f"Bearer {token}"
    found = url if url.endswith(".json") else f"{url.rstrip('/')}{CARD_PATH}"
    http = _http({**headers, VERSION_HEADER: "1.0"}, SECONDS)
    try:
        async with http.request("GET", found) as response:
            _admitted(response)
            address = read_card(_json(await response.whole(LARGEST)))
    except HttpError as error:
        raise RemoteError(f"{found} cannot be read: {error}") from error
    except Malformed as error:
        raise RemoteProtocolError(f"{found} is no card of an agent that can be spoken to: {error}") from error
    finally:
        await http.aclose()
    if _origin(address.url) != _origin(url):
        problem = f"the card at {url} sends us to {address.url}, which is another server"
        raise RemoteError(problem, hint="name that address if you trust it")
    return A2aClient(address, headers)


def _origin(url: str) -> tuple[str, str, int]:
    parts = urlsplit(url)
    return parts.scheme, (parts.hostname or "").lower(), parts.port or (443 if parts.scheme == "https" else 80)


def _http(headers: Mapping[str, str], silence: float) -> HttpClient:
    return HttpClient(headers, connect_seconds=SECONDS, idle_seconds=silence)


def _admitted(response: Response) -> None:
    if response.status in (401, 403):
        raise AuthFailed(f"it answered {response.status}", hint="put its token into TREADLE_A2A_TOKEN")
    if response.status >= 300:
        raise RemoteError(f"it answered {response.status}")


def _json(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(f"not JSON: {error}") from error


def _result(data: bytes) -> Any:
    try:
        found = _json(data)
    except Malformed as error:
        raise RemoteProtocolError(f"it answered with what cannot be read: {error}") from error
    if isinstance(found, dict) and isinstance(refused := found.get("error"), dict):
        raise RemoteError(f"it refused: {refused.get('message')}", details={"code": refused.get("code")})
    if not isinstance(found, dict) or "result" not in found:
        raise RemoteProtocolError("its answer has neither a result nor an error")
    return found["result"]
