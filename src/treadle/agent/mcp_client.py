"""The client's end of the Model Context Protocol: greet a server, list its tools, call them, answer what it asks.

How messages travel is a transport's business: `ServerStreams` here for a program's standard streams, `ServerAddress`
in `mcp_http.py` for Streamable HTTP. Of what a server may ask its client we answer `ping` and `roots/list`; models and
questions to the person are not offered to it, and its requests for them are refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from treadle import __version__
from treadle.errors import LineTooLong, PeerClosed, RemoteProtocolError, TreadleError
from treadle.io.link import Link
from treadle.io.rpc import CallFailed, Rpc
from treadle.io.within import end_tasks, start_held
from treadle.wire.common.jsonrpc import METHOD_NOT_FOUND, PARSE_ERROR, Fault
from treadle.wire.common.rpc import CallKey, RpcCall, RpcMessage, RpcNotice, RpcRefused
from treadle.wire.mcp.connection import Connection
from treadle.wire.mcp.results import Greeting, ServerResult, ServerTool, ToolPage
from treadle.wire.mcp.revisions import META, REVISIONS, STATELESS, UNSUPPORTED_REVISION

if TYPE_CHECKING:
    from treadle.io.process.child import Child

MOST_TOOLS = 1000
ABOUT = {"name": "treadle", "version": __version__}
CAPABILITIES: dict[str, Any] = {"roots": {}}
HEARD = Callable[[Sequence[RpcMessage | RemoteProtocolError]], None]

T = TypeVar("T")


class SessionGone(TreadleError):
    """The server has forgotten the session, as after its restart."""


class ServerTransport(Protocol):
    """`hear` and `lost` are set by the client before anything is sent."""

    hear: HEARD
    lost: Callable[[TreadleError], None]
    revision: str | None
    """The revision agreed on; None before."""

    async def say(self, message: RpcMessage) -> None: ...

    async def greeted(self) -> None:
        """The greeting is over: the server may now send what no one asked for."""

    async def close(self) -> None: ...


class McpClient:
    """`changed` is called when the server says that its tools are others now, `ended` when it is gone."""

    def __init__(
        self, transport: ServerTransport, *, root: str, changed: Callable[[], None], ended: Callable[[], None]
    ) -> None:
        self._transport = transport
        self._root = root
        self._changed = changed
        self._ended = ended
        self._rpc = Rpc(transport.say, answer=self._answer, notice=self._notice)
        self._telling: set[asyncio.Task[None]] = set()
        transport.hear, transport.lost = self._hear, self._lost

    async def greet(self) -> None:
        """Agree on a revision. A server that knows only the newest, which has no greeting, says so."""
        asked = {"protocolVersion": REVISIONS[-1], "capabilities": CAPABILITIES, "clientInfo": ABOUT}
        self._transport.revision = None
        try:
            greeting = _read(await self._rpc.call("initialize", asked), Greeting)
        except CallFailed as error:
            if error.rpc_code not in (UNSUPPORTED_REVISION, METHOD_NOT_FOUND):
                raise
            self._transport.revision = STATELESS
            await self._ask("server/discover", {})
            return
        if greeting.protocol_version not in REVISIONS:
            raise TreadleError(f"it speaks revision {greeting.protocol_version:.40} of the protocol, which we do not")
        self._transport.revision = greeting.protocol_version
        await self._rpc.tell("notifications/initialized", {})
        await self._transport.greeted()

    async def tools(self) -> list[ServerTool]:
        tools: list[ServerTool] = []
        params: dict[str, Any] = {}
        while True:
            page = _read(await self._ask("tools/list", params), ToolPage)
            tools += page.tools
            if page.next_cursor is None or len(tools) > MOST_TOOLS:
                return tools
            params = {"cursor": page.next_cursor}

    async def call(self, tool: str, arguments: dict[str, Any]) -> ServerResult:
        params = {"name": tool, "arguments": arguments}
        try:
            answer = await self._ask("tools/call", params)
        except SessionGone:
            await self.greet()
            answer = await self._ask("tools/call", params)
        return _read(answer, ServerResult)

    async def close(self) -> None:
        await asyncio.gather(*self._telling, return_exceptions=True)
        await self._rpc.close()
        await self._transport.close()

    async def _ask(self, method: str, params: dict[str, Any]) -> Any:
        if self._transport.revision == STATELESS:
            about = {"protocolVersion": STATELESS, "clientInfo": ABOUT, "clientCapabilities": {}}
            params = {**params, "_meta": {f"{META}{name}": value for name, value in about.items()}}
        key: list[CallKey] = []
        try:
            return await self._rpc.call(method, params, key.append)
        except asyncio.CancelledError:
            for one in key:
                start_held(self._telling, self._withdraw(one))
            raise

    async def _withdraw(self, key: CallKey) -> None:
        try:
            async with asyncio.timeout(1.0):
                await self._rpc.tell("notifications/cancelled", {"requestId": key})
        except (TreadleError, TimeoutError):
            pass  # it was told as well as it can be

    # What the server says

    def _hear(self, messages: Sequence[RpcMessage | RemoteProtocolError]) -> None:
        self._rpc.take(_or_error(message) for message in messages if not self._too_long(message))

    def _too_long(self, message: RpcMessage | RemoteProtocolError) -> bool:
        """It may have been any answer; the calls after it are not concerned."""
        if isinstance(message, LineTooLong):
            self._rpc.fail(message)
        return isinstance(message, LineTooLong)

    def _lost(self, error: TreadleError) -> None:
        self._rpc.lost(error)
        self._ended()

    async def _answer(self, call: RpcCall) -> Any:
        if call.method == "ping":
            return {}
        if call.method == "roots/list":
            return {"roots": [{"uri": Path(self._root).as_uri(), "name": Path(self._root).name}]}
        raise Fault(METHOD_NOT_FOUND, f"this client has no {call.method:.60}")

    def _notice(self, notice: RpcNotice) -> None:
        if notice.method == "notifications/tools/list_changed":
            self._changed()


class ServerStreams:
    """Lines on the standard streams of a program."""

    hear: HEARD
    lost: Callable[[TreadleError], None]
    revision: str | None = None

    def __init__(self, child: Child) -> None:
        self._child = child
        self._link = Link(child.stdio, Connection("client"))
        self._reading: asyncio.Task[None] | None = None

    async def say(self, message: RpcMessage) -> None:
        if self._reading is None:
            self._reading = asyncio.create_task(self._read())
        await self._link.send(message)

    async def greeted(self) -> None:
        pass

    async def _read(self) -> None:
        why: TreadleError = PeerClosed("it has ended")
        try:
            async for messages in self._link.batches():
                self.hear(messages)
        except TreadleError as error:
            why = error
        self.lost(why)

    async def close(self) -> None:
        self._child.stdio.close_write()
        await end_tasks(self._reading)


def _or_error(message: RpcMessage | RemoteProtocolError) -> RpcMessage | RemoteProtocolError:
    """An answer that cannot be read becomes an error for the one who waits for it."""
    details = message.details if isinstance(message, RemoteProtocolError) else None
    if isinstance(details, dict) and details.get("id") is not None:
        return RpcRefused(id=details["id"], code=PARSE_ERROR, message=f"its answer cannot be read: {message}")
    return message


def _read(answer: Any, kind: type[T]) -> T:
    try:
        return msgspec.convert(answer, kind)
    except msgspec.ValidationError as error:
        raise RemoteProtocolError(f"its answer cannot be read: {error}") from None
