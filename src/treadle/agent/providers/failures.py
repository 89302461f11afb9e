"""Turns a model service's refusals into our errors, with the service's own words."""

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec

from treadle.errors import AuthFailed, ContextOverflow, ProviderError, RateLimited
from treadle.redact import Redactor

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
