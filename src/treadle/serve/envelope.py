"""Answers and errors in JSON. Every error has the same form, whatever failed:

{"error": {"code": "not_found", "message": "there is no order 'x'", "retryable": false, "details": null}}
"""

from typing import Any

import msgspec
from starlette.responses import Response

from treadle import errors
from treadle.events import ErrorInfo
from treadle.fleet.engine.bus import Unreachable

STATUS: tuple[tuple[type[errors.TreadleError], int], ...] = (
    (errors.NotFound, 404),
    (errors.MissingExtra, 501),
    (errors.ConfigError, 422),
    (errors.Denied, 409),
    (errors.Busy, 429),
    (errors.Unsupported, 422),
    (errors.TimedOut, 504),
    (Unreachable, 503),
    (errors.WorkspaceError, 409),
    (errors.StorageError, 500),
    (errors.PeerExited, 409),
    (errors.PeerStalled, 504),
    (errors.LocalError, 409),
)
"""The first match counts."""


class RequestRefused(errors.LocalError):
    """A request that is refused, with this status, before anything is done for it."""

    def __init__(self, status: int, code: str, message: str, *, hint: str | None = None, after: int = 0) -> None:
        super().__init__(message, hint=hint, retry_after_ms=after * 1000 or None)
        self.status = status
        self.kind = code

    def envelope(self) -> dict[str, Any]:
        return {**super().envelope(), "code": self.kind}


class ErrorAnswer(msgspec.Struct, frozen=True):
    """The body of the answer to every failed request."""

    error: ErrorInfo


def answer(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def failure(error: errors.TreadleError) -> Response:
    status = error.status if isinstance(error, RequestRefused) else status_of(error)
    body = error.envelope()
    response = answer({"error": body}, status)
    if error.retry_after_ms is not None or status == 503:
        response.headers["retry-after"] = str(max(1, (error.retry_after_ms or 1000) // 1000))
    if status == 401:
        response.headers["www-authenticate"] = "Bearer"
    return response


def status_of(error: errors.TreadleError) -> int:
    return next((status for kind, status in STATUS if isinstance(error, kind)), 500)
