"""Who may say what in the Model Context Protocol, between a client and a server of tools."""

import re
from typing import Any, ClassVar

import msgspec

from treadle.wire.common.connection import Transitions
from treadle.wire.common.rpc import OPENER_SAYS, OTHER_SAYS, RpcConnection

# The names under which an agent sees the tools of MCP servers.

NAME_CAP = 64
"""The longest tool name that model services accept."""
_PREFIX = NAME_CAP - 9
"""How much is kept of a longer name, before `_` and eight digits that tell it from others."""


def tool_name(server: str, tool: str) -> str:
    """`mcp__server__tool` in the characters and length that model services accept."""
    name = _whole(server, tool)
    if len(name) <= NAME_CAP:
        return name
    from hashlib import sha256

    return f"{name[:_PREFIX]}_{sha256(name.encode()).hexdigest()[:8]}"


def server_prefix(server: str) -> str:
    """What the names of all tools of this server begin with."""
    return _whole(server, "")[:_PREFIX]


def _whole(server: str, tool: str) -> str:
    return "mcp__" + "__".join(re.sub(r"[^A-Za-z0-9_-]", "_", part) for part in (server, tool))


# What servers of tools answer, as their client reads it: the greeting, the tools, and the result of a call.


class Greeting(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer to `initialize`."""

    protocol_version: str


class ServerTool(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: str
    description: str | None = None
    input_schema: dict[str, Any] | None = None


class ToolPage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer to `tools/list`; with a cursor there is more."""

    tools: list[ServerTool] = []
    next_cursor: str | None = None


class ResultPart(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One piece of a result: text, an image, a sound, a resource or a link to one."""

    type: str
    text: str = ""
    data: str = ""
    mime_type: str | None = None
    uri: str = ""
    resource: dict[str, Any] = {}


class ServerResult(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer to `tools/call`."""

    content: list[ResultPart] = []
    structured_content: Any = None
    is_error: bool = False


CLIENT_METHODS = frozenset(
    {
        "initialize",
        "notifications/initialized",
        "notifications/cancelled",
        "notifications/progress",
        "ping",
        "server/discover",
        "tools/list",
        "tools/call",
    }
)
SERVER_METHODS = frozenset(
    {"notifications/progress", "notifications/message", "notifications/cancelled", "elicitation/create", "ping"}
)


class Connection(RpcConnection):
    """A client may send other requests before `initialize`: the newest clients do, and initialize only when refused."""

    SAYS = {"client": OPENER_SAYS, "server": OTHER_SAYS}
    METHODS = {"client": CLIENT_METHODS, "server": SERVER_METHODS}
    OPENER = "client"
    TRANSITIONS: ClassVar[Transitions] = {
        **RpcConnection.TRANSITIONS,
        ("new", "call"): "new",
        ("new", "result"): "new",
        ("new", "reply"): "new",
    }
