"""Tools of MCP servers, offered as `mcp__server__tool`. `mcp_client.py` speaks the protocol; it is loaded on first use.

If a server does not start in time, dies or talks nonsense, only its own tools are lost, with one warning. Servers on
standard streams run under our keeper, so that none outlives the session.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from treadle.agent.tools.base import AnyArgs, Resolve, ToolContext
from treadle.errors import ConfigError, StorageError, ToolError, TreadleError
from treadle.events import ToolKind
from treadle.io.files import read
from treadle.io.tasks import end_tasks
from treadle.session import Access, Confinement
from treadle.settings import trust
from treadle.settings.config import McpServer
from treadle.wire.common.images import decoded
from treadle.wire.mcp.connection import tool_name

if TYPE_CHECKING:
    from treadle.agent.mcp_client import McpClient, ServerTransport
    from treadle.io.process.child import Child
    from treadle.wire.mcp.connection import ResultPart, ServerResult, ServerTool

START_TIMEOUT = 10.0
DESCRIPTION_CAP = 2048


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
            raise ConfigError(f"there is an MCP server {name!r} already")
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
        from treadle.agent.mcp_client import McpClient

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
            from treadle.agent.mcp_client import ServerAddress

            return ServerAddress(server.url, server.headers)
        if not server.command:
            raise TreadleError("it has neither a command nor a url")
        from treadle.agent.mcp_client import ServerStreams
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
