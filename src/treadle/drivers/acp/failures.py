"""Translates how each agent says that something went wrong into our errors."""

import re
from typing import Any

from treadle.errors import (
    AuthFailed,
    Cancelled,
    LimitReached,
    MaxIterations,
    NotFound,
    ProviderError,
    RateLimited,
    RemoteError,
    TreadleError,
)
from treadle.events import ErrorInfo
from treadle.io.rpc import CallFailed

AUTH_REQUIRED = -32000
NOT_FOUND = -32002
DENIED = -32003
_AUTH = re.compile(r"\b(401|403)\b|unauthori[sz]ed|authenticat|api key", re.I)
_RATE = re.compile(r"\b429\b|rate limit|too many requests|quota", re.I)


def of_call(agent: str, error: CallFailed) -> TreadleError:
    """Codes differ by agent, and one even uses the HTTP status, so the words are read too."""
    code, words = error.rpc_code, f"{error.message} {error.data}"
    message = f"{agent}: {error.message}"
    details = {"method": error.method, "code": code}
    if code in (401, 403) or code == AUTH_REQUIRED or error.method == "session/prompt" and _AUTH.search(words):
        return AuthFailed(message, provider=agent, details=details, hint="sign in to it, or give it its key")
    if code == 429 or _RATE.search(words):
        return RateLimited(message, provider=agent, details=details)
    if code == NOT_FOUND or error.method in ("session/load", "session/resume", "session/fork"):
        return NotFound(message, details=details)
    if error.method == "session/prompt":
        return ProviderError(message, provider=agent, details=details)
    return RemoteError(message, details=details)


def of_stop(agent: str, stop: Any, text: str, failure: str | None) -> TreadleError | None:
    """The error behind the way a turn stopped; None when it stopped well or was cancelled."""
    if stop == "max_turn_requests":
        return MaxIterations(f"{agent} stopped at its own limit of model calls")
    if stop == "max_tokens":
        return LimitReached(f"{agent} stopped at its limit of tokens")
    if stop == "refusal":
        return ProviderError(f"{agent}: the model refuses to go on", provider=agent)
    if failure is not None and text.startswith(failure):
        kind = AuthFailed if _AUTH.search(text) else RateLimited if _RATE.search(text) else ProviderError
        return kind(f"{agent}: {text}", provider=agent)
    if stop not in ("end_turn", "cancelled"):
        return RemoteError(f"{agent} ended the turn without saying why", details={"stopReason": stop})
    return None


def cancelled(why: str) -> ErrorInfo:
    return ErrorInfo(code=Cancelled.code, message=why)
