"""The server: with this machine's fleet if there is one, and always with its terminals; the page's files, and limits on
connections.
"""

import asyncio
import gzip
import hashlib
import logging
import os
import re
import signal
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import cache, partial
from types import FrameType
from typing import Any, Protocol

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from uvicorn.protocols.http.h11_impl import H11Protocol

import treadle
from treadle.io.files import read
from treadle.io.tasks import end_tasks
from treadle.serve.api import calls, devices, machines, orders, terminals
from treadle.serve.api.calls import BASE, TABLE, ApiCall
from treadle.serve.api.terminals import STREAM, watch
from treadle.serve.envelope import JSON, PROBLEM, HttpProblem, broken, not_routed
from treadle.serve.gate import Gate
from treadle.serve.listening import Listening, tls_context
from treadle.serve.live.socket import Tab, changes, events
from treadle.serve.notify import notices
from treadle.serve.notify.notices import Notices
from treadle.serve.site import Site
from treadle.serve.tokens import Tokens

# The page's own files, read and compressed once. Only files in the list are served: no path is ever looked up.

KINDS = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "json": "application/json",
    "webmanifest": "application/manifest+json",
}


class WebFile:
    def __init__(self, name: str, data: bytes) -> None:
        self.kind = KINDS[name.rpartition(".")[2]]
        self.plain = data
        self.packed = gzip.compress(data, 9, mtime=0)
        self.tag = f'"{hashlib.sha256(data).hexdigest()[:20]}"'

    def response(self, request: Request) -> Response:
        headers = {"etag": self.tag, "cache-control": "no-cache", "vary": "accept-encoding"}
        if request.headers.get("if-none-match") == self.tag:
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(self.packed, headers={**headers, "content-encoding": "gzip"}, media_type=self.kind)
        return Response(self.plain, headers=headers, media_type=self.kind)


def load() -> dict[str, WebFile]:
    """Path -> file, for everything in `serve/web`."""
    found = {}
    directory = os.path.join(os.path.dirname(__file__), "web")
    for name in sorted(os.listdir(directory)):
        if name.rpartition(".")[2] in KINDS:
            found["/" + ("" if name == "index.html" else name)] = WebFile(name, read(os.path.join(directory, name)))
    return found


# Settings of the HTTP server, and connections that are closed when no request is completed on them.

IDLE_SECONDS = 15.0
"""A connection on which no request is completed for this long is closed, however slowly its bytes come."""
CONNECTIONS_MAX = 2000


class BoundedConnection(H11Protocol):
    """A connection that is closed when its bytes come too slowly: holding one open costs an attacker nothing."""

    idle_seconds = IDLE_SECONDS
    _checking: asyncio.TimerHandle | None = None
    _last: Any = None

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.access_log = False  # addresses of answer links are secrets, and handlers of the root logger would see them

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._check_later()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._checking is not None:
            self._checking.cancel()
        super().connection_lost(exc)

    def _check_later(self) -> None:
        self._checking = asyncio.get_running_loop().call_later(self.idle_seconds, self._check)

    def _check(self) -> None:
        if self.transport.get_protocol() is not self:  # it has become a WebSocket
            return
        busy = self.cycle is not None and not self.cycle.response_complete
        if not busy and self.cycle is self._last:
            self.transport.close()
            return
        self._last = self.cycle
        self._check_later()


def make_config(app: Any, listening: Listening, message_max: int = 64 * 1024) -> uvicorn.Config:
    config = uvicorn.Config(
        app,
        http=BoundedConnection,
        ws="websockets-sansio",
        ws_max_size=message_max,
        ws_per_message_deflate=False,  # its memory for each tab would exceed everything else here
        ws_ping_interval=20.0,
        ws_ping_timeout=20.0,
        lifespan="off",
        access_log=False,
        server_header=False,
        proxy_headers=listening.behind_proxy,
        forwarded_allow_ips="127.0.0.1",
        timeout_keep_alive=10,
        timeout_graceful_shutdown=2,
        limit_concurrency=CONNECTIONS_MAX,
        h11_max_incomplete_event_size=32 * 1024,
        log_config=None,
    )
    config.load()
    if listening.tls is not None:
        config.ssl = tls_context(*listening.tls)
    return config


class SignalledServer(uvicorn.Server):
    """Ends in order at a signal. Uvicorn's own server raises the signal again before others can clean up."""

    ended_by = 0

    def __init__(self, config: uvicorn.Config, *, heeds_signals: bool = True) -> None:
        super().__init__(config)
        self._heeds_signals = heeds_signals

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        if not self._heeds_signals:  # they are for the program around it
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.ended_by = self.ended_by or sig
        super().handle_exit(sig, frame)


PUBLIC = ("/login", "/healthz", "/readyz")
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
    ) -> None:
        self.site = Site(address, terminals, tokens or Tokens())
        self.notices = Notices(self.site, notify)
        self._files = load()
        port = address.rpartition(":")[2] if address.rpartition(":")[2].isdigit() else "443"
        refusing: Any = {404: not_routed, 405: not_routed, Exception: broken}
        app = Starlette(routes=self._routes(), lifespan=None, exception_handlers=refusing)
        secure = address.startswith("https:")
        cookie = f"treadle_{port}"
        self.gate = Gate(app, self.site.tokens, names=names, public=self._public, cookie=cookie, secure=secure)

    def _routes(self) -> list[Any]:
        site, written = self.site, document()

        async def page(request: Any) -> Any:
            return self._files[request.scope["path"]].response(request)

        async def health(request: Any) -> Any:
            return PlainTextResponse("ok\n")

        async def ready(request: Any) -> Any:
            state = site.fleet.state()
            return JSONResponse(state, 200 if state["state"] in ("up", "none") else 503)

        async def figures(request: Any) -> Any:
            text = await machines.text(site.fleet, len(site.tabs))
            return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

        async def described(request: Any) -> Any:
            return JSONResponse(written)

        async def sign_in(request: Any) -> Any:
            return await devices.sign_in(self.gate, request)

        async def watch_shared(request: Any) -> Any:
            return await watch(site, self.gate, request)

        async def follow(socket: Any) -> None:
            await Tab(site, socket).run()

        return [
            *[Route(path, page) for path in self._files],
            Route("/healthz", health),
            Route("/readyz", ready),
            Route("/metrics", figures),
            Route("/openapi.json", described),
            Route("/login", sign_in, methods=["POST"]),
            Route(
                "/a/{order}/{number}/{decision}/{expires}/{signature}",
                partial(devices.link, site),
                methods=["GET", "POST"],
            ),
            Route(STREAM, watch_shared),
            Route(f"{calls.BASE}/changes", partial(changes, site)),
            Route(f"{calls.BASE}/orders/{{id}}/stream", partial(events, site)),
            WebSocketRoute("/socket", follow),
            *calls.routes(site, every()),
        ]

    def _public(self, path: str) -> bool:
        return path in self._files or path in (*PUBLIC, STREAM) or path.startswith("/a/")

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
    config = make_config(server.gate, listening, server.gate.message_max)
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


# The table of calls as an OpenAPI 3.1 document, made from the types that requests are checked against; importing this
# imports every call.


# Every call of the HTTP interface: importing this module imports those that define them.

MODULES = (orders, devices, machines, notices, terminals)


def every() -> list[ApiCall]:
    return TABLE


_FAILURES = {
    "400": "the request cannot be read",
    "401": "no token, or one that is not known",
    "403": "this token may not do that",
    "404": "there is no such thing",
    "405": "this method is not possible here",
    "409": "it is not in a state for that, or another person was first",
    "422": "what is asked for makes no sense",
    "429": "too many requests",
    "503": "the fleet's engine does not answer",
}


@cache
def document() -> dict[str, Any]:
    kinds: list[Any] = [HttpProblem]
    for each in every():
        kinds += [kind for kind in (each.query, each.body, each.returns) if kind is not None and kind is not bytes]
    schemas, components = _readable(msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}"))
    by_kind = {id(kind): schema for kind, schema in zip(kinds, schemas, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for each in every():
        paths.setdefault(BASE + each.path, {})[each.method.lower()] = _operation(each, by_kind, components)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Treadle", "version": treadle.__version__, "description": "A fleet of agents and terminals."},
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _readable(schema: Any) -> Any:
    """The same in the words that generators of clients know: no `items: false` after a tuple's items, since `maxItems`
    says it, and `items` for every other array."""
    if isinstance(schema, dict):
        made = {key: _readable(value) for key, value in schema.items() if (key, value) != ("items", False)}
        bare = made.get("type") == "array" and "items" not in made and "prefixItems" not in made
        return {**made, "items": {}} if bare else made
    return [_readable(each) for each in schema] if isinstance(schema, list | tuple) else schema


def _operation(each: ApiCall, by_kind: dict[int, Any], components: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {
        "operationId": each.name,
        "summary": each.summary,
        "description": f"Needs the right `{each.right}`.",
        "parameters": _parameters(each, components),
        "responses": {
            str(each.status): {"description": "done", "content": _content(each, by_kind)},
            **{
                status: {
                    "description": text,
                    "content": {PROBLEM: {"schema": by_kind[id(HttpProblem)]}},
                }
                for status, text in _FAILURES.items()
            },
        },
    }
    if each.body is not None:
        content = {JSON: {"schema": by_kind[id(each.body)]}}
        made["requestBody"] = {"required": not each.optional_body, "content": content}
        for status, text in (("413", "the body is too large"), ("415", "the body is not application/json")):
            failure = {PROBLEM: {"schema": by_kind[id(HttpProblem)]}}
            made["responses"][status] = {"description": text, "content": failure}
    if each.name == "submit_order":
        header = {"name": "Idempotency-Key", "in": "header", "schema": {"type": "string"}}
        made["parameters"].append(header)
        made["responses"]["200"] = made["responses"]["201"]
    return made


def _content(each: ApiCall, by_kind: dict[int, Any]) -> dict[str, Any]:
    if each.returns is bytes:
        return {"text/plain": {"schema": {"type": "string"}}}
    return {JSON: {"schema": by_kind[id(each.returns)]}}


def _parameters(each: ApiCall, components: dict[str, Any]) -> list[dict[str, Any]]:
    name_schema = {"type": "string", "pattern": "^[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}$"}
    found: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": name_schema}
        for name in re.findall(r"{(\w+)}", each.path)
    ]
    if each.query is not None:
        schema = components[each.query.__name__]
        for name, property in schema["properties"].items():
            property = {key: value for key, value in property.items() if key != "default"}
            if property.get("type") == "array":
                found.append({"name": name, "in": "query", "schema": property, "style": "form", "explode": True})
            else:
                found.append({"name": name, "in": "query", "schema": _plain(property)})
    return found


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    """Remove null from an optional parameter: it is left out, never null."""
    options = [option for option in schema.get("anyOf", ()) if option.get("type") != "null"]
    return options[0] if len(options) == 1 else schema
