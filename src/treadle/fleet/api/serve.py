"""The server: with this machine's fleet if there is one, and always with its terminals."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import ssl
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import treadle
from treadle.errors import ConfigError, MissingExtra, TreadleError
from treadle.fleet import client, places, tasks
from treadle.fleet.bus import Bus
from treadle.fleet.index import OrderIndex

if TYPE_CHECKING:
    from treadle.fleet.api.feed import Feed
    from treadle.fleet.api.local_ca import LocalAuthority
    from treadle.fleet.api.reviews import Merging
    from treadle.fleet.api.socket import Tab

log = logging.getLogger(__name__)

PORT = 7474
AGAIN_SECONDS = 2.0
IDLE_SECONDS = 15.0
"""A connection on which no request is completed for this long is closed, however slowly its bytes come."""
CONNECTIONS_MAX = 2000
PUBLIC = ("/login", "/healthz", "/readyz", "/ca", "/ca.crt")
"""Paths that need no token, besides the page's own files and answer links."""


class WebServer:
    """`address` is how browsers reach it: `https://fleet.example`."""

    def __init__(
        self,
        *,
        address: str,
        names: Iterable[str],
        terminals: str = "",
        tokens: Any = None,
        notify: tuple[str, ...] = (),
        authority: LocalAuthority | None = None,
    ) -> None:
        try:
            from starlette.applications import Starlette
        except ImportError:
            raise MissingExtra("the page and the HTTP interface", "fleet") from None
        from treadle.fleet.api import files
        from treadle.fleet.api.board import Board
        from treadle.fleet.api.gate import Gate
        from treadle.fleet.api.notices import Notices
        from treadle.fleet.api.order_terminals import TerminalFinder
        from treadle.fleet.api.screens import Screens
        from treadle.fleet.api.tokens import Tokens
        from treadle.terminal.places import default_directory

        self.address = address
        self.authority = authority
        self.user = client.me()
        self.version = treadle.__version__
        self.boot = secrets.token_hex(8)
        self.tokens = tokens or Tokens()
        self.terminals = terminals or default_directory()
        self.order_terminals = TerminalFinder(self)
        self.screens = Screens(self.order_terminals.find)
        self.bus: Bus | None = None
        self.index: OrderIndex | None = None
        self.feed: Feed | None = None
        self.problem = "starting"
        self.board = Board(self)
        self.notices = Notices(self, notify)
        self.tabs: set[Tab] = set()
        self.streams = 0
        self.merges: dict[str, Merging] = {}
        self.size_holders: dict[str, str] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._files = files.load()
        port = address.rpartition(":")[2] if address.rpartition(":")[2].isdigit() else "443"
        app = Starlette(routes=self._routes(), lifespan=None)
        self.gate = Gate(app, self.tokens, names=names, public=self._public, cookie=f"treadle_{port}")
        self.gate.secure = address.startswith("https:")

    # What is served...

    def _routes(self) -> list[Any]:
        from starlette.responses import JSONResponse, PlainTextResponse
        from starlette.routing import Route, WebSocketRoute

        from treadle.fleet.api import all_calls, answer_links, calls, devices, local_ca, openapi, stream
        from treadle.fleet.api.socket import Tab

        document = openapi.document()

        async def page(request: Any) -> Any:
            return self._files[request.scope["path"]].response(request)

        async def health(request: Any) -> Any:
            return PlainTextResponse("ok\n")

        async def ready(request: Any) -> Any:
            state = self.fleet_state()
            return JSONResponse(state, 200 if state["state"] in ("up", "none") else 503)

        async def figures(request: Any) -> Any:
            from treadle.fleet.api import metrics

            return PlainTextResponse(await metrics.text(self), media_type="text/plain; version=0.0.4")

        async def described(request: Any) -> Any:
            return JSONResponse(document)

        async def follow(socket: Any) -> None:
            await Tab(self, socket).run()

        return [
            *[Route(path, page) for path in self._files],
            Route("/healthz", health),
            Route("/readyz", ready),
            Route("/metrics", figures),
            Route("/openapi.json", described),
            Route("/ca", partial(local_ca.explain, self)),
            Route("/ca.crt", partial(local_ca.download, self)),
            Route("/login", partial(devices.sign_in, self), methods=["POST"]),
            Route(
                "/a/{order}/{number}/{decision}/{expires}/{signature}",
                partial(answer_links.link, self),
                methods=["GET", "POST"],
            ),
            Route(f"{calls.BASE}/changes", partial(stream.changes, self)),
            Route(f"{calls.BASE}/orders/{{id}}/stream", partial(stream.events, self)),
            WebSocketRoute("/socket", follow),
            *calls.routes(self, all_calls.every()),
        ]

    def _public(self, path: str) -> bool:
        return path in self._files or path in PUBLIC or path.startswith("/a/")

    # The fleet, when there is one...

    def fleet_bus(self) -> Bus:
        from treadle.fleet.api.envelope import RequestRefused

        if self.bus is None:
            raise RequestRefused(
                503, "no_fleet", f"there is no fleet to ask: {self.problem}", hint="`treadle fleet up`"
            )
        return self.bus

    def fleet_index(self) -> OrderIndex:
        self.fleet_bus()
        assert self.index is not None
        return self.index

    def fleet_state(self) -> dict[str, Any]:
        """`none`: in no fleet; `up`; `away`: its engine does not answer; `reading`: the index is being filled."""
        if self.bus is None:
            return {"state": "none" if self.problem.startswith("this machine belongs") else "away", "why": self.problem}
        if not self.bus.connected:
            return {"state": "away", "why": "the engine does not answer"}
        assert self.feed is not None
        return {"state": "up" if self.feed.caught_up.is_set() else "reading", "why": ""}

    def check_topic(self, name: str) -> None:
        if name.partition(":")[0] not in ("terminals", "screen", "board"):
            self.fleet_bus()

    async def _join(self) -> None:
        """Connect to this machine's fleet as soon as there is one."""
        from treadle.fleet.api.feed import Feed
        from treadle.fleet.searching import streams_of

        while True:
            try:
                fleet = places.load()
                bus = await Bus.connect(fleet.address(_role(fleet)), name="treadle serve")
                try:
                    index = await asyncio.to_thread(
                        OrderIndex, os.path.join(places.inside(), "index.sqlite"), await streams_of(bus)
                    )
                except BaseException:
                    await bus.close()
                    raise
                self.feed = Feed(bus, index)
                self.feed.on_state.add(self.board.on_state)
                self.feed.on_state.add(self.notices.on_state)
                self.bus, self.index, self.problem = bus, index, ""
                self.feed.start()
                self.board.wake()
                return
            except TreadleError as error:
                self.problem = str(error)
            await asyncio.sleep(AGAIN_SECONDS)

    # Living and dying...

    def start_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def start(self) -> None:
        self.board.start()
        self.start_task(self._join())

    async def close(self) -> None:
        await tasks.end(list(self._tasks))
        await self.board.close()
        if self.feed is not None:
            await self.feed.close()
        if self.bus is not None:
            await self.bus.close()
        if self.index is not None:
            self.index.close()
        self.screens.close()
        self.order_terminals.close()

    async def cut_off(self, device: str) -> None:
        """Close everything that a device with a revoked token has open."""
        for tab in list(self.tabs):
            if tab.socket.scope["device"].id == device:
                await tab.socket.close(4401, "this token was taken back")


def _role(fleet: places.Fleet) -> str:
    return "submit" if "submit" in fleet.users else fleet.widest()


class Listening:
    """Where a server listens, and how it is reached from there."""

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = PORT,
        unix: str = "",
        names: tuple[str, ...] = (),
        tls_cert: str = "",
        tls_key: str = "",
        local_ca: bool = False,
        behind_proxy: bool = False,
    ) -> None:
        from treadle.fleet.api import local_ca as authorities
        from treadle.fleet.api.gate import own_names

        self.host, self.unix = host, unix
        self.tls = (tls_cert, tls_key or tls_cert) if tls_cert else None
        self.behind_proxy = behind_proxy
        self.names = own_names("localhost" if unix else host, names)
        if unix:
            self.names |= {"localhost"}
        if not unix and not self.tls and not behind_proxy and not local_ca and not _loopback(host):
            raise ConfigError(
                f"{host} can be reached from other machines, and this would be plain text",
                hint="--tls-cert FILE, --local-ca, or --behind-proxy when a proxy on this machine does TLS",
            )
        if self.names:
            self.authority = authorities.ensure(self.names) if local_ca and not self.tls else None
            self.tls = (self.authority.certificate, self.authority.key) if self.authority else self.tls
        else:
            raise ConfigError("it is not known by which name browsers reach this server", hint="--name fleet.example")
        self.socket = _unix_socket(unix) if unix else _tcp_socket(host, port)
        self.port = 0 if unix else int(self.socket.getsockname()[1])

    @property
    def address(self) -> str:
        secure = self.tls is not None or self.behind_proxy
        name = next((each for each in sorted(self.names) if not _loopback(each)), "") or self.host
        name = f"[{name}]" if ":" in name else name
        if self.behind_proxy:
            return f"https://{name}"
        return f"{'https' if secure else 'http'}://{name}:{self.port}" if not self.unix else "http://localhost"


def _loopback(host: str) -> bool:
    import ipaddress

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _tcp_socket(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
    except OSError as error:
        made.close()
        raise ConfigError(
            f"cannot listen on {host}:{port}: {error.strerror}", hint="--port N, or 0 for any that is free"
        ) from None
    made.listen(512)
    return made


def _unix_socket(path: str) -> socket.socket:
    from treadle.io import sockets

    return sockets.listen(path, owned=True)


async def run(server: WebServer, listening: Listening, ready: asyncio.Event | None = None) -> int:
    """Serve until cancelled or told to stop by a signal, which is returned."""
    from treadle.fleet.api.connections import SignalledServer, make_config

    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    config = make_config(server, listening)
    uvicorn_server = SignalledServer(config)
    await server.start()
    serving = asyncio.create_task(uvicorn_server.serve([listening.socket]))
    try:
        while not uvicorn_server.started and not serving.done():
            await asyncio.sleep(0.005)
        if ready is not None:
            ready.set()
        await asyncio.shield(serving)
        return uvicorn_server.ended_by
    finally:
        # Not cancelled: it closes its listening sockets only when it ends by itself.
        uvicorn_server.should_exit = True
        await asyncio.gather(serving, return_exceptions=True)
        await server.close()
        listening.socket.close()


@asynccontextmanager
async def served(server: WebServer, listening: Listening) -> AsyncIterator[asyncio.Task[int]]:
    """Serve inside the `async with`. The task ends with the server; an error that prevents its start is raised."""
    ready = asyncio.Event()
    serving = asyncio.create_task(run(server, listening, ready))
    waiting = asyncio.create_task(ready.wait())
    try:
        await asyncio.wait({serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if not ready.is_set():
            await serving
        yield serving
    finally:
        waiting.cancel()
        serving.cancel()
        await asyncio.gather(serving, waiting, return_exceptions=True)


def tls_context(certificate: str, key: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"the certificate {certificate} cannot be used: {error}") from None
    return context
