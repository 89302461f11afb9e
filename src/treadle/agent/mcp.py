"""Tools of MCP servers, offered as `mcp__server__tool`. The protocol is the official SDK's, imported on first use.

If a server does not start in time, dies or talks nonsense, only its own tools are lost, with one warning. Servers on
standard streams run under our keeper, so that none outlives the session: the SDK gets two streams and starts nothing.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from treadle.agent.tools.base import AnyArgs, ToolContext
from treadle.errors import ConfigError, LineTooLong, MissingExtra, PeerClosed, StorageError, ToolError, TreadleError
from treadle.events import ToolKind
from treadle.io.reading import read
from treadle.session import Access, Confinement
from treadle.settings import trust
from treadle.settings.config import McpServer
from treadle.wire.common.framing import LineSplitter
from treadle.wire.common.images import decoded
from treadle.wire.mcp.names import tool_name

if TYPE_CHECKING:
    from mcp import Client

    from treadle.io.process.child import Child

START_TIMEOUT = 10.0
DESCRIPTION_CAP = 2048
HTTP_SECONDS, HTTP_READ_SECONDS = 30.0, 300.0


class FoundServers(msgspec.Struct, frozen=True, kw_only=True):
    """The servers that a project's `.mcp.json` and the settings ask for."""

    servers: dict[str, McpServer] = {}
    warnings: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    """What an untrusted project asked for."""


def find_servers(
    cwd: str | None, configured: Mapping[str, McpServer], environ: Mapping[str, str], *, trusted: bool | None = None
) -> FoundServers:
    """The settings' servers, and those of the nearest `.mcp.json` if it is trusted (None: ask `treadle trust`).
    Without a directory, only those of the settings.
    """
    servers = dict(configured)
    warnings: list[str] = []
    ignored: list[str] = []
    places = trust.up_to_top(cwd) if cwd is not None else ()
    place = next((here for here in places if os.path.isfile(os.path.join(here, ".mcp.json"))), None)
    if place is not None:
        path = os.path.join(place, ".mcp.json")
        wanted = _read(path, warnings)
        if not trusted and (owner := trust.foreign_owner(place)):
            ignored = [f"{path}: {owner}"]
        elif trusted or trusted is None and trust.is_trusted(place):
            servers = {**wanted, **servers}
        else:
            ignored = [f"{path}: mcpServers.{name}" for name in wanted]
    named = {name: _expanded(server, environ) for name, server in servers.items() if not server.disabled}
    return FoundServers(servers=named, warnings=tuple(warnings), ignored=tuple(ignored))


def _read(path: str, warnings: list[str]) -> dict[str, McpServer]:
    try:
        content = msgspec.json.decode(read(path), type=dict[str, Any])
        entries = msgspec.convert(content.get("mcpServers", {}), dict[str, Any])
    except StorageError as error:
        warnings.append(str(error))
        return {}
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        warnings.append(f"{path} cannot be read: {error}")
        return {}
    return _converted(entries, path, warnings)


def _converted(entries: Mapping[str, Any], path: str, warnings: list[str]) -> dict[str, McpServer]:
    servers = {}
    for name, entry in entries.items():
        try:
            servers[name] = msgspec.convert(entry, McpServer)
        except msgspec.ValidationError as error:
            warnings.append(f"{path}: mcpServers.{name}: {error}")
    return servers


def given_servers(entries: Mapping[str, Any], environ: Mapping[str, str], warnings: list[str]) -> dict[str, McpServer]:
    """The servers that the one who opened the session asks for, without those inside its own process."""
    outside = {name: entry for name, entry in entries.items() if entry.get("type") != "sdk"}
    servers = _converted(outside, "the MCP configuration that was given", warnings)
    return {name: _expanded(server, environ) for name, server in servers.items() if not server.disabled}


def _expanded(server: McpServer, environ: Mapping[str, str]) -> McpServer:
    """`${NAME}` and `${NAME:-default}` replaced, so that keys need not be in the file."""

    def fill(value: Any) -> Any:
        if isinstance(value, str):
            return re.sub(r"\$\{(\w+)(?::-([^}]*))?\}", lambda found: environ.get(found[1]) or found[2] or "", value)
        if isinstance(value, dict):
            return {key: fill(item) for key, item in value.items()}
        return tuple(map(fill, value)) if isinstance(value, tuple) else value

    return McpServer(**{name: fill(getattr(server, name)) for name in server.__struct_fields__})


class ServersChanged(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a list of MCP servers that was given to an open session."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    errors: dict[str, str] = {}


class McpServers:
    """The running servers of one session. `tools` have the same form as our own."""

    def __init__(
        self,
        *,
        cwd: str,
        env: Mapping[str, str],
        warn: Callable[[str], None],
        confinement: Callable[[], Confinement | None] = lambda: None,
    ) -> None:
        self._confinement = confinement
        self._cwd = cwd
        self._env = env
        self._warn = warn
        self._connections: list[McpConnection] = []
        self.tools: list[McpTool] = []

    async def start(self, servers: Mapping[str, McpServer], timeout: float = START_TIMEOUT) -> None:
        """Start all servers at once, and wait until each is ready or has failed with a warning."""
        if not servers:
            return
        try:
            import mcp  # noqa: F401
        except ImportError:
            self._warn(str(MissingExtra("MCP servers", "mcp")))
            return
        confined = self._confinement()
        self._connections = [McpConnection(name, one, self._cwd, self._env, confined) for name, one in servers.items()]
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
        new = self._connections[at] = McpConnection(name, old.server, self._cwd, self._env, self._confinement())
        self.tools = [tool for tool in self.tools if tool not in old.tools]
        await new.start(timeout)
        self.tools += new.tools

    async def add(self, name: str, server: McpServer, timeout: float = START_TIMEOUT) -> None:
        """Start one more. Raises TreadleError when it does not start."""
        if name in self.states:
            raise ConfigError(f"there is an MCP server {name!r} already")
        connection = McpConnection(name, server, self._cwd, self._env, self._confinement())
        await connection.start(timeout)
        self._connections.append(connection)
        self.tools += connection.tools

    async def remove(self, name: str) -> None:
        """Leave a server; its processes are gone afterwards."""
        for connection in [one for one in self._connections if one.name == name]:
            self._connections.remove(connection)
            self.tools = [tool for tool in self.tools if tool not in connection.tools]
            await connection.close()

    @property
    def states(self) -> dict[str, Literal["connected", "failed"]]:
        return {one.name: "failed" if one.client is None else "connected" for one in self._connections}

    async def close(self) -> None:
        await asyncio.gather(*(connection.close() for connection in self._connections))


class McpConnection:
    """One server, in its own task, because the SDK must be left in the task that entered it."""

    def __init__(
        self, name: str, server: McpServer, cwd: str, env: Mapping[str, str], confinement: Confinement | None = None
    ) -> None:
        self.name = name
        self._confinement = confinement
        self.server = server
        self.tools: list[McpTool] = []
        self.client: Client | None = None
        self._cwd = cwd
        self._env = env
        self._child: Child | None = None
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._leave = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self, timeout: float) -> None:
        self._task = asyncio.create_task(self._live())
        self._task.add_done_callback(self._ended)
        try:
            async with asyncio.timeout(timeout):
                await asyncio.shield(self._ready)
        except TimeoutError:
            words = await self._last_words()
            await self.close()
            raise TreadleError(f"it was not ready within {timeout:g} s{words}") from None
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Disconnect properly if it is ready, else abort; either way its processes are gone afterwards."""
        self._leave.set()
        if self._task is None:
            return
        if self.client is None:
            self._task.cancel()
        await asyncio.wait([self._task], timeout=START_TIMEOUT)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def call(
        self, tool: str, arguments: dict[str, Any], timeout: float, show: Callable[[bytes], Iterable[str]]
    ) -> str:
        """The tool's answer. `show` gets each image, and returns words for it."""
        if self.client is None:
            raise ToolError(f"the MCP server {self.name!r} has ended")
        try:
            async with asyncio.timeout(timeout + 1):
                result = await self.client.call_tool(tool, arguments, read_timeout_seconds=timeout)
        except TimeoutError:
            raise ToolError(f"the MCP server {self.name!r} did not answer within {timeout:g} s") from None
        except Exception as error:  # whatever the SDK raises concerns only this call and this server
            raise ToolError(f"the MCP server {self.name!r}: {error}{await self._last_words()}") from error
        text = as_text(result, show)
        if result.is_error:
            raise ToolError(text or "the tool failed without saying why")
        return text

    def _ended(self, task: asyncio.Task[None]) -> None:
        self.client = None
        if not self._ready.done():
            error = None if task.cancelled() else task.exception()
            self._ready.set_exception(error or TreadleError("it was broken off"))
            self._ready.exception()  # read the exception even when no one waits any more

    async def _live(self) -> None:
        from mcp import Client
        from mcp.types import Implementation

        from treadle import __version__

        _keep_quiet()
        try:
            async with AsyncExitStack() as stack:
                transport = await self._transport(stack)
                # Over a pipe, an old server may never answer the question whether it is new; all know the old
                # handshake.
                mode: Literal["auto", "legacy"] = "auto" if self.server.url else "legacy"
                about = Implementation(name="treadle", version=__version__)
                client = await stack.enter_async_context(Client(transport, mode=mode, client_info=about))
                self.tools = [McpTool(self, tool) for tool in await _all_tools(client)]
                self.client = client
                self._ready.set_result(None)
                await self._leave.wait()
        except TreadleError:
            raise
        except Exception as error:
            raise TreadleError(f"{_plain(error)}{await self._last_words()}") from error

    async def _transport(self, stack: AsyncExitStack) -> Any:
        server = self.server
        if server.type == "sse":
            raise TreadleError("the old SSE transport is not supported; most servers also offer Streamable HTTP")
        if server.url:
            import httpx2
            from mcp.client.streamable_http import streamable_http_client

            # A server may keep the stream of an answer open for minutes.
            patience = httpx2.Timeout(HTTP_SECONDS, read=HTTP_READ_SECONDS)
            client = httpx2.AsyncClient(headers=server.headers or None, timeout=patience)
            http = await stack.enter_async_context(client)
            return streamable_http_client(server.url, http_client=http)
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
        await stack.enter_async_context(self._child)
        return over_stdio(self._child)

    async def _last_words(self) -> str:
        text = (await self._child.last_words(0.2)).strip() if self._child is not None else ""
        return f"; its last words: {text[-1000:]}" if text else ""


@asynccontextmanager
async def over_stdio(child: Child) -> AsyncIterator[Any]:
    """A transport in the SDK's sense: messages in both directions, here as lines on a child's standard streams."""
    import anyio
    import mcp_types as types
    from mcp.shared.message import SessionMessage

    to_session, incoming = anyio.create_memory_object_stream[Any](0)
    outgoing, from_session = anyio.create_memory_object_stream[Any](0)
    open_calls: set[int | str] = set()

    async def read() -> None:
        splitter = LineSplitter()
        async with to_session:
            while data := await child.stdio.read():
                for line in splitter.feed(data):
                    for message in understood(line):
                        open_calls.discard(getattr(message, "id", ""))
                        await to_session.send(SessionMessage(message))

    def understood(line: bytes | LineTooLong) -> list[Any]:
        """The message; an invalid answer becomes an error for the one who waits for it."""
        try:
            return [types.jsonrpc_message_adapter.validate_json(line, by_name=False)]  # type: ignore[arg-type]
        except (ValueError, TypeError):
            why = line if isinstance(line, LineTooLong) else "it is not JSON-RPC"
        error = types.ErrorData(code=types.PARSE_ERROR, message=f"its answer cannot be read: {why}")
        lost = _whose_answer(line, open_calls)
        return [types.JSONRPCError(jsonrpc="2.0", id=id, error=error) for id in lost]

    async def write() -> None:
        async with from_session:
            async for message in from_session:
                if hasattr(message.message, "method") and hasattr(message.message, "id"):
                    open_calls.add(message.message.id)
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                await child.stdio.write(text.encode() + b"\n")

    async def quietly(work: Callable[[], Any]) -> None:
        try:
            await work()
        except (PeerClosed, anyio.BrokenResourceError, anyio.ClosedResourceError):
            await to_session.aclose()  # the session then sees the end instead of waiting for an answer

    async with anyio.create_task_group() as group:
        group.start_soon(quietly, read)
        group.start_soon(quietly, write)
        try:
            yield incoming, outgoing
        finally:
            child.stdio.close_write()
            group.cancel_scope.cancel()
            for stream in (to_session, incoming, outgoing, from_session):
                stream.close()


def _whose_answer(line: bytes | LineTooLong, waiting: Collection[int | str]) -> list[int | str]:
    """The waiting calls that this unreadable line may have answered. A stray print answers none of them."""
    if isinstance(line, LineTooLong):
        return list(waiting)
    try:
        answer = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    return [one for one in waiting if isinstance(answer, dict) and answer.get("id") == one]


async def _all_tools(client: Client) -> list[Any]:
    tools: list[Any] = []
    cursor: str | None = None
    while True:
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        cursor = page.next_cursor
        if cursor is None or len(tools) > 1000:
            return tools


class McpTool:
    """One tool of a server, in the form of our own."""

    kind: ToolKind = "other"
    """What a server says about its own tools cannot be relied on."""
    Args = AnyArgs

    def __init__(self, connection: McpConnection, tool: Any) -> None:
        self._connection = connection
        self._tool: str = tool.name
        self.name = tool_name(connection.name, tool.name)
        self.description = (tool.description or f"{tool.name} of the MCP server {connection.name}")[:DESCRIPTION_CAP]
        self.parameters: dict[str, Any] = {"type": "object", "properties": {}, **(tool.input_schema or {})}

    def access(self, args: AnyArgs, resolve: Callable[[str], Path]) -> Access:
        return Access(tool=self.name, kind=self.kind, args=args.values)

    async def run(self, args: AnyArgs, context: ToolContext) -> str:
        from treadle.agent.images import shown_in_words

        def shown(image: bytes) -> Iterable[str]:
            return shown_in_words([image], context)

        return await self._connection.call(self._tool, args.values, context.timeout, shown)

    async def ask(self, given: dict[str, Any], timeout: float) -> str:
        """Called by the host itself, not by the model."""
        return await self._connection.call(self._tool, given, timeout, lambda image: ())


def as_text(result: Any, show: Callable[[bytes], Iterable[str]] = lambda image: ()) -> str:
    """A tool's result in words."""
    parts = [text for block in result.content for text in _texts(block, show)]
    if not parts and result.structured_content is not None:
        return msgspec.json.encode(result.structured_content).decode()
    return "\n".join(parts)


def _texts(block: Any, show: Callable[[bytes], Iterable[str]]) -> Iterable[str]:
    if block.type != "image":
        return [_block_text(block)]
    return show(decoded(block.data))


def _block_text(block: Any) -> str:
    if block.type == "text":
        return str(block.text)
    if block.type == "resource" and getattr(block.resource, "text", None) is not None:
        return str(block.resource.text)
    if block.type == "resource_link":
        return f"[resource {block.uri}]"
    return f"[{block.type} {getattr(block, 'mime_type', None) or ''}]".replace(" ]", "]")


def _plain(error: BaseException) -> str:
    """The first real error inside the groups in which the SDK wraps errors."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error) or type(error).__name__


def _keep_quiet() -> None:
    """The SDK logs tracebacks; without a handler, Python would print them on the person's terminal."""
    import logging

    for name in ("mcp", "client"):
        if not logging.getLogger(name).handlers:
            logging.getLogger(name).addHandler(logging.NullHandler())
