"""The names under which an agent sees the tools of MCP servers."""

import re

NAME_CAP = 64
"""The longest tool name that model services accept."""


def tool_name(server: str, tool: str) -> str:
    """`mcp__server__tool` in the characters and length that model services accept."""
    name = "mcp__" + "__".join(re.sub(r"[^A-Za-z0-9_-]", "_", part) for part in (server, tool))
    if len(name) <= NAME_CAP:
        return name
    from hashlib import sha256

    return f"{name[: NAME_CAP - 9]}_{sha256(name.encode()).hexdigest()[:8]}"
