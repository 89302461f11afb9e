"""The names under which an agent sees the tools of MCP servers."""

import re

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
