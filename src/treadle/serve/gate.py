"""The checks that every request passes before anything is done for it.

The name in `Host` must be one of ours, so that a page whose name was made to point here (DNS rebinding) cannot read
us. A request that a browser sends from another page's origin is refused, also for WebSockets. Everything but the
page's own files needs a token. No answer may be framed, sniffed or cached, nor run anything from elsewhere.
"""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Iterable
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, Any

from treadle.serve.envelope import RequestRefused, failure
from treadle.serve.tokens import Device, Tokens

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

BODY_MAX = 2 * 1024 * 1024
BODY_SECONDS = 30.0
FAILURES_MAX = 20
"""How many wrong tokens and codes an address may send in a minute before it has to wait."""
RATE, BURST = 100.0, 400.0
"""Requests per second of one device, and how many unused ones it may save up."""
SAFE = ("GET", "HEAD", "OPTIONS")
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; manifest-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": CSP,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}


class Gate:
    """ASGI middleware. `public` are the paths that need no token, `names` the host names of this server."""

    def __init__(self, app: ASGIApp, tokens: Tokens, *, names: Iterable[str], public: Any, cookie: str) -> None:
        self.app = app
        self.tokens = tokens
        self.names = {name.lower() for name in names}
        self.public = public
        self.cookie = cookie
        self.secure = False
        """Whether browsers reach us over TLS; then the cookie is sent over nothing else."""
        self._failures: dict[str, list[float]] = {}
        self._buckets: dict[str, tuple[float, float]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            return await self.app(scope, receive, send)
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        try:
            self._admit(scope, headers)
        except RequestRefused as refused:
            if scope["type"] == "websocket":
                await receive()
                return await send({"type": "websocket.close", "code": 1008, "reason": refused.message[:120]})
            return await failure(refused)(scope, receive, _hardened(send))
        if scope["type"] == "websocket":
            return await self.app(scope, receive, send)
        await self.app(scope, _bounded(receive), _hardened(send))

    def _admit(self, scope: Scope, headers: dict[str, str]) -> None:
        self._check_host(headers)
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > BODY_MAX:
            raise RequestRefused(413, "too_large", f"a request has at most {BODY_MAX} bytes")
        device, by_cookie = self._device(scope, headers)
        self._check_origin(scope, headers, by_cookie)
        if device is None and not self.public(scope["path"]):
            raise RequestRefused(
                401, "unauthorized", "a token is needed", hint="`treadle serve --link` prints a link to open"
            )
        if device is not None:
            self._take_turn(device)
        scope["device"] = device

    def _check_host(self, headers: dict[str, str]) -> None:
        name = host_of(headers.get("host", ""))
        if name.lower() not in self.names:
            raise RequestRefused(
                421, "wrong_host", f"{name[:80]!r} is not a name of this server", hint="--name NAME adds one"
            )

    def _check_origin(self, scope: Scope, headers: dict[str, str], by_cookie: bool) -> None:
        """A sender of an origin is a browser, and only our own pages may use this server; only they may use a
        cookie.
        """
        origin = headers.get("origin")
        site = headers.get("sec-fetch-site", "same-origin" if not by_cookie else "")
        if origin is not None:
            if (
                origin == "null"
                or host_of(origin.partition("://")[2]).lower() not in self.names
                or not _same_port(origin, headers.get("host", ""))
            ):
                raise RequestRefused(403, "wrong_origin", f"pages of {origin[:80]!r} may not use this server")
        elif scope["type"] == "websocket" and by_cookie:
            raise RequestRefused(
                403, "wrong_origin", "a browser says where a WebSocket comes from, and this one did not"
            )
        if site == "cross-site" and scope.get("method", "GET") not in SAFE:
            raise RequestRefused(403, "wrong_origin", "pages of another site may not use this server")
        if by_cookie and origin is None and scope.get("method", "GET") not in SAFE and site != "same-origin":
            raise RequestRefused(
                403, "wrong_origin", "with a cookie, a request that changes something says where it is from"
            )

    def _device(self, scope: Scope, headers: dict[str, str]) -> tuple[Device | None, bool]:
        kind, _, token = headers.get("authorization", "").partition(" ")
        by_cookie = False
        if kind.lower() != "bearer" or not token:
            token = self._cookie(headers.get("cookie", ""))
            by_cookie = bool(token)
        if not token:
            return None, False
        address = address_of(scope)
        self.check_failures(address)
        found = self.tokens.check(token)
        if found is None:
            self.note_failure(address)
            if by_cookie:  # the token was revoked: the page says so and asks for a new link
                return None, True
            raise RequestRefused(401, "unauthorized", "this token is not known here, or was taken back")
        return found, by_cookie

    def _cookie(self, text: str) -> str:
        try:
            found = SimpleCookie(text).get(self.cookie)
        except CookieError:
            return ""
        return found.value if found else ""

    def _take_turn(self, device: Device) -> None:
        now = time.monotonic()
        left, at = self._buckets.get(device.id, (BURST, now))
        left = min(BURST, left + (now - at) * RATE) - 1
        self._buckets[device.id] = (max(0.0, left), now)
        if left < 0:
            raise RequestRefused(429, "too_many", "too many requests from this device", after=1)

    def check_failures(self, address: str) -> None:
        recent = [at for at in self._failures.get(address, ()) if time.monotonic() - at < 60]
        if len(recent) >= FAILURES_MAX:
            raise RequestRefused(429, "too_many", "too many wrong tokens from this address", after=60)

    def note_failure(self, address: str) -> None:
        if len(self._failures) > 10_000:
            self._failures.clear()
        recent = [at for at in self._failures.get(address, ()) if time.monotonic() - at < 60]
        self._failures[address] = [*recent, time.monotonic()]


def host_of(text: str) -> str:
    """The name in `name:port` or `[address]:port`."""
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.rpartition(":")[0] if ":" in text else text


def _same_port(origin: str, host: str) -> bool:
    scheme, _, there = origin.partition("://")
    default = {"http": "80", "https": "443"}.get(scheme, "")
    return _port(there, default) == _port(host, default)


def _port(text: str, default: str) -> str:
    rest = text.rpartition("]")[2]
    return rest.partition(":")[2] or default


def address_of(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else "local"


def own_names(host: str, names: Iterable[str]) -> set[str]:
    """The names by which browsers may reach a server that listens on this address."""
    found = {*names, host}
    try:
        if ipaddress.ip_address(host).is_loopback:
            found |= {"localhost", "127.0.0.1", "::1"}
    except ValueError:
        pass
    return {name for name in found if name and name not in ("0.0.0.0", "::")}


def _hardened(send: Send) -> Send:
    async def hardened(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = {name for name, _ in message["headers"]}
            more = [(name.encode(), value.encode()) for name, value in HEADERS.items() if name.encode() not in given]
            if b"cache-control" not in given:
                more.append((b"cache-control", b"no-store"))
            message = {**message, "headers": [*message["headers"], *more]}
        await send(message)

    return hardened


def _bounded(receive: Receive) -> Receive:
    """Count a body without a stated length as it comes; it has to come in time."""
    seen = 0

    async def bounded() -> Message:
        nonlocal seen
        message = await receive()
        if message["type"] == "http.request":
            seen += len(message.get("body", b""))
            if seen > BODY_MAX:
                raise RequestRefused(413, "too_large", f"a request has at most {BODY_MAX} bytes")
        return message

    return bounded
