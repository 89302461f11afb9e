"""The ledger server over Streamable HTTP: loopback only, with a token, one session for each client that initializes.

Every answer is plain JSON; the server never sends anything unasked, so there is no event stream.
"""

import hmac
import secrets
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from treadle.coordination.mcp import Server
from treadle.wire.common.jsonrpc import reply
from treadle.wire.common.jsontext import loads

PATH = "/mcp"
BODY_CAP = 16 * 1024 * 1024
MAX_SESSIONS = 256
SESSION_SECONDS = 1800.0
"""A client that has not been heard from for this long is considered gone."""
_LOOPBACK = {"127.0.0.1", "localhost", "::1"}


class Sessions:
    """The connected clients by session id; those that are silent for long, or over the limit, are dropped."""

    def __init__(self, make: Callable[[], Server]) -> None:
        self._make = make
        self._lock = threading.Lock()
        """Around the table only. Each session has a lock of its own, under which its calls run one after the other: a
        server remembers its client between calls, and a slow call holds up no other client."""
        self._open: dict[str, tuple[Server, threading.Lock, float]] = {}

    def begin(self) -> str:
        name = secrets.token_urlsafe(24)
        server = self._make()
        now = time.monotonic()
        with self._lock:
            by_age = sorted(self._open, key=lambda known: self._open[known][2])
            for known in by_age:
                if len(self._open) >= MAX_SESSIONS or now - self._open[known][2] > SESSION_SECONDS:
                    self._open.pop(known)[0].close()
            self._open[name] = (server, threading.Lock(), now)
        return name

    def find(self, name: str) -> tuple[Server, threading.Lock] | None:
        with self._lock:
            known = self._open.get(name)
            if known is None:
                return None
            self._open[name] = (known[0], known[1], time.monotonic())
            return known[0], known[1]

    def end(self, name: str) -> bool:
        with self._lock:
            known = self._open.pop(name, None)
        if known is not None:
            known[0].close()
        return known is not None

    def end_all(self) -> None:
        for name in list(self._open):
            self.end(name)


class HttpListener(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, make: Callable[[], Server], token: str, port: int = 0) -> None:
        self.sessions = Sessions(make)
        self.token = token
        super().__init__(("127.0.0.1", port), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}{PATH}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore a client that resets its connection; report anything else as usual."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]

    def server_close(self) -> None:
        super().server_close()
        self.sessions.end_all()


class Handler(BaseHTTPRequestHandler):
    server: HttpListener
    protocol_version = "HTTP/1.1"
    server_version = "heimdall-ledger-mcp"
    sys_version = ""
    timeout = 30.0

    def do_POST(self) -> None:
        if not self._allowed():
            return
        body = self._body()
        if body is None:
            return
        name = self.headers.get("Mcp-Session-Id", "")
        began = not name and _is_initialize(body)
        if began:
            name = self.server.sessions.begin()
        found = self.server.sessions.find(name) if name else None
        if found is None:
            return self._say(404 if name else 400, b"no such session: initialize first\n")
        session, lock = found
        with lock:
            answer = reply(body, session.handle)
        headers = {"Mcp-Session-Id": name} if began else {}
        if answer is None:
            return self._say(202, b"", headers)
        self._say(200, answer.encode(), {**headers, "Content-Type": "application/json"})

    def do_DELETE(self) -> None:
        if self._allowed() and self._body() is not None:
            ended = self.server.sessions.end(self.headers.get("Mcp-Session-Id", ""))
            self._say(204 if ended else 404, b"")

    def do_GET(self) -> None:
        if self._allowed() and self._body() is not None:
            self._say(405, b"this server sends no events of its own\n", {"Allow": "POST, DELETE"})

    def _body(self) -> bytes | None:
        """The request body, always read to its end, so that the next request on the connection can be found."""
        length = self.headers.get("Content-Length", "0")
        known = length.isdecimal() and len(length) < 18 and "Transfer-Encoding" not in self.headers
        if not known or int(length) > BODY_CAP:
            self.close_connection = True
            self._say(413 if known else 411, b"send a Content-Length of at most 16 MiB\n")
            return None
        return self.rfile.read(int(length))

    def _allowed(self) -> bool:
        """Only from this machine, only with the token, and not from another site's page in a browser.

        Checked before the body, so that no one without a token can make us read anything.
        """
        refused: tuple[int, bytes, dict[str, str]] | None = None
        if urlsplit(self.path).path != PATH:
            refused = 404, f"the server is at {PATH}\n".encode(), {}
        elif not _is_loopback(f"//{self.headers.get('Host', '')}") or not _is_loopback(
            self.headers.get("Origin", "//localhost")
        ):
            refused = 403, b"only from this machine\n", {}
        elif not self._has_token():
            refused = 401, b"the token is missing or wrong\n", {"WWW-Authenticate": "Bearer"}
        if refused is None:
            return True
        self.close_connection = True
        self._say(*refused)
        self._discard_input()
        return False

    def _has_token(self) -> bool:
        """The scheme's name is case-insensitive (RFC 9110, section 11.1); the token must match exactly."""
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        right = hmac.compare_digest(token.strip().encode(errors="replace"), self.server.token.encode())
        return right and scheme.lower() == "bearer"

    def _discard_input(self) -> None:
        """Read what has arrived, so that closing does not reset the connection before the answer is read."""
        self.connection.settimeout(0)
        try:
            self.connection.recv(64 * 1024)
        except OSError:
            pass

    def _say(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Log nothing: the audit trail has what was done."""


def _is_loopback(url: str) -> bool:
    try:
        return urlsplit(url).hostname in _LOOPBACK
    except ValueError:
        return False


def _is_initialize(body: bytes) -> bool:
    try:
        value = loads(body)
    except ValueError:
        return False
    return isinstance(value, dict) and value.get("method") == "initialize"
