"""A model service: its address, when a request is tried again, and what its refusals mean."""

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from typing import Any, Protocol

import msgspec

from treadle.agent.providers.base import ReplyItem
from treadle.errors import AuthFailed, ContextOverflow, ProviderError, RateLimited
from treadle.events import ErrorInfo, Retrying, TextDelta
from treadle.redact import Redactor
from treadle.session import Reasoning

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
            if answering or policy.gives_up(tried, clock.now() - began, wait, error):
                raise
            if _is_reset(wait, error):
                began += wait  # waiting for a limit to reset is not a failure of the service
            again = Retrying(attempt=tried, delay_ms=round(wait * 1000), error=ErrorInfo(**error.envelope()))
        yield again
        await clock.sleep(wait)


# A model service: its address, how to ask it, and whether it runs on this machine.


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


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds to wait as the service asked: `retry-after-ms`, or `Retry-After` in seconds or as a date."""
    try:
        if "retry-after-ms" in headers:
            return max(0.0, float(headers["retry-after-ms"]) / 1000)
        text = headers.get("retry-after", "")
        if not text:
            return _reset(headers, now)
        try:
            return max(0.0, float(text))
        except ValueError:
            import email.utils

            return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - now)
    except (ValueError, OverflowError):
        return None


def _reset(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds until the exhausted limit resets, where a service reports only that."""
    from datetime import datetime

    waits = []
    for name, value in headers.items():
        kind, _, last = name.lower().rpartition("-")
        if last != "reset" or not kind.startswith("anthropic-ratelimit-") or headers.get(f"{kind}-remaining") != "0":
            continue
        waits.append(datetime.fromisoformat(value).timestamp() - now)
    text = headers.get("x-ratelimit-reset", "")
    if text.isdigit():  # a point in time, in seconds or milliseconds
        waits.append(int(text) / (1000 if len(text) > 11 else 1) - now)
    return max(0.0, max(waits)) if waits else None


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
