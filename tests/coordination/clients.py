"""A client of the ledger server, in this process."""

import json
from typing import Any

from treadle.coordination.mcp import Server


def call(server: Server, tool: str, **arguments: Any) -> dict[str, Any]:
    answer = server.handle("tools/call", {"name": tool, "arguments": arguments})
    assert not answer["isError"], answer
    assert json.loads(answer["content"][0]["text"]) == answer["structuredContent"]
    assert answer["structuredContent"]["haid"].startswith("haid:")
    return dict(answer["structuredContent"])


def fails(server: Server, tool: str, **arguments: Any) -> dict[str, Any]:
    answer = server.handle("tools/call", {"name": tool, "arguments": arguments})
    assert answer["isError"] and "structuredContent" not in answer
    body = json.loads(answer["content"][0]["text"])
    assert body["error"] and "detail" in body and "haid" in body
    return dict(body)


def modern(connect: Any, revision: str = "2025-11-25", **more: Any) -> Server:
    server: Server = connect(**more)
    server.handle("initialize", {"protocolVersion": revision, "clientInfo": {"name": "cursor"}})
    return server
