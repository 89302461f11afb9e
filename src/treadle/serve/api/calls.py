"""The table of all calls, and how a request becomes a function call.

    @call("POST", "/orders/{id}/cancel", right="all", body=Reason)
    async def cancel(asked: Asking) -> None: ...

Path, query and body are checked against their types before the function is called; the OpenAPI document is made from
the same table. A function for which no type of answer is given returns nothing, and the answer is `Done`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from treadle.errors import TreadleError
from treadle.serve.envelope import RequestRefused, answer, failure, fitted
from treadle.serve.gate import BODY_SECONDS
from treadle.serve.site import Site
from treadle.serve.tokens import Device, Right, may

if TYPE_CHECKING:
    from treadle.fleet.engine.bus import Bus

BASE = "/api/v1"
ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")
"""What an order, a node, a terminal or a device may be called in a path."""
Method = Literal["GET", "POST", "PUT", "DELETE"]


class Done(msgspec.Struct, frozen=True):
    """The change is stored."""

    ok: bool = True


class RequestBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of a request: a field that it does not have is refused, never skipped."""


class Asking:
    """One call: who makes it, on what, with which parameters."""

    def __init__(self, site: Site, request: Request, query: Any, body: Any) -> None:
        self.site = site
        self.request = request
        self.query = query
        self.body = body

    @property
    def device(self) -> Device:
        found: Device = self.request.scope["device"]
        return found

    @property
    def by(self) -> str:
        """Who makes the call, as the order's history shows it."""
        return f"{self.site.user} ({self.device.name})" if self.device.name else self.site.user

    @property
    def bus(self) -> Bus:
        return self.site.fleet.require_bus()

    def path(self, name: str) -> str:
        return str(self.request.path_params[name])

    async def order(self) -> str:
        """The id of the order in the path, which may be shortened."""
        from treadle.fleet import client

        return await client.resolve(self.bus, self.path("id"))


Handler = Callable[[Asking], Awaitable[Any]]


@dataclass(frozen=True)
class ApiCall:
    method: Method
    path: str
    right: Right
    handler: Handler
    query: type | None
    body: type[msgspec.Struct] | None
    returns: Any
    status: int
    optional_body: bool

    @property
    def name(self) -> str:
        return self.handler.__name__

    @property
    def summary(self) -> str:
        return (self.handler.__doc__ or "").strip().partition("\n")[0]


TABLE: list[ApiCall] = []
"""The calls of the modules imported so far; importing `serve.server` brings all of them."""


def call(
    method: Method,
    path: str,
    *,
    right: Right = "watch",
    query: type | None = None,
    body: type[msgspec.Struct] | None = None,
    returns: Any = Done,
    status: int = 200,
    optional_body: bool = False,
) -> Callable[[Handler], Handler]:
    assert body is None or body.__struct_config__.forbid_unknown_fields, f"{body} would skip fields in silence"

    def add(handler: Handler) -> Handler:
        TABLE.append(ApiCall(method, path, right, handler, query, body, returns, status, optional_body))
        return handler

    return add


def routes(site: Site, table: list[ApiCall]) -> list[Route]:
    """The calls as routes. Methods of one path share a route, so that a wrong method is reported as such."""
    paths: dict[str, dict[str, ApiCall]] = {}
    for each in table:
        paths.setdefault(each.path, {})[each.method] = each
    return [Route(BASE + path, _endpoint(site, methods), methods=list(methods)) for path, methods in paths.items()]


def _endpoint(site: Site, methods: dict[str, ApiCall]) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        try:
            return await _do(site, methods[request.method if request.method != "HEAD" else "GET"], request)
        except TreadleError as error:
            return failure(error)

    return endpoint


async def _do(site: Site, what: ApiCall, request: Request) -> Response:
    device = request.scope["device"]
    if device is None or not may(device, what.right):
        raise RequestRefused(403, "forbidden", f"this token may not do that: it needs the right {what.right!r}")
    for value in request.path_params.values():
        if not ID.fullmatch(value):
            raise RequestRefused(400, "bad_request", f"{value[:80]!r} is not a valid name")
    query = _query(what.query, request) if what.query is not None else None
    body = await _body(what, request) if what.body is not None else None
    result = await what.handler(Asking(site, request, query, body))
    if not isinstance(result, Response):
        result = answer(Done() if what.returns is Done else result, what.status)
    return fitted(request, result)


def _query(kind: type, request: Request) -> Any:
    fields: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        given = request.query_params.getlist(field.encode_name)
        if given:
            many = "tuple" in str(field.type)
            fields[field.encode_name] = tuple(each for each in given if each) if many else given[-1]
    unknown = set(request.query_params) - {field.encode_name for field in msgspec.structs.fields(kind)}
    if unknown:
        raise RequestRefused(400, "bad_request", f"there is no parameter {sorted(unknown)[0][:60]!r}")
    try:
        return msgspec.convert(fields, kind, strict=False)
    except msgspec.ValidationError as error:
        raise RequestRefused(400, "bad_request", str(error)) from None


async def _body(what: ApiCall, request: Request) -> Any:
    try:
        async with asyncio.timeout(BODY_SECONDS):
            data = await request.body()
    except TimeoutError:
        raise RequestRefused(408, "too_slow", "the body of the request did not come in time") from None
    assert what.body is not None
    if not data and what.optional_body:
        return what.body()
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise RequestRefused(415, "unsupported_media_type", "the body must be application/json")
    try:
        return msgspec.json.decode(data, type=what.body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RequestRefused(400, "bad_request", f"the body cannot be read: {error}") from None
