"""The checks that every request passes before anything is done for it.

The name in `Host` must be one of ours, so that a page whose name was made to point here (DNS rebinding) cannot read
us. A request that a browser sends from another page's origin is refused, also for WebSockets. Everything but the
page's own files needs a script's token, or a page's cookie together with the proof that only pages of our origin can
read. No answer may be framed, sniffed or cached, nor run anything from elsewhere.
"""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import re
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
"""How often an address may send the same wrong token or code in a minute before it has to wait with it."""
GUESSES_MAX = 200
"""How many wrong ones an address may send in a minute in all. What is right always passes: the programs of a machine
share an address, and one of them must not shut out the others."""
PROOF_HEADER = "x-treadle-proof"
PROTOCOL = "treadle"
"""What a page asks for when it opens a WebSocket, together with `treadle.proof.PROOF`: it can set no header there."""
_PROOF_PROTOCOL = f"{PROTOCOL}.proof."
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::([0-9]{1,5}))?")
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

    def __init__(
        self,
        app: ASGIApp,
        tokens: Tokens,
        *,
        names: Iterable[str],
        public: Any,
        cookie: str,
        secure: bool = False,
        hint: str = "`treadle serve --link` prints a link to open",
        message_max: int = 64 * 1024,
    ) -> None:
        self.app = app
        self.tokens = tokens
        self.names = {name.lower() for name in names}
        self.public = public
        self.hint = hint
        """What to do without a token."""
        self.message_max = message_max
        """The largest message over a WebSocket."""
        self.cookie = f"__Host-{cookie}" if secure else cookie
        self.secure = secure
        """Whether browsers reach us over TLS; then the cookie is sent over nothing else, and set by no one else."""
        self._failures: dict[tuple[str, str], list[float]] = {}
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
            raise RequestRefused(401, "unauthorized", "a token is needed", hint=self.hint)
        if device is not None:
            self._take_turn(device)
        scope["device"] = device

    def _check_host(self, headers: dict[str, str]) -> None:
        given = headers.get("host", "")
        if host_of(given).lower() not in self.names:
            raise RequestRefused(
                421, "wrong_host", f"{given[:80]!r} is not a name of this server", hint="--name NAME adds one"
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
            raise RequestRefused(403, "wrong_origin", "the WebSocket request has no Origin header")
        if site == "cross-site" and scope.get("method", "GET") not in SAFE:
            raise RequestRefused(403, "wrong_origin", "pages of another site may not use this server")
        if by_cookie and origin is None and scope.get("method", "GET") not in SAFE and site != "same-origin":
            raise RequestRefused(403, "wrong_origin", "a changing request with a cookie needs an Origin header")

    def _device(self, scope: Scope, headers: dict[str, str]) -> tuple[Device | None, bool]:
        token = _token(headers.get("authorization", ""))
        if token:
            found = self.tokens.check(token)
            if found is None:
                self.note_failure(address_of(scope), token)
                raise RequestRefused(401, "unauthorized", "this token is not known here, or was revoked")
            return found, False
        cookie = self._cookie(headers.get("cookie", ""))
        if not cookie:
            return None, False
        proof = _proof(headers)
        found = self.tokens.check_page(cookie, proof)
        if found is None and proof:  # without a proof it is a request for a file of the page, or of another port's page
            self.note_failure(address_of(scope), cookie + proof)
        return found, True  # None: the device was revoked, and the page says so and asks for a new link

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

    def note_failure(self, address: str, secret: str) -> None:
        """Count a wrong token or code, and refuse it differently when there were too many."""
        now = time.monotonic()
        if len(self._failures) > 10_000:
            self._failures = {key: times for key, times in self._failures.items() if now - times[-1] < 60}
        if len(self._failures) > 20_000:
            self._failures.clear()
        digest = hashlib.sha256(secret.encode()).hexdigest()
        for key, most in (((address, digest), FAILURES_MAX), ((address, ""), GUESSES_MAX)):
            recent = [at for at in self._failures.get(key, ()) if now - at < 60][-most:]
            self._failures[key] = [*recent, now]
            if len(recent) >= most:
                raise RequestRefused(429, "too_many", "too many wrong tokens from this address", after=60)


def host_of(text: str) -> str:
    """The name in `name:port` or `[address]:port`; empty for anything else, which is no name of ours."""
    found = _HOST.fullmatch(text)
    return (found[1] or found[2]) if found else ""


def _token(authorization: str) -> str:
    """A script's token, as it is or as the password in an address: `http://x:TOKEN@host`. We never ask a browser for a
    password, so it never sends one by itself."""
    kind, _, value = authorization.partition(" ")
    if kind.lower() == "bearer":
        return value
    if kind.lower() != "basic":
        return ""
    try:
        return base64.b64decode(value, validate=True).decode().partition(":")[2]
    except ValueError:
        return ""


def _proof(headers: dict[str, str]) -> str:
    offered = (each.strip() for each in headers.get("sec-websocket-protocol", "").split(","))
    by_protocol = next((each for each in offered if each.startswith(_PROOF_PROTOCOL)), "")
    return headers.get(PROOF_HEADER, "") or by_protocol.removeprefix(_PROOF_PROTOCOL)


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
