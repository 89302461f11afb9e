"""The server: with this machine's fleet if there is one, and always with its terminals."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Protocol

from starlette.applications import Starlette
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route, WebSocketRoute

from treadle.io.within import end_tasks
from treadle.serve import files, local_ca
from treadle.serve.api import agentapi, all_calls, answer_links, calls, devices, metrics, openapi, shares
from treadle.serve.connections import SignalledServer, make_config
from treadle.serve.envelope import broken, not_routed
from treadle.serve.gate import Gate
from treadle.serve.listening import Listening
from treadle.serve.live import stream
from treadle.serve.live.socket import Tab
from treadle.serve.local_ca import LocalAuthority
from treadle.serve.notify.notices import Notices
from treadle.serve.site import Site
from treadle.serve.tokens import Tokens

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
        tokens: Tokens | None = None,
        notify: tuple[str, ...] = (),
        authority: LocalAuthority | None = None,
    ) -> None:
        self.site = Site(address, terminals, tokens or Tokens())
        self.notices = Notices(self.site, notify)
        self._authority = authority
        self._files = files.load()
        port = address.rpartition(":")[2] if address.rpartition(":")[2].isdigit() else "443"
        refusing: Any = {404: not_routed, 405: not_routed, Exception: broken}
        app = Starlette(routes=self._routes(), lifespan=None, exception_handlers=refusing)
        secure = address.startswith("https:")
        cookie = f"treadle_{port}"
        self.gate = Gate(app, self.site.tokens, names=names, public=self._public, cookie=cookie, secure=secure)

    def _routes(self) -> list[Any]:
        site, document = self.site, openapi.document()

        async def page(request: Any) -> Any:
            return self._files[request.scope["path"]].response(request)

        async def health(request: Any) -> Any:
            return PlainTextResponse("ok\n")

        async def ready(request: Any) -> Any:
            state = site.fleet.state()
            return JSONResponse(state, 200 if state["state"] in ("up", "none") else 503)

        async def figures(request: Any) -> Any:
            text = await metrics.text(site.fleet, len(site.tabs))
            return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

        async def described(request: Any) -> Any:
            return JSONResponse(document)

        async def sign_in(request: Any) -> Any:
            return await devices.sign_in(self.gate, request)

        async def watch_shared(request: Any) -> Any:
            return await shares.watch(site, self.gate, request)

        async def follow(socket: Any) -> None:
            await Tab(site, socket).run()

        return [
            *[Route(path, page) for path in self._files],
            Route("/healthz", health),
            Route("/readyz", ready),
            Route("/metrics", figures),
            Route("/openapi.json", described),
            Route("/ca", partial(local_ca.explain, self._authority)),
            Route("/ca.crt", partial(local_ca.download, self._authority)),
            Route("/login", sign_in, methods=["POST"]),
            Route(
                "/a/{order}/{number}/{decision}/{expires}/{signature}",
                partial(answer_links.link, site),
                methods=["GET", "POST"],
            ),
            Route(shares.STREAM, watch_shared),
            *agentapi.routes(site),
            Route(f"{calls.BASE}/changes", partial(stream.changes, site)),
            Route(f"{calls.BASE}/orders/{{id}}/stream", partial(stream.events, site)),
            WebSocketRoute("/socket", follow),
            *calls.routes(site, all_calls.every()),
        ]

    def _public(self, path: str) -> bool:
        return path in self._files or path in (*PUBLIC, shares.STREAM) or path.startswith("/a/")

    async def start(self) -> None:
        self.site.board.start()
        self.site.start_task(self._join())

    async def _join(self) -> None:
        await self.site.fleet.join((self.site.board.on_state, self.notices.on_state))
        self.site.board.wake()

    async def close(self) -> None:
        await self.site.close()


class Servable(Protocol):
    """What `run` serves."""

    gate: Gate

    async def start(self) -> None: ...

    async def close(self) -> None: ...


async def run(
    server: Servable, listening: Listening, ready: asyncio.Event | None = None, *, heeds_signals: bool = True
) -> int:
    """Serve until cancelled or told to stop by a signal, which is returned."""
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    config = make_config(server.gate, listening)
    uvicorn_server = SignalledServer(config, heeds_signals=heeds_signals)
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
async def served(
    server: Servable, listening: Listening, *, heeds_signals: bool = True
) -> AsyncIterator[asyncio.Task[int]]:
    """Serve inside the `async with`. The task ends with the server; an error that prevents its start is raised.
    A program that does more than serve heeds the signals itself."""
    ready = asyncio.Event()
    serving = asyncio.create_task(run(server, listening, ready, heeds_signals=heeds_signals))
    waiting = asyncio.create_task(ready.wait())
    try:
        await asyncio.wait({serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if not ready.is_set():
            await serving
        yield serving
    finally:
        await end_tasks(serving, waiting)
