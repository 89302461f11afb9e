"""One provider class under three wire formats: send, stream, read the answer, report what went wrong."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from treadle import __version__
from treadle.agent.messages import Image, ModelRequest, Reply, ReplyItem
from treadle.agent.providers.known import Price, cost
from treadle.errors import (
    AuthFailed,
    ConfigError,
    ContextOverflow,
    LineTooLong,
    ProviderError,
    RateLimited,
    StorageError,
)
from treadle.events import ErrorInfo, Retrying, TextDelta, Usage
from treadle.io.paths import ACCOUNTS, state_dir
from treadle.redact import Redactor
from treadle.session import Effort, Reasoning
from treadle.wire.common import images as wire
from treadle.wire.common.jsontext import repaired

if TYPE_CHECKING:
    from treadle.gateway.governor import AccountGovernor
    from treadle.io.http import Response


# Retries, politely: the one retry rule of every provider.

RESET = 60.0
"""A wait named by a service is a limit's reset when it is at least this many seconds."""


class Clock(Protocol):
    def now(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    def now(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    tries: int = 0
    """The most tries; 0 means as many as there is time for."""
    patience: float = 300.0
    """How many seconds all tries together may take, where the service does not say when to ask again."""
    reset_patience: float = 3600.0
    """The longest wait, in seconds, for a time that the service names. Beyond it, the error is raised."""
    first_wait: float = 0.5
    longest_wait: float = 30.0

    def wait(self, tried: int, error: ProviderError) -> float:
        """Seconds before the next try; never earlier than a time that the service named."""
        import random

        if error.retry_after_ms is not None:
            return error.retry_after_ms / 1000 * random.uniform(1.0, 1.1)
        return min(self.longest_wait, self.first_wait * 2.0 ** min(tried - 1, 30)) * random.uniform(0.5, 1.0)

    def gives_up(self, tried: int, passed: float, wait: float, error: ProviderError) -> bool:
        """Whether to raise the error now: after so many tries and seconds, with such a wait before the next."""
        if not error.retryable or self.tries and tried >= self.tries:
            return True
        if _is_reset(wait, error):
            return passed > self.patience or wait > max(self.patience, self.reset_patience)
        return passed + wait > min(self.patience, error.patience)


def _is_reset(wait: float, error: ProviderError) -> bool:
    """Whether the service has said when its limit resets, and that is not at once."""
    return error.retry_after_ms is not None and wait >= RESET


async def retrying(
    attempt: Callable[[], AsyncGenerator[ReplyItem, None]], policy: RetryPolicy, clock: Clock
) -> AsyncGenerator[ReplyItem, None]:
    """Stream `attempt`, and start it over while it fails retryably before any words of the answer were passed on.

    Thinking may be repeated, and half a call is never passed on. Words cannot be taken back, so a later failure is
    raised, still marked as retryable: the loop asks for the rest.
    """
    began = clock.now()
    tried = 0
    while True:
        tried += 1
        answering = False
        try:
            async with aclosing(attempt()) as items:
                async for item in items:
                    answering = answering or type(item) is TextDelta and bool(item.text.strip())
                    yield item
            return
        except ProviderError as error:
            wait = policy.wait(tried, error)
            if answering or policy.gives_up(tried, passed := clock.now() - began, wait, error):
                if tried > 1 and not answering:
                    error.message += f" (asked {tried} times in {passed:.0f} s)"
                raise
            if _is_reset(wait, error):
                began += wait  # waiting for a limit to reset is not a failure of the service
            again = Retrying(attempt=tried, delay_ms=round(wait * 1000), error=ErrorInfo(**error.envelope()))
        yield again
        await clock.sleep(wait)


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A model service: its address, how requests to it are made, and how long we wait."""

    name: str
    base_url: str
    key: str = ""
    key_variable: str = ""
    headers: dict[str, str] = {}
    idle_timeout: float = 120.0
    thinking: Reasoning = Reasoning()
    """For a request that does not say how much to think."""
    reports_cost: bool = False
    """Whether the service reports what a call cost."""
    connect_timeout: float = 15.0
    retry: RetryPolicy = RetryPolicy()
    socket: str = ""
    """A Unix socket to connect to instead of the address."""

    def __repr__(self) -> str:
        return f"Endpoint({self.name!r}, {self.shown_url!r})"

    @property
    def shown_url(self) -> str:
        """The address without a password that may be in it."""
        return re.sub(r"//[^/@]*@", "//", self.base_url)


def loopback(url: str) -> bool:
    import ipaddress  # imported here because most services are at well-known addresses
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        return parts.scheme == "http" and (host == "localhost" or ipaddress.ip_address(host).is_loopback)
    except ValueError:
        return False


# Turns a model service's refusals into our errors, with the service's own words.

RETRYABLE = frozenset({408, 409, 429, 529})
# Compiled when something fails: most runs need none of them.
TOO_LONG = (
    r"(?i)context.?(length|window|size)|maximum context|prompt is too long|too many (input )?tokens|input is too long"
    r"|exceeds? the (model'?s )?(maximum|available) (input|context)|request_too_large"
)
OVERLOADED = r"(?i)overloaded|rate.?limit|too many requests|server_error|api_error|timeout"
OUT_OF_MONEY = r"(?i)insufficient_quota|billing|credit balance"
NO_IMAGES = r"(?i)image input|mmproj|not (a )?multi.?modal"
"""Local servers answer 500 when their model cannot take images; retrying does not help."""
LONGEST = 2000


def from_status(
    status: int,
    message: str,
    *,
    provider: str,
    kind: str = "",
    retry_after: float | None = None,
    hint: str | None = None,
) -> ProviderError:
    """The error for an HTTP status; `kind` is the service's own type or code for it."""
    about = f"{kind} {message}"
    error: type[ProviderError] = ProviderError
    retryable = status in RETRYABLE or status >= 500 and not re.search(NO_IMAGES, message)
    if status in (401, 403):
        error = AuthFailed
    elif status in (400, 413, 422) and re.search(TOO_LONG, about):
        error = ContextOverflow
    elif status == 429:
        error = RateLimited
        retryable = not re.search(OUT_OF_MONEY, about)
    return error(
        f"{provider} answered {status}: {message}",
        provider=provider,
        status=status,
        retryable=retryable,
        details={"status": status, "type": kind} if kind else {"status": status},
        retry_after_ms=None if retry_after is None else max(0, round(retry_after * 1000)),
        hint=hint,
    )


def from_response(
    status: int, headers: Mapping[str, str], body: bytes, *, provider: str, hint: str | None = None
) -> ProviderError:
    from treadle.wire.models.families import retry_after  # imported here because few calls fail

    message, kind = message_and_kind(body)
    error = from_status(
        status, message, provider=provider, kind=kind, retry_after=retry_after(headers, time.time()), hint=hint
    )
    if headers.get("x-should-retry") in ("true", "false"):
        error.retryable = headers["x-should-retry"] == "true"
    return error


def from_event(error: Any, *, provider: str) -> ProviderError:
    """An error that arrived inside a stream that had begun with 200."""
    message, kind = _inside({"error": error})
    code = error.get("code") if isinstance(error, dict) else None
    if isinstance(code, int) and 400 <= code < 600:
        return from_status(code, message, provider=provider, kind=kind)
    about = f"{kind} {message}"
    if re.search(TOO_LONG, about):
        return ContextOverflow(f"{provider}: {message}", provider=provider, details={"type": kind})
    return ProviderError(
        f"{provider} failed while answering: {message}",
        provider=provider,
        details={"type": kind},
        retryable=bool(re.search(OVERLOADED, about)),
    )


@contextmanager
def without_key(key: str) -> Iterator[None]:
    """Some services repeat the key in an error, and errors are shown and logged."""
    try:
        yield
    except ProviderError as error:
        redactor = Redactor([key] if key else [])
        error.message = redactor.text(error.message)
        error.args = (error.message,)
        error.details = redactor.tree(error.details)
        raise


def message_and_kind(body: bytes) -> tuple[str, str]:
    """The message and the type in an error body, whatever its form."""
    try:
        return _inside(msgspec.json.decode(body))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        text = re.sub(r"<[^>]*>", " ", body[: 4 * LONGEST].decode("utf-8", "replace"))
        return " ".join(text.split())[:LONGEST] or "no explanation", ""


def _inside(body: Any) -> tuple[str, str]:
    if isinstance(body, list) and body:
        body = body[0]
    if isinstance(body, dict):
        error = body.get("error") or body.get("detail") or body.get("message") or body
        if isinstance(error, dict):
            message = error.get("message") or error.get("error") or error
            kind = error.get("type") or error.get("code") or ""
            if error.get("code") and isinstance(error["code"], str):
                kind = error["code"]
            metadata = error.get("metadata")
            if isinstance(metadata, dict) and metadata.get("raw"):
                message = f"{message}: {metadata['raw']}"
            return _text(message), str(kind)
        return _text(error), ""
    return _text(body), ""


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text[:LONGEST]


# What the three readers share: decoding an event, tool arguments, token counts.

T = TypeVar("T")


def decode(decoder: msgspec.json.Decoder[T], data: bytes, provider: str) -> T:
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return _decode_repaired(decoder, data, provider, error)


def _decode_repaired(decoder: msgspec.json.Decoder[T], data: bytes, provider: str, error: Exception) -> T:
    """Some services split a surrogate pair between events; the halves are not text, but the rest of the event is."""
    if b"\\u" in data:
        import json

        try:
            return decoder.decode(json.dumps(repaired(json.loads(data, parse_constant=str))))
        except (ValueError, RecursionError):
            pass
    start = data[:200].decode("utf-8", "replace")
    raise ProviderError(
        f"{provider} sent an event that cannot be read: {error}",
        provider=provider,
        retryable=True,
        details={"event": start},
    ) from None


def repaired_request(request: ModelRequest) -> ModelRequest:
    """The request without lone surrogates, which come from file names and broken output and are not text."""
    return msgspec.convert(repaired(msgspec.to_builtins(request)), ModelRequest)


def data_url(image: Image, images: dict[str, bytes]) -> str | None:
    """An image of a request in the form of OpenAI-like services; None when it is not to be shown."""
    data = images.get(image.name)
    return None if data is None else wire.data_url(data)


def cut(provider: str) -> ProviderError:
    return ProviderError(f"{provider} ended the stream before the end of the reply", provider=provider, retryable=True)


def arguments(text: str) -> dict[str, Any]:
    """A call's arguments to send again. Services refuse malformed ones; the tool's result says what was wrong."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def tables(value: Any) -> list[dict[str, Any]]:
    """The tables in a list; a service may put anything there."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def effort_of(request: ModelRequest) -> Effort:
    """How hard to think, also where only a number of tokens is given."""
    tokens = request.thinking_tokens
    if tokens is None:
        return request.reasoning or "medium"
    return "none" if tokens == 0 else "low" if tokens <= 4_000 else "medium" if tokens <= 12_000 else "high"


LARGEST_REPLY = 256 * 1024 * 1024
LARGEST_ERROR = 64 * 1024


# The HTTP client under our providers, and the one place that turns its failures into provider errors. What it is made
# of is loaded with the first request.

log = logging.getLogger(__name__)
LOCAL_PATIENCE = 10.0
"""How many seconds to wait for a server on this machine that does not accept connections yet."""
LARGEST_LISTING = 16 * 1024 * 1024
"""Bytes of an answer that is read whole, such as a list of models."""


class ServiceClient:
    """Connections to one endpoint. What goes wrong on the way is a ProviderError."""

    def __init__(self, endpoint: Endpoint, headers: Mapping[str, str]) -> None:
        if not (endpoint.key.isascii() and endpoint.key.isprintable()):
            what = endpoint.key_variable or "the API key"
            raise ConfigError(f"{what} contains characters that no key can contain", hint="copy the key again")
        from treadle.io.http import HttpClient

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
        from treadle.io.http import HttpError

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
        from treadle.io.http import HttpError

        try:
            async with self._http.request("GET", self._url(path)) as response:
                return response, await response.whole(LARGEST_LISTING)
        except HttpError as error:
            raise self._failed(error) from error

    async def aclose(self) -> None:
        await self._http.aclose()

    def _url(self, path: str) -> str:
        return self._endpoint.base_url.rstrip("/") + path

    def _failed(self, error: Exception) -> ProviderError:
        from treadle.io.http import BadAddress, CannotConnect, TooSilent, WrongPeer

        name, where = self._endpoint.name, self._endpoint.shown_url
        if isinstance(error, (LineTooLong, BadAddress)):
            return ProviderError(f"{name} at {where}: {error}", provider=name)
        if isinstance(error, CannotConnect):
            why = str(error) or "no answer"
            passes = not isinstance(error, WrongPeer)
            failed = ProviderError(f"cannot reach {name} at {where}: {why}", provider=name, retryable=passes)
            if loopback(self._endpoint.base_url):
                failed.patience = LOCAL_PATIENCE
            return failed
        if isinstance(error, TooSilent):
            idle = f"{self._endpoint.idle_timeout:g} s"
            return ProviderError(f"{name} sent nothing for {idle}", provider=name, retryable=True)
        why = str(error) or type(error).__name__
        return ProviderError(f"the connection to {name} broke: {why}", provider=name, retryable=True)


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
        self._governed = clock is None and bool(endpoint.key)
        self._client: ServiceClient | None = None

    @property
    def documents(self) -> bool:
        return self._format.documents

    @property
    def priced(self) -> bool:
        return self._price is not None or self._endpoint.reports_cost

    def cost(self, usage: Usage) -> float | None:
        return cost(usage, self._price)

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
        limited = os.path.isdir(os.path.join(state_dir(), ACCOUNTS))  # else no run here was told of a limit yet
        client, governor = self._open(), self._governor() if limited else None
        if governor is not None:
            from treadle.gateway.governor import waiting

            async for until in governor.turn():
                yield waiting(until)
        asked_at = time.time()
        with without_key(self._endpoint.key):
            async with client.post(self._format.path, body) as response:
                await self._accepted(response, governor, asked_at)
                from treadle.wire.models.sse import decoder_for  # nothing needs it before a reply

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
            raise ProviderError(f"{self.name} sent an invalid list of models: {error}") from None

    async def aclose(self) -> None:
        if self._client is not None:
            client, self._client = self._client, None
            await client.aclose()

    def prepare(self) -> None:
        """Load the HTTP client, without which a session is opened."""
        import treadle.io.http  # noqa: F401

    def _open(self) -> ServiceClient:
        if self._client is None:
            self._client = ServiceClient(self._endpoint, self._format.headers(self._endpoint.key))
        return self._client

    def _governor(self) -> AccountGovernor | None:
        """Shared with all runs of this machine that use the key."""
        from treadle.gateway.governor import AccountGovernor
        from treadle.policy.network import host_of

        with suppress(StorageError):  # one who may not write there asks without it
            return AccountGovernor(host_of(self._endpoint.base_url), self._endpoint.key) if self._governed else None
        return None

    async def _accepted(self, response: Response, governor: AccountGovernor | None, asked_at: float) -> None:
        """Raise unless it begins to stream."""
        kind = response.headers.get("content-type", "")
        if response.status == 200 and "html" not in kind:
            if governor is not None:
                governor.succeeded(asked_at)
            return
        body = await response.beginning(LARGEST_ERROR)
        if governor := governor or self._governor():
            governor.refused(response.status, response.headers, body, 0.0, asked_at)
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
