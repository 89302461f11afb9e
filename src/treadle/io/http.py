"""An HTTP client with streamed answers, and the proxy that it goes through. `h11` reads and writes HTTP/1.1, asyncio
handles the sockets.

    async with client.request("POST", url, body) as response:
        async for chunk in response.chunks(): ...

It is small because loading a larger library took most of a short run's time: 25 ms of CPU and 1 MB beyond an empty
asyncio loop, where httpx2 took 144 ms and 10.9 MB, aiohttp 178 ms and 14 MB. httptools is quicker, but would put a
compiled parser into the process that holds the keys; clients in Rust and C bring threads that do not survive a fork,
and certificates of their own.

It keeps no cookies and speaks no HTTP/2: model services stream one answer for each request, and all of them offer
HTTP/1.1. It follows no redirects: a caller that may be led elsewhere asks again (`Response.moved_to`).
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
import zlib
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import SplitResult, unquote, urlsplit

import h11

if TYPE_CHECKING:
    import ssl


# Finds the HTTP proxy for a host, from the environment and, on macOS, the system settings.
#
# Nothing is loaded if no proxy is set: the standard library's functions for this come with its HTTP client.


def proxy_for(url: SplitResult) -> SplitResult | None:
    """The proxy for `url`; None for a direct connection."""
    if sys.platform != "darwin" and not any(name.lower().endswith("_proxy") for name in os.environ):
        return None
    from urllib.request import getproxies, proxy_bypass

    known = getproxies()
    named = known.get(url.scheme) or known.get("all")
    host = url.hostname or ""
    if not named or proxy_bypass(host) or _within(host, known.get("no", "")):
        return None
    return urlsplit(named if "://" in named else f"http://{named}")


def _within(host: str, exempt: str) -> bool:
    """Whether the host is an address in one of the networks in `NO_PROXY`, which the standard library ignores."""
    import ipaddress  # only a proxy needs it

    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    for word in exempt.split(","):
        try:
            if address in ipaddress.ip_network(word.strip(), strict=False):
                return True
        except ValueError:
            continue
    return False


T = TypeVar("T")
CHUNK = 64 * 1024
LARGEST_HEAD = 100 * 1024
REUSE_SECONDS = 30.0
"""How long an idle connection may be reused: many services close one that is idle for a minute."""
LINGER = 0.25
"""Seconds to wait for the end of a body whose content is all here, so that the next request reuses the connection."""
UNPACKED = 1024 * 1024
"""How many bytes of a compressed chunk are unpacked at a time."""
REDIRECTS = (301, 302, 303, 307, 308)


class HttpError(Exception):
    """A request that got no complete answer."""


class BadAddress(HttpError):
    """The URL of the service or of the proxy cannot be used."""


class CannotConnect(HttpError):
    """No connection was made, so nothing was sent."""


class WrongPeer(CannotConnect):
    """Nor will one be: there is no such name, or who answers is not the one that it names."""


def _stays(error: Exception) -> bool:
    import socket
    import ssl

    unknown = isinstance(error, socket.gaierror) and error.errno == socket.EAI_NONAME
    return unknown or isinstance(error, (UnicodeError, ssl.SSLCertVerificationError))


class TooSilent(HttpError):
    """Nothing arrived within the time limit."""


class BrokenAnswer(HttpError):
    """The connection broke, or what arrived was not HTTP."""


class StaleConnection(BrokenAnswer):
    """A kept connection was closed without a word of an answer, most likely before the service saw this request."""


class HttpClient:
    """Connections to services.

    `direct`: use no proxy. `socket`: connect to this Unix socket whatever the address. `pinned`: connect to this IP
    address, without a proxy, under the name in the URL. `tls`: checks certificates in place of the system's.
    """

    def __init__(
        self,
        headers: Mapping[str, str],
        *,
        connect_seconds: float,
        idle_seconds: float,
        direct: bool = False,
        socket: str = "",
        pinned: str = "",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._headers = headers
        self._connect_seconds = connect_seconds
        self._idle_seconds = idle_seconds
        self._direct = direct or bool(pinned)
        self._pinned = pinned
        self._socket = socket
        self._tls = tls
        self._idle: list[HttpConnection] = []

    @asynccontextmanager
    async def request(
        self, method: str, url: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[Response]:
        """`headers`: those of this request, beside the client's own."""
        parts = _address(url)
        fields = {**self._headers, **(headers or {})}
        connection = await self._connection(parts)
        try:
            try:
                response = await connection.ask(method, parts, fields, body)
            except StaleConnection:
                connection.abort()
                connection = await self._new_connection(parts)
                response = await connection.ask(method, parts, fields, body)
            yield response
        except BaseException:
            connection.abort()
            raise
        if connection.reusable():
            self._idle.append(connection)
        else:
            connection.abort()

    async def aclose(self) -> None:
        idle, self._idle = self._idle, []
        for connection in idle:
            await connection.close()

    def abort(self) -> None:
        """Close all that is idle at once."""
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.abort()

    async def _connection(self, parts: SplitResult) -> HttpConnection:
        wanted = (parts.scheme, parts.netloc)
        while self._idle:
            connection = self._idle.pop()
            if connection.target == wanted and connection.fresh():
                return connection
            connection.abort()
        return await self._new_connection(parts)

    async def _new_connection(self, parts: SplitResult) -> HttpConnection:
        proxy = None if self._direct or self._socket else proxy_for(parts)
        try:
            async with asyncio.timeout(self._connect_seconds):
                return await self._connect(parts, proxy)
        except TimeoutError:
            raise CannotConnect(f"no connection within {self._connect_seconds:g} s") from None
        except (OSError, UnicodeError) as error:  # an impossible host name raises UnicodeError
            kind = WrongPeer if _stays(error) else CannotConnect
            raise kind(getattr(error, "strerror", None) or str(error) or type(error).__name__) from error

    async def _connect(self, parts: SplitResult, proxy: SplitResult | None) -> HttpConnection:
        to = proxy or parts
        if to.scheme not in ("http", "https") or not to.hostname:
            raise BadAddress(f"the proxy {to.scheme}://{to.hostname} is not an HTTP proxy")
        if self._socket:
            reader, writer = await asyncio.open_unix_connection(self._socket)
        else:
            secure = self._context() if to.scheme == "https" else None
            host = self._pinned or to.hostname
            name = to.hostname if secure else None
            reader, writer = await asyncio.open_connection(host, _port(to), ssl=secure, server_hostname=name)
        connection = HttpConnection(reader, writer, (parts.scheme, parts.netloc), self._idle_seconds)
        if proxy is not None and parts.scheme == "http":
            connection.proxy = proxy
        elif proxy is not None:
            try:
                await connection.tunnel(parts, proxy, self._context())
            except BaseException:
                connection.abort()
                raise
        return connection

    def _context(self) -> ssl.SSLContext:
        """A context with the system's certificates."""
        if self._tls is None:
            import ssl

            import truststore

            self._tls = truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        return self._tls


class HttpConnection:
    """One connection and the state of its conversation."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: tuple[str, str], idle: float
    ) -> None:
        self.target = target
        self.proxy: SplitResult | None = None
        self._reader = reader
        self._writer = writer
        self._idle = idle
        self._since = time.monotonic()
        self._reused = self._heard = False
        """Whether it has served a request before, and whether anything came for this one."""
        self._ended: h11.EndOfMessage | None = None
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=LARGEST_HEAD)

    async def ask(self, method: str, parts: SplitResult, headers: Mapping[str, str], body: bytes) -> Response:
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        fields = {"host": _host(parts), **{name.lower(): value for name, value in headers.items()}}
        if parts.username is not None:
            fields.setdefault("authorization", _basic(parts))
        if body:
            fields["content-length"] = str(len(body))
        if self.proxy is not None:
            path = f"{parts.scheme}://{_host(parts)}{path}"
            if self.proxy.username is not None:
                fields["proxy-authorization"] = _basic(self.proxy)
        try:
            await self._send(method, path, list(fields.items()), body)
            return Response(self, await self._head())
        except BrokenAnswer as error:
            if self._reused and not self._heard:
                raise StaleConnection(str(error)) from error
            raise

    async def tunnel(self, parts: SplitResult, proxy: SplitResult, tls: ssl.SSLContext) -> None:
        """Ask the proxy for a tunnel to the service, then speak TLS with the service."""
        target = f"{parts.hostname}:{_port(parts)}" if ":" not in (parts.hostname or "") else _host(parts)
        headers = [("host", target)] + ([("proxy-authorization", _basic(proxy))] if proxy.username is not None else [])
        await self._send("CONNECT", target, headers, None)
        answer = await self._head()
        if answer.status_code >= 300:
            raise CannotConnect(f"the proxy {_host(proxy)} answered {answer.status_code}")
        await self._writer.start_tls(tls, server_hostname=parts.hostname)
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=LARGEST_HEAD)

    async def body(self) -> bytes:
        """What has arrived of the body so far; `b""` at its end."""
        parts: list[bytes] = []
        while True:
            event = self._next()
            if isinstance(event, h11.Data):
                parts.append(bytes(event.data))
            elif parts or isinstance(event, h11.EndOfMessage):
                return b"".join(parts)  # the next call reports the end
            elif event is h11.NEED_DATA:
                await self._more()
            else:
                raise BrokenAnswer("the connection was closed before the answer was whole")

    def _next(self) -> h11.Event | type:
        if self._ended is not None:
            return self._ended
        try:
            event = self._http.next_event()
        except h11.RemoteProtocolError as error:
            raise BrokenAnswer(str(error)) from error
        if isinstance(event, h11.EndOfMessage):
            self._ended = event
        return event

    async def _more(self) -> None:
        try:
            data = await self._within_idle_limit(self._reader.read(CHUNK))
            self._heard = self._heard or bool(data)
            self._http.receive_data(data)
        except h11.RemoteProtocolError as error:
            raise BrokenAnswer(str(error)) from error

    def fresh(self) -> bool:
        """Whether the connection is probably still open."""
        return time.monotonic() < self._since + REUSE_SECONDS and not self._reader.at_eof()

    def reusable(self) -> bool:
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        self._ended, self._reused, self._heard = None, True, False
        self._since = time.monotonic()
        return True

    async def close(self) -> None:
        self._writer.close()
        try:
            await self._within_idle_limit(self._writer.wait_closed())
        except (HttpError, OSError):
            pass  # it is closed anyway

    def abort(self) -> None:
        """Close the connection at once, without a goodbye."""
        self._writer.transport.abort()

    async def _head(self) -> h11.Response:
        while not isinstance(event := self._next(), h11.Response):
            if event is h11.NEED_DATA:
                await self._more()
            elif not isinstance(event, h11.InformationalResponse):
                raise BrokenAnswer("the connection was closed before an answer came")
        return event

    async def _send(self, method: str, target: str, headers: list[tuple[str, str]], body: bytes | None) -> None:
        try:
            fields = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
            request = h11.Request(method=method, target=target.encode("latin-1"), headers=fields)
            data = self._http.send(request) or b""
            if body is not None:
                data += (self._http.send(h11.Data(data=body)) or b"") + (self._http.send(h11.EndOfMessage()) or b"")
            else:
                self._http.send(h11.EndOfMessage())
        except (h11.LocalProtocolError, UnicodeError):  # the error's own text may hold a key
            raise BadAddress("its address or a header holds what HTTP cannot carry") from None
        self._writer.write(data)
        await self._within_idle_limit(self._writer.drain())

    async def _within_idle_limit(self, doing: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(self._idle):
                return await doing
        except TimeoutError:
            raise TooSilent(f"nothing for {self._idle:g} s") from None
        except OSError as error:
            raise BrokenAnswer(error.strerror or str(error) or type(error).__name__) from error


class Response:
    def __init__(self, connection: HttpConnection, head: h11.Response) -> None:
        self.status = head.status_code
        self.fields: list[tuple[bytes, bytes]] = [(bytes(name), bytes(value)) for name, value in head.headers]
        """The headers one by one, as they came."""
        self.headers: dict[str, str] = {}
        for name, value in head.headers:
            key, text = name.decode("ascii"), value.decode("latin-1")
            self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text
        self._connection = connection

    @property
    def moved_to(self) -> str:
        """The address that a redirect leads to, which may be relative; empty for any other answer."""
        return self.headers.get("location", "") if self.status in REDIRECTS else ""

    async def raw(self) -> AsyncIterator[bytes]:
        """The body as it arrives, packed as the service sent it."""
        while data := await self._connection.body():
            yield data

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives, unpacked if the service compressed it unasked."""
        packed = self.headers.get("content-encoding", "identity").strip().lower()
        if packed not in ("identity", "", "gzip", "x-gzip", "deflate"):
            raise BadAddress(f"the answer is packed as {packed}, which was not requested")
        unpack = zlib.decompressobj(zlib.MAX_WBITS | 32) if packed not in ("identity", "") else None
        async for data in self.raw():
            if unpack is None:
                yield data
            while unpack is not None and data:
                try:
                    yield unpack.decompress(data, UNPACKED)
                except zlib.error as error:
                    raise BrokenAnswer(f"the answer is not {packed}: {error}") from error
                data = unpack.unconsumed_tail

    async def beginning(self, most: int) -> bytes:
        """The body, or the first `most` bytes of a longer one."""
        body = bytearray()
        async for chunk in self.chunks():
            body += chunk
            if len(body) >= most:
                break
        return bytes(body[:most])

    async def whole(self, most: int) -> bytes:
        """The body. Raises BrokenAnswer if it is longer than `most` bytes."""
        body = await self.beginning(most + 1)
        if len(body) > most:
            raise BrokenAnswer(f"the answer has more than {most} bytes")
        return body

    async def linger(self, chunks: AsyncIterator[bytes]) -> None:
        """After the last chunk of interest, wait a little for the end of the body, so that the connection is reused."""
        try:
            async with asyncio.timeout(LINGER):
                async for _ in chunks:
                    return
        except (TimeoutError, HttpError):
            pass  # what was wanted is here: only the connection is lost


def _address(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise BadAddress(str(error)) from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadAddress(f"{parts.scheme}://{parts.hostname or ''} is not an address of http or https")
    return parts


def _port(parts: SplitResult) -> int:
    return parts.port or (443 if parts.scheme == "https" else 80)


def _host(parts: SplitResult) -> str:
    return parts.netloc.rpartition("@")[2]


def _basic(parts: SplitResult) -> str:
    named = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    return f"Basic {b64encode(named.encode()).decode()}"
