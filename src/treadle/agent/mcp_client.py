"""The client's end of the Model Context Protocol: greet a server, list its tools, call them, answer what it asks.

How messages travel is a transport's business: `ServerStreams` for a program's standard streams, `ServerAddress` for
Streamable HTTP. Of what a server may ask its client we answer `ping` and `roots/list`; models and questions to the
person are not offered to it, and its requests for them are refused.
"""

from __future__ import annotations

import asyncio
import os
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import urljoin, urlsplit

import msgspec

from treadle import __version__
from treadle.agent.providers.endpoint import loopback
from treadle.agent.providers.streams import EventDecoder
from treadle.errors import LineTooLong, PeerClosed, RemoteProtocolError, TreadleError
from treadle.io.http import HttpClient, HttpError, Response
from treadle.io.link import Link
from treadle.io.rpc import CallFailed, Rpc
from treadle.io.tasks import end_tasks, start_held
from treadle.wire.common.connection import CAP
from treadle.wire.common.jsonrpc import METHOD_NOT_FOUND, PARSE_ERROR, Fault
from treadle.wire.common.rpc import CallKey, RpcCall, RpcMessage, RpcNotice, RpcRefused, read_line
from treadle.wire.mcp.connection import Connection, Greeting, ServerResult, ServerTool, ToolPage
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


# Streamable HTTP, the transport of the Model Context Protocol for servers with an address.
#
# Each message of ours is a POST. The answer to a call is its JSON, or a stream of events in which the server may say
# other things first; a stream that breaks is taken up again where it was, if its events were numbered. What the
# server says unasked comes on a GET of its own, which it may refuse.

CONNECT_SECONDS, SILENT_SECONDS = 30.0, 300.0
"""A server may keep the stream of an answer open for minutes."""
RETRIES, RETRY_SECONDS = 2, 1.0
"""How often in a row a stream is taken up again in vain, and the pause before it unless the server names one."""
LONGEST_RETRY = 30.0
OPENING_SECONDS = 0.25
REDIRECTS = 3
LARGEST_ERROR = 64 * 1024
GOODBYE_SECONDS = 2.0


class ServerAddress:
    hear: HEARD
    lost: Callable[[TreadleError], None]

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        self.revision: str | None = None
        self._url = url
        self._session: str | None = None
        self._wire = Connection("client")
        self._listening: asyncio.Task[None] | None = None
        self._heard_of = asyncio.Event()
        """Set when the server has answered our request for a stream."""
        self._client = HttpClient(
            {"user-agent": f"treadle/{__version__}", **{name.lower(): value for name, value in headers.items()}},
            connect_seconds=CONNECT_SECONDS,
            idle_seconds=SILENT_SECONDS,
            direct=loopback(url) and os.environ.get("no_proxy") != "",
        )

    async def say(self, message: RpcMessage) -> None:
        """Returns when the message is taken; for a call, when its answer was heard."""
        if isinstance(message, RpcCall) and message.method == "initialize":
            self._wire, self._session = Connection("client"), None
        body = self._wire.send(message)
        try:
            await self._post(message, body)
        except HttpError as error:
            raise TreadleError(f"no answer from {_shown(self._url)}: {error}") from error

    async def _post(self, message: RpcMessage, body: bytes) -> None:
        for _ in range(REDIRECTS):
            async with self._client.request("POST", self._url, body, headers=self._headers(message)) as response:
                if self._moved(response):
                    continue
                if not isinstance(message, RpcCall):
                    await response.beginning(LARGEST_ERROR)
                    return
                stream = await self._answered(message, response)
            if self._waits(message):
                await self._take_up(message, stream)
            return
        raise TreadleError(f"{_shown(self._url)} leads in a circle")

    async def _answered(self, call: RpcCall, response: Response) -> EventDecoder:
        """Hear the answer, or as much of it as came; the stream it came on knows how far that was."""
        stream = EventDecoder(CAP)
        if response.status == 404 and self._session is not None:
            raise SessionGone("it has ended the session")
        kind = response.headers.get("content-type", "")
        if response.status == 200 and kind.startswith("text/event-stream"):
            self._session = response.headers.get("mcp-session-id", self._session)
            await self._follow(response, stream, call)
            return stream
        body = await response.whole(CAP) if response.status == 200 else await response.beginning(LARGEST_ERROR)
        if kind.startswith("application/json"):
            self._session = response.headers.get("mcp-session-id", self._session)
            self.hear(self._wire.judge(read_line(body)))
        if self._waits(call):
            reason = body.decode("utf-8", "replace").strip()[:300] if "html" not in kind else ""
            raise TreadleError(f"{_shown(self._url)} answered {_status(response.status)}{reason and f': {reason}'}")
        return stream

    async def _follow(self, response: Response, stream: EventDecoder, call: RpcCall | None) -> None:
        """Hear the events of a stream until it ends or has brought the answer to the call."""
        chunks = response.chunks()
        try:
            async for chunk in chunks:
                self._hear_all(stream.feed(chunk))
                if call is not None and not self._waits(call):
                    await response.linger(chunks)
                    return
            self._hear_all(stream.end())
        except HttpError:
            if not stream.last_id:
                raise  # it cannot be taken up again

    def _hear_all(self, events: list[bytes]) -> None:
        for data in events:
            self.hear(self._wire.judge(read_line(data)))

    async def _take_up(self, call: RpcCall, stream: EventDecoder) -> None:
        """The stream ended without the answer: ask for what comes after its last event."""
        vain = 0
        while self._waits(call):
            if not stream.last_id or vain > RETRIES:
                raise TreadleError(f"{_shown(self._url)} ended its answer before it was whole")
            await asyncio.sleep(_pause(stream))
            before, stream = stream.last_id, stream.again()
            with suppress(HttpError):
                await self._open_stream(stream, call)
            vain = vain + 1 if stream.last_id == before else 0

    async def _open_stream(self, stream: EventDecoder, call: RpcCall | None) -> bool:
        """One GET, from the last event on; False if the server has no such stream."""
        headers = self._headers(None)
        if stream.last_id:
            headers["last-event-id"] = stream.last_id.decode("latin-1")
        async with self._client.request("GET", self._url, headers=headers) as response:
            self._heard_of.set()
            if response.status != 200:
                return False
            await self._follow(response, stream, call)
        return True

    # What the server says unasked

    async def greeted(self) -> None:
        """Open the stream for it before anything is called: a server may take a later GET for the end of a call."""
        if self._session is not None and (self._listening is None or self._listening.done()):
            self._heard_of.clear()
            self._listening = asyncio.create_task(self._listen())
            with suppress(TimeoutError):  # a server that answers when it has something to say is not waited for
                async with asyncio.timeout(OPENING_SECONDS):
                    await self._heard_of.wait()

    async def _listen(self) -> None:
        stream, vain = EventDecoder(CAP), 0
        while vain <= RETRIES:
            try:
                if not await self._open_stream(stream, None):
                    return
                vain = 0
            except (HttpError, LineTooLong):
                vain += 1
            await asyncio.sleep(_pause(stream))
            stream = stream.again()

    async def close(self) -> None:
        await end_tasks(self._listening)
        if self._session is not None:
            with suppress(HttpError, TimeoutError):
                async with asyncio.timeout(GOODBYE_SECONDS):
                    async with self._client.request("DELETE", self._url, headers=self._headers(None)) as response:
                        await response.beginning(LARGEST_ERROR)
        await self._client.aclose()

    # Headers and addresses

    def _waits(self, call: RpcCall) -> bool:
        return call.id in self._wire.open["client"]

    def _headers(self, message: RpcMessage | None) -> dict[str, str]:
        headers = {"accept": "application/json, text/event-stream" if message else "text/event-stream"}
        if message is not None:
            headers["content-type"] = "application/json"
        if self._session is not None:
            headers["mcp-session-id"] = self._session
        if self.revision is not None:
            headers["mcp-protocol-version"] = self.revision
        if self.revision == STATELESS and isinstance(message, RpcCall):
            headers["mcp-method"] = message.method
            if message.method == "tools/call":
                headers["mcp-name"] = _field(message.params["name"])
        return headers

    def _moved(self, response: Response) -> bool:
        """Follow a redirect that keeps the method and stays with the server, as `/mcp` to `/mcp/` does: our headers
        may hold a key."""
        to = urljoin(self._url, response.headers.get("location", ""))
        if response.status not in (307, 308) or to == self._url:
            return False
        here, there = urlsplit(self._url), urlsplit(to)
        if there.netloc != here.netloc or there.scheme not in (here.scheme, "https"):
            raise TreadleError(f"{_shown(self._url)} has moved to {_shown(to)}; set that address if you trust it")
        self._url = to
        return True


def _pause(stream: EventDecoder) -> float:
    return RETRY_SECONDS if stream.retry is None else min(stream.retry / 1000, LONGEST_RETRY)


def _field(name: str) -> str:
    """A name as the value of a header."""
    if name.isascii() and name.isprintable() and name == name.strip() and not name.startswith("=?"):
        return name
    return f"=?base64?{b64encode(name.encode()).decode()}?="


def _shown(url: str) -> str:
    """The address without what may be secret in it."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _status(code: int) -> str:
    try:
        return f"{code} {HTTPStatus(code).phrase}"
    except ValueError:
        return str(code)
