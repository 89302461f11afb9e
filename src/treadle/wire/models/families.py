"""The families of model interfaces: what a request asks for, what a reply used, and a refusal as the family writes it.
Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias
from urllib.parse import unquote

import msgspec

from treadle.errors import LineTooLong
from treadle.events import Usage
from treadle.wire.models.sse import EventDecoder

Family: TypeAlias = Literal["anthropic", "chat", "responses", "gemini"]

MOST = 1 << 53
"""Programs that read JSON cannot be relied on to handle larger numbers."""


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


def anthropic_used(usage: Any, model: str, request_id: str | None) -> Usage | None:
    """None when it counted nothing: the fields are mandatory there, so services that do not count send zeros."""
    found = Usage(
        model=model,
        input_tokens=count(usage, "input_tokens"),
        output_tokens=count(usage, "output_tokens"),
        cache_read_tokens=count(usage, "cache_read_input_tokens"),
        cache_write_tokens=count(usage, "cache_creation_input_tokens"),
        reasoning_tokens=count(usage, "output_tokens_details", "thinking_tokens"),
        cost_usd=dollars(usage),
        request_id=request_id,
    )
    known = found.input_tokens or found.output_tokens or found.cache_read_tokens or found.cost_usd is not None
    return found if known else None


def gemini_used(usage: Any, model: str, request_id: str | None) -> Usage:
    """Here the thoughts are counted beside the output, and the cached tokens within the prompt."""
    read, thoughts = count(usage, "cachedContentTokenCount"), count(usage, "thoughtsTokenCount")
    prompt = count(usage, "promptTokenCount") + count(usage, "toolUsePromptTokenCount")
    return Usage(
        model=model,
        input_tokens=max(0, prompt - read),
        output_tokens=count(usage, "candidatesTokenCount") + thoughts,
        cache_read_tokens=read,
        reasoning_tokens=thoughts,
        request_id=request_id,
    )


# Requests.

_PATHS: dict[str, Family] = {
    "/messages": "anthropic",
    "/chat/completions": "chat",
    "/responses": "responses",
    "/responses/compact": "responses",
    ":generateContent": "gemini",
    ":streamGenerateContent": "gemini",
}
_FREE = ("/messages/count_tokens", ":countTokens", "/responses/input_tokens")
_LIMITS = {"anthropic": ("max_tokens",), "chat": ("max_completion_tokens", "max_tokens")}


def family_of(path: str) -> Family | None:
    """The family whose model is asked at this path; None for any other path of a service."""
    plain = unquote(path).rstrip("/")
    return next((family for end, family in _PATHS.items() if plain.endswith(end)), None)


def form_of(path: str) -> Family:
    """The family in whose form errors are expected at this path."""
    found = family_of(path)
    if found is not None:
        return found
    return "anthropic" if "/messages" in path else "gemini" if ":" in path or "/v1beta" in path else "chat"


def is_free(method: str, path: str) -> bool:
    """Whether nothing is charged for that: token counts, and reading the list of models or one of them."""
    return path.endswith(_FREE) or method == "GET" and "/models" in path and ":" not in path.rpartition("/")[2]


class AskedCall(msgspec.Struct, frozen=True, kw_only=True):
    family: Family
    model: str
    body: dict[str, Any]
    output_limit: int | None = None
    """The most tokens that it wants in the reply; None: it does not say."""


def asked_call(family: Family, path: str, data: bytes) -> AskedCall | None:
    """None when the body is no JSON object."""
    try:
        body = msgspec.json.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    if not isinstance(body, dict):
        return None
    model = str(body.get("model") or "")
    if family == "gemini":
        model = path.rpartition("/")[2].partition(":")[0]
    return AskedCall(family=family, model=model, body=body, output_limit=_output_limit(family, body))


def _output_limit(family: Family, body: dict[str, Any]) -> int | None:
    places = _LIMITS.get(family, ("max_output_tokens",))
    table: Any = body
    if family == "gemini":
        table, places = body.get("generationConfig"), ("maxOutputTokens",)
    return next(filter(None, (count(table, place) for place in places)), None)


PICTURE = 6000
"""Letters that an image or a document is taken for, which is sent as a long text and counted as a picture."""


def letters(body: Any) -> int:
    """How long the texts of a request are together: what its tokens are estimated by."""
    if isinstance(body, str):
        return min(len(body), PICTURE) if body.startswith("data:") else len(body)
    if isinstance(body, dict):
        return sum(
            len(name) + (min(letters(value), PICTURE) if name in ("data", "file_data") else letters(value))
            for name, value in body.items()
        )
    return sum(map(letters, body)) if isinstance(body, list) else 1


def with_output_limit(call: AskedCall, most: int) -> bytes | None:
    """The body with this limit for the reply; None when the call cannot be made with so little."""
    body, family = dict(call.body), call.family
    if family == "gemini":
        config = body.get("generationConfig")
        body["generationConfig"] = {**(config if isinstance(config, dict) else {}), "maxOutputTokens": most}
    elif family == "responses":
        body["max_output_tokens"] = most
    elif family == "anthropic":
        if count(body.get("thinking"), "budget_tokens") >= most:
            return None
        body["max_tokens"] = most
    else:
        body["max_tokens" if "max_tokens" in body else "max_completion_tokens"] = most
    return msgspec.json.encode(body)


# Replies.

_KINDS = {400: "invalid_request_error", 401: "authentication_error", 413: "request_too_large", 429: "rate_limit_error"}
_STATUS = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 413: "INVALID_ARGUMENT", 429: "RESOURCE_EXHAUSTED"}


def refusal(family: Family, status: int, message: str) -> bytes:
    """An error as the family's services write it, so that its clients show the message."""
    kind = _KINDS.get(status, "api_error")
    if family == "anthropic":
        return msgspec.json.encode({"type": "error", "error": {"type": kind, "message": message}})
    if family == "gemini":
        error: dict[str, Any] = {"code": status, "message": message, "status": _STATUS.get(status, "INTERNAL")}
    else:
        error = {"message": message, "type": kind, "param": None, "code": kind}
    return msgspec.json.encode({"error": error})


LARGEST_EVENT = 4 * 1024 * 1024
"""Bytes of an event, or of a whole reply, that is searched for counts; of a longer one they stay unknown."""
_UNCOUNTED = (b'"usage":null', b'"usage": null')


class ReplyMeter:
    """Reads the counts out of a reply that passes; what it cannot read changes nothing about the reply."""

    def __init__(self, family: Family, model: str, content_type: str) -> None:
        self._family = family
        self._model = model
        self._id: str | None = None
        self._usage: dict[str, Any] = {}
        self._events = EventDecoder(LARGEST_EVENT) if "event-stream" in content_type else None
        self._whole = bytearray()
        self._lost = False
        self.done = False
        """Whether the reply is complete, as far as it says so itself."""

    def feed(self, chunk: bytes) -> None:
        if self._lost:
            return
        if self._events is None:
            self._whole += chunk
            self._lost = len(self._whole) > LARGEST_EVENT
        else:
            try:
                for data in self._events.feed(chunk):
                    self._look(data)
            except LineTooLong:
                self._lost = True
        if self._lost:
            self._whole.clear()

    def end(self) -> None:
        for data in [] if self._lost else [bytes(self._whole)] if self._events is None else self._events.end():
            self._look(data)
        self._whole.clear()
        self.done = True

    def usage(self) -> Usage | None:
        """What the service has counted so far; None: nothing."""
        if not self._usage:
            return None
        if self._family == "anthropic":
            return anthropic_used(self._usage, self._model, self._id)
        if self._family == "gemini":
            return gemini_used(self._usage, self._model, self._id)
        given, made = ("prompt", "completion") if self._family == "chat" else ("input", "output")
        return used(self._usage, self._model, self._id, given, made)

    def _look(self, data: bytes) -> None:
        if b"usage" not in data:
            self.done = self.done or data == b"[DONE]" or self._family == "anthropic" and b'"message_stop"' in data
            return
        if data.count(b"usage") == 1 and any(text in data for text in _UNCOUNTED):
            return
        try:
            found = msgspec.json.decode(data)
        except (msgspec.DecodeError, ValueError, RecursionError):
            return
        for one in found if isinstance(found, list) else [found]:
            if isinstance(one, dict):
                self._read(one)

    def _read(self, event: dict[str, Any]) -> None:
        inner = event.get({"anthropic": "message", "responses": "response"}.get(self._family, ""))
        table = inner if isinstance(inner, dict) else event
        usage = table.get("usageMetadata" if self._family == "gemini" else "usage")
        if isinstance(usage, dict):
            self._usage |= {name: value for name, value in usage.items() if value is not None}
        self._model = str(table.get("model") or table.get("modelVersion") or self._model)
        self._id = str(table.get("id") or table.get("responseId") or "") or self._id
        if self._family == "gemini":
            candidates = table.get("candidates")
            listed = candidates if isinstance(candidates, list) else []
            self.done = self.done or any(isinstance(one, dict) and one.get("finishReason") for one in listed)
        elif self._family == "responses" and isinstance(inner, dict):
            self.done = self.done or event.get("type") in ("response.completed", "response.incomplete")
