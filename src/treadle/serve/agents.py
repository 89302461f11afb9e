"""An agent served to others: by A2A over HTTP, and to editors by the Agent Client Protocol over WebSockets.

A2A has a card, and JSON-RPC with streams of server-sent events; ACP has a message in each text frame.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from treadle import __version__
from treadle.errors import PeerClosed, TreadleError
from treadle.io.streams import Stream
from treadle.io.tasks import end_tasks, start_held
from treadle.serve.envelope import JSON, broken, failure, fitted, not_routed
from treadle.serve.gate import Gate
from treadle.serve.tokens import Tokens
from treadle.sessions.abilities import can
from treadle.wire.a2a import messages
from treadle.wire.common.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR, Fault

if TYPE_CHECKING:
    from treadle.doors.a2a.door import A2aDoor
    from treadle.doors.acp.door import AcpDoor

ALIVE_SECONDS = 15.0
EVENTS = "text/event-stream"
TYPES = (JSON, "application/a2a+json", "application/json-rpc")
STREAMS_MAX = 200
A2A_HINT = "`treadle a2a --token NAME` prints one for a client"
_ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"


class A2aServer:
    """`address` is how clients reach it. Without `tokens`, every client on this machine may use it."""

    def __init__(self, door: A2aDoor, *, address: str, names: set[str], tokens: Tokens | None) -> None:
        self._door = door
        self._streams = 0
        name = door.info.name
        self._card = msgspec.json.encode(
            messages.card(
                name=f"Treadle ({name})",
                description=f"The coding agent {name}, in a working directory of its owner.",
                url=f"{address}/",
                version=door.info.version or __version__,
                images=can(door.info.capabilities, "images"),
                token=tokens is not None,
            )
        )
        routes = [Route(messages.CARD_PATH, self._show_card), Route("/", self._rpc, methods=["POST"])]
        refusing: Any = {404: not_routed, 405: not_routed, Exception: broken}
        app = Starlette(routes=routes, lifespan=None, exception_handlers=refusing)
        self.gate = Gate(
            app,
            tokens or Tokens(),
            names=names,
            public=lambda path: tokens is None or path == messages.CARD_PATH,
            cookie="treadle_a2a",
            secure=address.startswith("https:"),
            hint=A2A_HINT,
        )

    async def start(self) -> None:
        return None

    async def close(self) -> None:
        await self._door.close()

    async def _show_card(self, request: Request) -> Response:
        response = Response(self._card, media_type=JSON, headers={"cache-control": "public, max-age=60"})
        return fitted(request, response)

    async def _rpc(self, request: Request) -> Response:
        try:
            body = await request.body()
        except TreadleError as error:
            return failure(error)
        name: str | int | None = None
        try:
            if request.headers.get("content-type", "").partition(";")[0].strip().lower() not in TYPES:
                raise Fault(messages.CONTENT_TYPE_NOT_SUPPORTED, f"the Content-Type of a request is {JSON}")
            found = _request(body)
            name = _id(found)
            method, params = _parts(found)
            header = request.headers.get(messages.VERSION_HEADER, "") or request.query_params.get(
                messages.VERSION_HEADER, ""
            )
            if not messages.is_spoken(header):
                problem = f"{messages.VERSION_HEADER} is {header[:20]!r}; the version here is {messages.VERSION}"
                raise Fault(messages.VERSION_NOT_SUPPORTED, problem)
            device = request.scope["device"]
            result = await self._door.call("" if device is None else device.id, method, params)
            if isinstance(result, AsyncGenerator):
                return self._stream(name, result)
            return _json({"jsonrpc": "2.0", "id": name, "result": result})
        except Fault as fault:
            return _json(_failed(name, fault))

    def _stream(self, name: Any, results: AsyncGenerator[dict[str, Any]]) -> Response:
        if self._streams >= STREAMS_MAX:
            raise Fault(INTERNAL_ERROR, f"{STREAMS_MAX} streams are open: ask for the task, or try again later")
        self._streams += 1

        async def lines() -> AsyncIterator[bytes]:
            coming: asyncio.Task[dict[str, Any] | None] | None = None
            try:
                while True:
                    coming = coming or asyncio.ensure_future(anext(results, None))
                    done, _ = await asyncio.wait([coming], timeout=ALIVE_SECONDS)
                    if not done:
                        yield b": alive\n\n"
                        continue
                    if (found := coming.result()) is None:
                        return
                    coming = None
                    yield _event({"jsonrpc": "2.0", "id": name, "result": found})
            finally:
                self._streams -= 1
                await end_tasks(coming)
                await results.aclose()

        return StreamingResponse(lines(), media_type=EVENTS, headers={"cache-control": "no-cache"})


def _request(body: bytes) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise Fault(PARSE_ERROR, f"the request is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise Fault(INVALID_REQUEST, "the request is no JSON object")
    return found


def _parts(found: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The method and its parameters. A request without an id is answered too: over HTTP there is always an answer."""
    if _id(found) is None and found.get("id") is not None:
        raise Fault(INVALID_REQUEST, "an id is a string or a whole number")
    method, params = found.get("method"), found.get("params", {})
    if found.get("jsonrpc") != "2.0" or not isinstance(method, str):
        raise Fault(INVALID_REQUEST, "the request is no JSON-RPC 2.0 request")
    if not isinstance(params, dict):
        raise Fault(INVALID_PARAMS, "params is no object")
    return method, params


def _id(found: dict[str, Any]) -> str | int | None:
    name = found.get("id")
    return name if isinstance(name, str | int) and not isinstance(name, bool) else None


def _failed(name: Any, fault: Fault) -> dict[str, Any]:
    error: dict[str, Any] = {"code": fault.code, "message": fault.message}
    if fault.code in messages.REASONS:
        error["data"] = [{"@type": _ERROR_INFO, "reason": messages.REASONS[fault.code], "domain": "a2a-protocol.org"}]
    return {"jsonrpc": "2.0", "id": name, "error": error}


def _event(found: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(found) + b"\n\n"


def _json(found: Any) -> Response:
    return Response(msgspec.json.encode(found), media_type=JSON)


# To editors elsewhere.

ACP_PATH = "/acp"
EDITORS_MAX = 50
"""Each holds a process of an agent for each of its sessions."""
ACP_MESSAGE_MAX = 32 * 1024 * 1024
"""A prompt may carry pictures."""
REFUSED, FULL = 1008, 1013
ACP_HINT = "`treadle serve --token` prints one, for the header Authorization: Bearer TOKEN"


class SocketStream:
    """A WebSocket as a stream of lines. Who has left is noticed by `read`, which the door never leaves for long."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self._gone = asyncio.Event()
        self._rest = b""

    async def read(self) -> bytes:
        try:
            text = await self._socket.receive_text()
        except (
            WebSocketDisconnect,
            KeyError,
            RuntimeError,
        ):  # it left, or sent bytes, which the protocol has no use for
            self._gone.set()
            return b""
        # Between the tokens of JSON a newline is a space, and inside of its texts there is none.
        return text.replace("\n", " ").encode(errors="surrogatepass") + b"\n"

    async def write(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        try:
            for line in lines:
                await self._socket.send_text(line.decode())
        except (WebSocketDisconnect, RuntimeError, OSError) as error:
            raise PeerClosed("the editor disconnected") from error

    async def abandoned(self) -> None:
        await self._gone.wait()

    def close_write(self) -> None:
        pass  # a WebSocket closes in both directions

    def close(self) -> None:
        self._gone.set()


class AcpServer:
    """`door` serves one editor."""

    def __init__(self, door: Callable[[Stream], AcpDoor], *, address: str, names: set[str], tokens: Tokens) -> None:
        self._door = door
        self._open: set[asyncio.Task[None]] = set()
        refusing: Any = {404: not_routed, 405: not_routed, Exception: broken}
        app = Starlette(routes=[WebSocketRoute(ACP_PATH, self._serve)], lifespan=None, exception_handlers=refusing)
        secure = address.startswith("https:")
        self.gate = Gate(
            app,
            tokens,
            names=names,
            public=lambda path: False,
            cookie="treadle_acp",
            secure=secure,
            hint=ACP_HINT,
            message_max=ACP_MESSAGE_MAX,
        )

    async def start(self) -> None:
        return None

    async def close(self) -> None:
        await end_tasks(*self._open)

    async def _serve(self, socket: WebSocket) -> None:
        if socket.scope["device"].right != "all":
            return await socket.close(REFUSED, "this token may not start agents")
        if len(self._open) >= EDITORS_MAX:
            return await socket.close(FULL, f"{EDITORS_MAX} editors are connected")
        await socket.accept()
        await start_held(self._open, self._converse(socket))

    async def _converse(self, socket: WebSocket) -> None:
        stream = SocketStream(socket)
        try:
            await self._door(stream).run()
        finally:
            stream.close()
