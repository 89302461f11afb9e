"""Tools of MCP servers, offered as `mcp__server__tool`, and the client that speaks the protocol.

If a server does not start in time, dies or talks nonsense, only its own tools are lost, with one warning. Servers on
standard streams run under our keeper, so that none outlives the session.
"""

from __future__ import annotations

import asyncio
import os
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar
from urllib.parse import urljoin, urlsplit

import msgspec

from treadle import __version__
from treadle.agent.providers.http import loopback
from treadle.agent.tools.base import AnyArgs, Resolve, ToolContext
from treadle.errors import ConfigError, LineTooLong, PeerClosed, RemoteProtocolError, ToolError, TreadleError
from treadle.events import ToolKind
from treadle.io.http import HttpClient, HttpError, Response
from treadle.io.link import Link
from treadle.io.rpc import CallFailed, Rpc
from treadle.io.tasks import end_tasks, start_held
from treadle.session import Access, Confinement
from treadle.settings.config import McpServer
from treadle.wire.common.connection import CAP
from treadle.wire.common.images import decoded
from treadle.wire.common.jsonrpc import METHOD_NOT_FOUND, PARSE_ERROR, Fault
from treadle.wire.common.rpc import CallKey, RpcCall, RpcMessage, RpcNotice, RpcRefused, read_line
from treadle.wire.mcp.connection import Connection, Greeting, ServerResult, ServerTool, ToolPage, tool_name
from treadle.wire.mcp.revisions import META, REVISIONS, STATELESS, UNSUPPORTED_REVISION
from treadle.wire.models.sse import EventDecoder

if TYPE_CHECKING:
    from treadle.io.process.child import Child
    from treadle.wire.mcp.connection import ResultPart


# The client's end of the Model Context Protocol: greet a server, list its tools, call them, answer what it asks.
#
# How messages travel is a transport's business: `ServerStreams` for a program's standard streams, `ServerAddress` for
# Streamable HTTP. Of what a server may ask its client we answer `ping` and `roots/list`; models and questions to the
# person are not offered to it, and its requests for them are refused. The client sets `hear` and `lost` of a transport
# before anything is sent, its `revision` when one is agreed on, and calls `greeted` when the server may say more.

MOST_TOOLS = 1000
ABOUT = {"name": "treadle", "version": __version__}
CAPABILITIES: dict[str, Any] = {"roots": {}}
HEARD = Callable[[Sequence[RpcMessage | RemoteProtocolError]], None]

T = TypeVar("T")


class SessionGone(TreadleError):
    """The server has forgotten the session, as after its restart."""


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
            raise TreadleError(f"its protocol revision {greeting.protocol_version:.40} is not supported")
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
        raise TreadleError(f"{_shown(self._url)} redirects in a circle")

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
                raise TreadleError(f"{_shown(self._url)} broke off its answer")
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


ServerTransport: TypeAlias = ServerStreams | ServerAddress


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


START_TIMEOUT = 10.0
DESCRIPTION_CAP = 2048


class McpServers:
    """The running servers of one session. `tools` have the same form as our own."""

    def __init__(
        self,
        *,
        cwd: str,
        env: Mapping[str, str],
        warn: Callable[[str], None],
        confinement: Callable[[], Confinement | None] = lambda: None,
        changed: Callable[[str], None] = lambda server: None,
    ) -> None:
        """`changed` is called with the name of a server whose tools are others now."""
        self._confinement = confinement
        self._changed = changed
        self._cwd = cwd
        self._env = env
        self._warn = warn
        self._connections: list[McpConnection] = []
        self.tools: list[McpTool] = []

    async def start(self, servers: Mapping[str, McpServer], timeout: float = START_TIMEOUT) -> None:
        """Start all servers at once, and wait until each is ready or has failed with a warning."""
        if not servers:
            return
        self._connections = [self._connection(name, server) for name, server in servers.items()]
        results = await asyncio.gather(*(one.start(timeout) for one in self._connections), return_exceptions=True)
        for connection, result in zip(self._connections, results, strict=True):
            if isinstance(result, Exception):
                self._warn(f"the MCP server {connection.name!r} is not used: {result}")
            elif isinstance(result, BaseException):
                raise result
        for tool in (tool for connection in self._connections for tool in connection.tools):
            if any(tool.name == other.name for other in self.tools):
                self._warn(f"two MCP tools are called {tool.name}; the first one is used")
            else:
                self.tools.append(tool)

    async def reconnect(self, name: str, timeout: float = START_TIMEOUT) -> None:
        """Leave the server of this name and start it again. Raises TreadleError when it does not start."""
        at = next(at for at, connection in enumerate(self._connections) if connection.name == name)
        old = self._connections[at]
        await old.close()
        new = self._connections[at] = self._connection(name, old.server)
        self.tools = [tool for tool in self.tools if tool not in old.tools]
        await new.start(timeout)
        self.tools += new.tools

    async def add(self, name: str, server: McpServer, timeout: float = START_TIMEOUT) -> None:
        """Start one more. Raises TreadleError when it does not start."""
        if name in self.states:
            raise ConfigError(f"there is already an MCP server {name!r}")
        connection = self._connection(name, server)
        await connection.start(timeout)
        self._connections.append(connection)
        self.tools += connection.tools

    async def remove(self, name: str) -> None:
        """Leave a server; its processes are gone afterwards."""
        for connection in [one for one in self._connections if one.name == name]:
            self._connections.remove(connection)
            self.tools = [tool for tool in self.tools if tool not in connection.tools]
            await connection.close()

    def _connection(self, name: str, server: McpServer) -> McpConnection:
        return McpConnection(name, server, self._cwd, self._env, self._confinement(), self._replaced)

    def _replaced(self, connection: McpConnection, tools: list[McpTool]) -> None:
        """A server says that its tools are others now."""
        self.tools = [tool for tool in self.tools if tool not in connection.tools] + tools
        connection.tools = tools
        self._changed(connection.name)

    @property
    def states(self) -> dict[str, Literal["connected", "failed"]]:
        return {one.name: "failed" if one.client is None else "connected" for one in self._connections}

    async def close(self) -> None:
        await asyncio.gather(*(connection.close() for connection in self._connections))


class McpConnection:
    """One server: its process or its address, and the conversation with it."""

    def __init__(
        self,
        name: str,
        server: McpServer,
        cwd: str,
        env: Mapping[str, str],
        confinement: Confinement | None,
        replaced: Callable[[McpConnection, list[McpTool]], None],
    ) -> None:
        self.name = name
        self.server = server
        self.tools: list[McpTool] = []
        self.client: McpClient | None = None
        """None before it is ready and after it has ended."""
        self._confinement = confinement
        self._cwd = cwd
        self._env = env
        self._replaced = replaced
        self._child: Child | None = None
        self._opened: McpClient | None = None
        self._relisting: asyncio.Task[None] | None = None
        self._stale = False
        """Whether the tools have changed since they were asked for."""

    async def start(self, timeout: float) -> None:
        try:
            async with asyncio.timeout(timeout):
                await self._open()
        except BaseException as error:
            words = await self._last_words()
            await self.close()
            if isinstance(error, TimeoutError):
                raise TreadleError(f"it was not ready within {timeout:g} s{words}") from None
            if isinstance(error, TreadleError):
                raise TreadleError(f"{error}{words}") from error
            raise

    async def _open(self) -> None:

        transport = await self._transport()
        client = self._opened = McpClient(transport, root=self._cwd, changed=self._relist, ended=self._end)
        await client.greet()
        self.tools = [McpTool(self, tool) for tool in await client.tools()]
        self.client = client
        if self._stale:
            self._relist()

    def _end(self) -> None:
        self.client = None

    def _relist(self) -> None:
        self._stale = True
        if self.client is not None and (self._relisting is None or self._relisting.done()):
            self._relisting = asyncio.create_task(self._list_again(self.client))

    async def _list_again(self, client: McpClient) -> None:
        with suppress(TreadleError):  # the tools that were listed before stay
            while self._stale:
                self._stale = False
                self._replaced(self, [McpTool(self, tool) for tool in await client.tools()])

    async def close(self) -> None:
        """Take leave; its processes are gone afterwards."""
        self.client = None
        await end_tasks(self._relisting)  # it withdraws its request first
        try:
            if self._opened is not None:
                await self._opened.close()
        finally:
            if self._child is not None:
                async with self._child:
                    pass

    async def call(
        self, tool: str, arguments: dict[str, Any], timeout: float, show: Callable[[bytes], Iterable[str]]
    ) -> str:
        """The tool's answer. `show` gets each image, and returns words for it."""
        if self.client is None:
            raise ToolError(f"the MCP server {self.name!r} has ended{await self._last_words()}")
        try:
            async with asyncio.timeout(timeout):
                result = await self.client.call(tool, arguments)
        except TimeoutError:
            raise ToolError(f"the MCP server {self.name!r} did not answer within {timeout:g} s") from None
        except TreadleError as error:
            raise ToolError(f"the MCP server {self.name!r}: {error}{await self._last_words()}") from error
        text = as_text(result, show)
        if result.is_error:
            raise ToolError(text or "the tool failed without saying why")
        return text

    async def _transport(self) -> ServerTransport:
        server = self.server
        if server.type == "sse":
            raise TreadleError("the old SSE transport is not supported; most servers also offer Streamable HTTP")
        if server.url:
            return ServerAddress(server.url, server.headers)
        if not server.command:
            raise TreadleError("it has neither a command nor a url")
        from treadle.io.sandbox.start import start

        self._child = await start(
            self._confinement,
            [server.command, *server.args],
            env={**self._env, **server.env},
            cwd=os.path.join(self._cwd, server.cwd),
            stdin="pipe",
            stdout="pipe",
        )
        return ServerStreams(self._child)

    async def _last_words(self) -> str:
        text = (await self._child.last_words(0.2)).strip() if self._child is not None else ""
        return f"; its last words: {text[-1000:]}" if text else ""


class McpTool:
    """One tool of a server, in the form of our own."""

    kind: ToolKind = "other"
    """What a server says about its own tools cannot be relied on."""
    Args = AnyArgs

    def __init__(self, connection: McpConnection, tool: ServerTool) -> None:
        self._connection = connection
        self._tool = tool.name
        self.name = tool_name(connection.name, tool.name)
        self.description = (tool.description or f"{tool.name} of the MCP server {connection.name}")[:DESCRIPTION_CAP]
        self.parameters: dict[str, Any] = {"type": "object", "properties": {}, **(tool.input_schema or {})}

    def access(self, args: AnyArgs, resolve: Resolve) -> Access:
        return Access(tool=self.name, kind=self.kind, args=args.values)

    async def run(self, args: AnyArgs, context: ToolContext) -> str:
        from treadle.agent.tools.images import shown_in_words

        def shown(image: bytes) -> Iterable[str]:
            return shown_in_words([image], context)

        return await self._connection.call(self._tool, args.values, context.timeout, shown)

    async def ask(self, given: dict[str, Any], timeout: float) -> str:
        """Called by the host itself, not by the model."""
        return await self._connection.call(self._tool, given, timeout, lambda image: ())


def as_text(result: ServerResult, show: Callable[[bytes], Iterable[str]]) -> str:
    """A tool's result in words."""
    parts = [text for block in result.content for text in _texts(block, show)]
    if not parts and result.structured_content is not None:
        return msgspec.json.encode(result.structured_content).decode()
    return "\n".join(parts)


def _texts(block: ResultPart, show: Callable[[bytes], Iterable[str]]) -> Iterable[str]:
    return show(decoded(block.data)) if block.type == "image" else [_block_text(block)]


def _block_text(block: ResultPart) -> str:
    if block.type == "text":
        return block.text
    if block.type == "resource" and isinstance(text := block.resource.get("text"), str):
        return text
    if block.type == "resource_link":
        return f"[resource {block.uri}]"
    return f"[{block.type} {block.mime_type or ''}]".replace(" ]", "]")
