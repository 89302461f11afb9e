"""Answers and errors in JSON. Every error is a problem as RFC 9457 describes them, whatever failed:

{"type": "urn:treadle:problem:not_found", "title": "Not Found", "status": 404, "detail": "there is no order 'x'",
 "code": "not_found", "retryable": false}
"""

import hashlib
import http
from typing import Any

import msgspec
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from treadle import errors
from treadle.fleet.engine.bus import Unreachable

JSON = "application/json"
PROBLEM = "application/problem+json"
TYPE = "urn:treadle:problem:"
GZIP_FROM = 1024
"""The smallest answer, in bytes, that is worth compressing."""

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


class HttpProblem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body of the answer to every failed request (RFC 9457)."""

    type: str
    title: str
    """The name of the status."""
    status: int
    detail: str
    """What happened, why, and what to do."""
    code: str
    """The same as the end of `type`, as in every other protocol of ours."""
    retryable: bool = False
    retry_after_ms: int | None = None
    details: Any = None


def answer(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type=JSON)


def fitted(request: Request, response: Response) -> Response:
    """The answer to a request to read, with an ETag: not sent again to a client that has it, compressed for one that
    can read that. Streams and files stay as they are."""
    if request.method not in ("GET", "HEAD") or response.status_code != 200 or response.media_type != JSON:
        return response
    body = bytes(response.body)
    etag = f'W/"{hashlib.blake2b(body, digest_size=16).hexdigest()}"'
    response.headers["etag"], response.headers["vary"] = etag, "accept-encoding, authorization, cookie"
    if etag in _listed(request.headers, "if-none-match"):
        return Response(status_code=304, headers={"etag": etag, "vary": response.headers["vary"]})
    if len(body) >= GZIP_FROM and "gzip" in _listed(request.headers, "accept-encoding"):
        import gzip

        response.body = gzip.compress(body, compresslevel=3, mtime=0)
        response.headers["content-encoding"] = "gzip"
        response.headers["content-length"] = str(len(response.body))
    return response


def _listed(headers: Headers, name: str) -> list[str]:
    """The values of a header that is a list; one of weight 0 is not among them."""
    parts = [part.strip() for part in headers.get(name, "").split(",")]
    return [part.partition(";")[0].strip() for part in parts if not part.replace(" ", "").endswith((";q=0", ";q=0.0"))]


def failure(error: errors.TreadleError) -> Response:
    status = error.status if isinstance(error, RequestRefused) else status_of(error)
    problem = error.envelope()
    response = _problem(status, problem["code"], problem["message"], error)
    if error.retry_after_ms is not None or status == 503:
        response.headers["retry-after"] = str(max(1, (error.retry_after_ms or 1000) // 1000))
    if status == 401:
        response.headers["www-authenticate"] = 'Bearer realm="treadle"'
    return response


def _problem(status: int, code: str, detail: str, error: errors.TreadleError | None = None) -> Response:
    made = HttpProblem(
        type=f"{TYPE}{code}",
        title=http.HTTPStatus(status).phrase,
        status=status,
        detail=detail,
        code=code,
        retryable=error is not None and error.retryable,
        retry_after_ms=error.retry_after_ms if error is not None else None,
        details=error.details if error is not None else None,
    )
    return Response(msgspec.json.encode(made), status, media_type=PROBLEM)


async def not_routed(request: Request, error: Exception) -> Response:
    """No call has this path, or none of those that have it this method."""
    assert isinstance(error, HTTPException)
    allow = (error.headers or {}).get("Allow", "")
    words = {
        404: (
            "not_found",
            f"there is nothing at {request.url.path[:200]!r}: GET /openapi.json lists the paths",
        ),
        405: ("method_not_allowed", f"{request.method[:20]} is not possible here, but {allow}"),
    }
    code, detail = words.get(error.status_code, ("refused", str(error.detail)))
    response = _problem(error.status_code, code, detail)
    response.headers.update(error.headers or {})
    return response


async def broken(request: Request, error: Exception) -> Response:
    """An error that we did not expect; the log has it in full."""
    return _problem(500, "internal_error", f"{type(error).__name__}: this is a fault of ours, and the log has it")


def status_of(error: errors.TreadleError) -> int:
    return next((status for kind, status in STATUS if isinstance(error, kind)), 500)
