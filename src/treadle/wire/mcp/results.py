"""What servers of tools answer, as their client reads it: the greeting, the tools, and the result of a call."""

from typing import Any

import msgspec


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
