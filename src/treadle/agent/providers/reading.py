"""What the three readers share: decoding an event, tool arguments, token counts."""

from typing import Any, TypeVar

import msgspec

from treadle.agent.messages import Image, ModelRequest
from treadle.errors import ProviderError
from treadle.events import Usage
from treadle.session import Effort
from treadle.wire.common import images as wire
from treadle.wire.common.jsontext import repaired

T = TypeVar("T")

MOST = 1 << 53
"""Programs that read JSON cannot be relied on to handle larger numbers."""


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


def count(table: Any, *names: str) -> int:
    """A number of tokens, through nested tables; anything else that a service puts there counts as 0."""
    for name in names:
        table = table.get(name) if isinstance(table, dict) else None
    known = isinstance(table, (int, float)) and not isinstance(table, bool) and 0 <= table < MOST
    return int(table) if known else 0


def dollars(table: Any) -> float | None:
    value = table.get("cost") if isinstance(table, dict) else None
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def used(usage: Any, model: str, request_id: str | None, given: str, made: str) -> Usage:
    """What an OpenAI-like service counted; `given` and `made` are its words for input and output."""
    details = f"{given}_tokens_details"
    read = count(usage, details, "cached_tokens") or count(usage, "prompt_cache_hit_tokens")
    written = count(usage, details, "cache_write_tokens")
    return Usage(
        model=model,
        input_tokens=max(0, count(usage, f"{given}_tokens") - read - written),
        output_tokens=count(usage, f"{made}_tokens"),
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=count(usage, f"{made}_tokens_details", "reasoning_tokens"),
        cost_usd=dollars(usage),
        request_id=request_id,
    )


def effort_of(request: ModelRequest) -> Effort:
    """How hard to think, also where only a number of tokens is given."""
    tokens = request.thinking_tokens
    if tokens is None:
        return request.reasoning or "medium"
    return "none" if tokens == 0 else "low" if tokens <= 4_000 else "medium" if tokens <= 12_000 else "high"
