"""One provider class under three wire formats: send, stream, read the answer, report what went wrong."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Protocol

import msgspec

from treadle.agent.messages import ModelRequest
from treadle.agent.providers.base import Reply, ReplyItem
from treadle.agent.providers.endpoint import Clock, Endpoint, SystemClock, from_response, retrying, without_key
from treadle.agent.providers.known import Price, cost
from treadle.agent.providers.streams import decoder_for, repaired_request
from treadle.errors import LineTooLong, ProviderError

if TYPE_CHECKING:
    from treadle.agent.providers.client import ServiceClient
    from treadle.io.http import Response

LARGEST_REPLY = 256 * 1024 * 1024
LARGEST_ERROR = 64 * 1024


class ReplyReader(Protocol):
    """Builds one reply from the events of one stream. Pure."""

    @property
    def done(self) -> bool:
        """Whether the service has sent everything."""
        ...

    def read(self, events: list[bytes]) -> list[ReplyItem]: ...

    def reply(self) -> Reply:
        """The whole reply. Raises a retryable ProviderError if the stream ended before the reply did."""
        ...


class Format(Protocol):
    """A wire format: what to send where, and how to read the answer. Pure."""

    @property
    def documents(self) -> bool:
        """Whether PDFs can be sent."""
        ...

    @property
    def path(self) -> str: ...

    def headers(self, key: str) -> dict[str, str]: ...

    def body(self, request: ModelRequest, provider: str, model: str) -> bytes: ...

    def reader(self, provider: str, model: str) -> ReplyReader: ...


class HttpProvider:
    sees = True

    def __init__(
        self,
        endpoint: Endpoint,
        model: str,
        format: Format,
        *,
        context_window: int | None = None,
        price: Price | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.name = endpoint.name
        self.model = model
        self.context_window = context_window
        self._endpoint = endpoint
        self._format = format
        self._price = price
        self._clock = clock or SystemClock()
        self._client: ServiceClient | None = None

    @property
    def documents(self) -> bool:
        return self._format.documents

    @property
    def priced(self) -> bool:
        return self._price is not None or self._endpoint.reports_cost

    def stream(self, request: ModelRequest) -> AsyncGenerator[ReplyItem, None]:
        if request.reasoning is None and request.thinking_tokens is None:
            usual = self._endpoint.thinking
            request = msgspec.structs.replace(request, reasoning=usual.effort, thinking_tokens=usual.tokens)
        try:
            body = self._format.body(request, self.name, self.model)
        except UnicodeEncodeError:
            body = self._format.body(repaired_request(request), self.name, self.model)
        return retrying(lambda: self._attempt(body), self._endpoint.retry, self._clock)

    async def _attempt(self, body: bytes) -> AsyncGenerator[ReplyItem, None]:
        began = time.monotonic()
        reader = self._format.reader(self.name, self.model)
        client = self._open()
        with without_key(self._endpoint.key):
            async with client.post(self._format.path, body) as response:
                await self._accepted(response)
                decoder = decoder_for(response.headers.get("content-type", ""))
                received = 0
                chunks = response.chunks()
                async for chunk in chunks:
                    received += len(chunk)
                    if received > LARGEST_REPLY:
                        raise LineTooLong(f"the reply is larger than {LARGEST_REPLY} bytes")
                    for item in reader.read(decoder.feed(chunk)):
                        yield item
                    if reader.done:
                        await response.linger(chunks)
                        break
                else:
                    for item in reader.read(decoder.end()):
                        yield item
            yield self._finished(reader.reply(), began)

    async def listing(self) -> bytes:
        """The service's own list of models, as it sends it."""
        response, body = await self._open().get("/models")
        if response.status != 200:
            with without_key(self._endpoint.key):
                raise from_response(response.status, response.headers, body, provider=self.name)
        return body

    async def models(self) -> list[str]:
        body = await self.listing()
        try:
            return sorted(entry.id for entry in msgspec.json.decode(body, type=_Listing).data)
        except msgspec.DecodeError as error:
            raise ProviderError(f"{self.name} sent a list of models that is not one: {error}") from None

    async def aclose(self) -> None:
        if self._client is not None:
            client, self._client = self._client, None
            await client.aclose()

    def prepare(self) -> None:
        """Load the HTTP client, without which a session is opened."""
        import treadle.agent.providers.client  # noqa: F401

    def _open(self) -> ServiceClient:
        if self._client is None:
            from treadle.agent.providers.client import ServiceClient

            self._client = ServiceClient(self._endpoint, self._format.headers(self._endpoint.key))
        return self._client

    async def _accepted(self, response: Response) -> None:
        """Raise unless it begins to stream."""
        kind = response.headers.get("content-type", "")
        if response.status == 200 and "html" not in kind:
            return
        body = await response.beginning(LARGEST_ERROR)
        if response.status == 200:
            raise ProviderError(
                f"{self.name} answered with a web page, not a stream: {body[:200].decode('utf-8', 'replace')}",
                provider=self.name,
                status=200,
                hint=f"is {self._endpoint.shown_url} the base URL of a model API?",
            )
        raise from_response(
            response.status, response.headers, body, provider=self.name, hint=self._hint(response.status)
        )

    def _hint(self, status: int) -> str | None:
        if status in (401, 403) and self._endpoint.key_variable:
            return f"check {self._endpoint.key_variable}"
        if status == 404:
            return (
                f"does {self._endpoint.shown_url} have the model {self.model!r}? `treadle models` lists what it offers"
            )
        if 300 <= status < 400:
            return f"{self._endpoint.shown_url} has moved; set the new base URL"
        return None

    def _finished(self, reply: Reply, began: float) -> Reply:
        usage = reply.usage
        if usage is None:
            return reply
        paid = usage.cost_usd if usage.cost_usd is not None else cost(usage, self._price)
        took = round((time.monotonic() - began) * 1000)
        return msgspec.structs.replace(reply, usage=msgspec.structs.replace(usage, cost_usd=paid, duration_ms=took))


class _Model(msgspec.Struct):
    id: str


class _Listing(msgspec.Struct):
    data: list[_Model] = []
