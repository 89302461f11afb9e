"""Tools of the program that opened the session, offered to Claude Code as MCP servers inside this process.

Claude Code speaks MCP to such a server over its control records, one `mcp_message` a message, and starts nothing.
"""

from typing import Any

from treadle import __version__
from treadle.errors import TreadleError
from treadle.session import OwnTool, ShownResult
from treadle.wire.acp.content import image_block
from treadle.wire.common.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND

OWN_SERVER = "treadle"
"""The server of tools whose names contain no server."""
PROTOCOL = "2025-11-25"


class HostedTools:
    def __init__(self) -> None:
        self._tools: dict[str, dict[str, OwnTool]] = {}
        """Server -> name of the tool there -> the tool."""

    def add(self, tools: tuple[OwnTool, ...]) -> None:
        for tool in tools:
            server, name = _place(tool.name)
            self._tools.setdefault(server, {})[name] = tool

    def servers(self) -> dict[str, dict[str, Any]]:
        return {name: {"type": "sdk", "name": name} for name in self._tools}

    async def answer(self, server: str, message: Any) -> dict[str, Any]:
        """The answer to one message; an empty object for a notification, which needs none."""
        asked = message if isinstance(message, dict) else {}
        if "id" not in asked:
            return {"jsonrpc": "2.0", "result": {}, "id": 0}
        try:
            body: dict[str, Any] = {"result": await self._result(server, asked)}
        except LookupError as error:
            body = {"error": {"code": INVALID_PARAMS, "message": f"there is no {error}"}}
        except NotImplementedError as error:
            body = {"error": {"code": METHOD_NOT_FOUND, "message": f"{error} is not offered here"}}
        return {"jsonrpc": "2.0", "id": asked["id"], **body}

    async def _result(self, server: str, asked: dict[str, Any]) -> dict[str, Any]:
        params = asked.get("params") if isinstance(asked.get("params"), dict) else {}
        assert isinstance(params, dict)
        match asked.get("method"):
            case "initialize":
                about = {"name": server, "version": __version__}
                version = params.get("protocolVersion") or PROTOCOL
                return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}
            case "ping":
                return {}
            case "tools/list":
                tools = self._tools[server].items()
                return {
                    "tools": [
                        {"name": name, "description": tool.description, "inputSchema": tool.parameters}
                        for name, tool in tools
                    ]
                }
            case "tools/call":
                arguments = params.get("arguments")
                return await _called(
                    self._tools[server][str(params.get("name"))], arguments if isinstance(arguments, dict) else {}
                )
        raise NotImplementedError(str(asked.get("method")))


async def _called(tool: OwnTool, arguments: dict[str, Any]) -> dict[str, Any]:
    try:
        said = await tool.call(arguments)
        shown = ShownResult(text=said) if isinstance(said, str) else said
        images = [image_block(data) for data in shown.images]
        return {"content": [{"type": "text", "text": shown.text}, *images], "isError": False}
    except TreadleError as error:
        return {"content": [{"type": "text", "text": str(error)}], "isError": True}


def _place(name: str) -> tuple[str, str]:
    """`mcp__server__tool` -> its two names."""
    parts = name.split("__", 2)
    return (parts[1], parts[2]) if len(parts) == 3 and parts[0] == "mcp" else (OWN_SERVER, name)
