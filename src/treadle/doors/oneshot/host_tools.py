"""Tools of MCP servers inside the host's process, called over the control protocol.

The host names the servers in `initialize`, or in `--mcp-config` with the type `sdk`. Each is spoken to in JSON-RPC, one
`mcp_message` request per message, and its tools become tools of the session, like those of any other server.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

from treadle import __version__
from treadle.errors import RemoteError, ToolError, TreadleError
from treadle.session import OwnTool, ShownResult
from treadle.wire.common.images import decoded

PROTOCOL = "2025-11-25"
START_SECONDS, CALL_SECONDS = 30.0, 600.0
MOST_PAGES = 100

Request = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
Named = Callable[[str, str], str]
"""(server, tool) -> the name that the model sees."""


class HostServer:
    """One server of the host. Raises RemoteError when it does not answer properly."""

    def __init__(self, name: str, request: Request, named: Named) -> None:
        self.name = name
        self._request = request
        self._named = named
        self._ids = itertools.count()

    async def tools(self) -> tuple[OwnTool, ...]:
        """Greet it and list all tools that it offers."""
        try:
            async with asyncio.timeout(START_SECONDS):
                greeting = {"name": "treadle", "version": __version__}
                await self._ask("initialize", {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": greeting})
                await self._say({"jsonrpc": "2.0", "method": "notifications/initialized"})
                return tuple([self._tool(entry) for entry in await self._list()])
        except TimeoutError:
            raise RemoteError(f"the MCP server {self.name!r} of the host did not answer in time") from None

    async def _list(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        cursor: Any = None
        for _ in range(MOST_PAGES):
            page = await self._ask("tools/list", {"cursor": cursor} if cursor else {})
            found += [entry for entry in page.get("tools") or () if isinstance(entry, dict) and entry.get("name")]
            cursor = page.get("nextCursor")
            if not cursor:
                break
        return found

    def _tool(self, entry: dict[str, Any]) -> OwnTool:
        name = str(entry["name"])

        async def call(arguments: dict[str, Any]) -> str | ShownResult:
            try:
                async with asyncio.timeout(CALL_SECONDS):
                    result = await self._ask("tools/call", {"name": name, "arguments": arguments})
            except TimeoutError:
                raise ToolError(f"{name} of the host did not answer within {CALL_SECONDS:g} s") from None
            except TreadleError as error:
                raise ToolError(str(error)) from error
            text = _text(result)
            if result.get("isError"):
                raise ToolError(text or "the tool failed without saying why")
            images = _images(result)
            return ShownResult(text=text, images=images) if images else text

        schema = entry.get("inputSchema")
        return OwnTool(
            name=self._named(self.name, name),
            description=str(entry.get("description") or name),
            parameters=schema if isinstance(schema, dict) else {"type": "object", "properties": {}},
            call=call,
        )

    async def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        answer = await self._say({"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params})
        error = answer.get("error")
        if isinstance(error, dict):
            raise RemoteError(f"the MCP server {self.name!r} of the host: {error.get('message') or error}")
        result = answer.get("result")
        if not isinstance(result, dict):
            raise RemoteError(f"the MCP server {self.name!r} of the host answered {method} without a result")
        return result

    async def _say(self, message: dict[str, Any]) -> dict[str, Any]:
        reply = await self._request({"subtype": "mcp_message", "server_name": self.name, "message": message})
        answer = reply.get("mcp_response")
        return answer if isinstance(answer, dict) else {}


def _images(result: dict[str, Any]) -> tuple[bytes, ...]:
    blocks = [block for block in result.get("content") or () if isinstance(block, dict)]
    return tuple(decoded(block.get("data")) for block in blocks if block.get("type") == "image")


def _text(result: dict[str, Any]) -> str:
    parts = []
    for block in result.get("content") or ():
        if isinstance(block, dict) and block.get("type") != "image":
            parts.append(str(block["text"]) if isinstance(block.get("text"), str) else f"[{block.get('type')}]")
    return "\n".join(parts)
