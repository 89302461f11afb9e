"""Tools of the program that opened the session, offered to Claude Code as MCP servers inside this process.

Claude Code speaks MCP to such a server over its control records, one `mcp_message` a message, and starts nothing.
"""

from functools import partial
from inspect import isawaitable
from typing import Any

from treadle import __version__
from treadle.errors import TreadleError
from treadle.session import OwnTool, ShownResult
from treadle.wire.acp.content import image_block
from treadle.wire.common.jsonrpc import INVALID_PARAMS, Fault
from treadle.wire.mcp.revisions import dispatch, welcome

OWN_SERVER = "treadle"
"""The server of tools whose names contain no server."""


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
        except Fault as fault:
            body = {"error": {"code": fault.code, "message": fault.message}}
        return {"jsonrpc": "2.0", "id": asked["id"], **body}

    async def _result(self, server: str, asked: dict[str, Any]) -> dict[str, Any]:
        params, tools = asked.get("params"), self._tools.get(server, {})
        if not tools:
            raise Fault(INVALID_PARAMS, f"there is no server {server!r}")

        def initialize(given: dict[str, Any]) -> dict[str, Any]:
            return welcome(given.get("protocolVersion"), server, __version__, "")

        def listed() -> list[dict[str, Any]]:
            return [
                {"name": name, "description": tool.description, "inputSchema": tool.parameters}
                for name, tool in tools.items()
            ]

        given = params if isinstance(params, dict) else {}
        method, call = str(asked.get("method")), partial(_called, tools)
        answer = dispatch(method, given, initialize=initialize, tools=listed, call=call)
        return dict(await answer if isawaitable(answer) else answer)


async def _called(tools: dict[str, OwnTool], params: dict[str, Any]) -> dict[str, Any]:
    name, arguments = params.get("name"), params.get("arguments")
    if not isinstance(name, str) or name not in tools:
        raise Fault(INVALID_PARAMS, f"there is no tool {name!r}")
    try:
        result = await tools[name].call(arguments if isinstance(arguments, dict) else {})
        shown = ShownResult(text=result) if isinstance(result, str) else result
        images = [image_block(data) for data in shown.images]
        return {"content": [{"type": "text", "text": shown.text}, *images], "isError": False}
    except TreadleError as error:
        return {"content": [{"type": "text", "text": str(error)}], "isError": True}


def _place(name: str) -> tuple[str, str]:
    """`mcp__server__tool` -> its two names."""
    parts = name.split("__", 2)
    return (parts[1], parts[2]) if len(parts) == 3 and parts[0] == "mcp" else (OWN_SERVER, name)
