"""The Agent Client Protocol, version 1: who may say what, content blocks, and MCP servers in its form."""

from collections.abc import Mapping
from typing import Any

from treadle.wire.common.images import decoded, encoded, media_type
from treadle.wire.common.rpc import OPENER_SAYS, OTHER_SAYS, RpcConnection

# Content blocks of the Agent Client Protocol, read as text and written from text.


def text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def text_of(block: Any) -> str:
    """A block as readable text; a block that is not text is named in brackets."""
    if not isinstance(block, dict):
        return ""
    kind = block.get("type")
    if kind == "text":
        return _text(block.get("text"))
    if kind == "resource_link":
        return f"[{_text(block.get('name')) or 'file'}: {_text(block.get('uri'))}]"
    if kind == "resource":
        inside = block.get("resource")
        resource = inside if isinstance(inside, dict) else {}
        return _text(resource.get("text")) or f"[{_text(resource.get('uri'))}]"
    return f"[{kind}]" if isinstance(kind, str) else ""


def image_block(data: bytes) -> dict[str, Any]:
    return {"type": "image", "data": encoded(data), "mimeType": media_type(data)}


def prompt_images(blocks: Any) -> tuple[bytes, ...]:
    """The images of a prompt, decoded but not checked."""
    given = [block for block in (blocks if isinstance(blocks, list) else []) if isinstance(block, dict)]
    return tuple(decoded(block.get("data")) for block in given if block.get("type") == "image")


def prompt_text(blocks: Any) -> str:
    """A prompt as one text. A file that the client embedded is named, followed by its content."""
    parts = []
    for block in blocks if isinstance(blocks, list) else []:
        if isinstance(block, dict) and block.get("type") == "image":
            continue
        text = text_of(block)
        inside = block.get("resource") if isinstance(block, dict) else None
        if isinstance(inside, dict) and isinstance(inside.get("text"), str):
            text = f'<file uri="{_text(inside.get("uri"))}">\n{text}\n</file>'
        parts.append(text)
    return "\n".join(part for part in parts if part)


def unreadable(blocks: Any) -> str | None:
    """What a prompt contains that neither a text nor an image can stand for; None if it has nothing of the kind."""
    for block in blocks if isinstance(blocks, list) else []:
        match block:
            case {"type": "text" | "image" | "resource_link"} | {"type": "resource", "resource": {"text": str()}}:
                continue
            case {"type": "resource", "resource": {"uri": str(uri)}}:
                return f"{uri}, which is not text"
            case {"type": str(kind)}:
                return f"a block of the type {kind}"
            case _:
                return "a block without a type"
    return None


def texts_in(content: Any) -> str:
    """The text of a tool call's content: its blocks, without diffs and terminals."""
    found = [
        text_of(item.get("content"))
        for item in (content if isinstance(content, list) else [])
        if isinstance(item, dict) and item.get("type") == "content"
    ]
    return "\n".join(text for text in found if text)


def diffs_in(content: Any) -> list[dict[str, Any]]:
    """The diffs in a tool call's content that name their file."""
    return [
        item
        for item in (content if isinstance(content, list) else [])
        if isinstance(item, dict) and item.get("type") == "diff" and isinstance(item.get("path"), str)
    ]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


# MCP servers, converted between this protocol's list and the table of a `.mcp.json`.


def as_table(entries: Any) -> dict[str, dict[str, Any]]:
    """The servers that a client gives with `session/new`, by name. An entry without a name is left out."""
    found: dict[str, dict[str, Any]] = {}
    for entry in entries if isinstance(entries, list) else []:
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str) or not entry["name"]:
            continue
        table = {key: entry[key] for key in ("type", "command", "args", "url") if key in entry}
        for key in ("env", "headers"):
            if key in entry:
                table[key] = _table(entry[key])
        found[entry["name"]] = table
    return found


def as_list(servers: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The servers in the form that an agent is given."""
    return [_entry(name, server) for name, server in servers.items()]


def _entry(name: str, server: Mapping[str, Any]) -> dict[str, Any]:
    if server.get("url"):
        headers = _pairs(server.get("headers") or {})
        return {"type": transport(server), "name": name, "url": server["url"], "headers": headers}
    return {
        "name": name,
        "command": server.get("command", ""),
        "args": list(server.get("args") or ()),
        "env": _pairs(server.get("env") or {}),
    }


def transport(server: Mapping[str, Any]) -> str:
    """`stdio`, `http` or `sse`. Only `sse` is read from `type`: for the others, programs use different words."""
    if not server.get("url"):
        return "stdio"
    return "sse" if server.get("type") == "sse" else "http"


def _table(pairs: Any) -> dict[str, Any]:
    if isinstance(pairs, dict):
        return pairs
    entries = [each for each in (pairs if isinstance(pairs, list) else []) if isinstance(each, dict)]
    return {str(each.get("name")): each.get("value") for each in entries}


def _pairs(table: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in table.items()]


# Who may say what in the Agent Client Protocol. Protocol version 1, as its schema of November 2026 has it.

PROTOCOL_VERSION = 1

CLIENT_METHODS = frozenset(
    {
        "initialize",
        "authenticate",
        "session/new",
        "session/load",
        "session/resume",
        "session/fork",
        "session/list",
        "session/close",
        "session/prompt",
        "session/cancel",
        "session/set_mode",
        "session/set_model",
        "session/set_config_option",
    }
)
"""Methods that we call as a client. `session/set_model` is not in the schema, but four agents implement it."""

AGENT_METHODS = frozenset(
    {
        "session/update",
        "session/request_permission",
        "fs/read_text_file",
        "fs/write_text_file",
        "terminal/create",
        "terminal/output",
        "terminal/wait_for_exit",
        "terminal/kill",
        "terminal/release",
        "elicitation/create",
    }
)


class Connection(RpcConnection):
    SAYS = {"client": OPENER_SAYS, "agent": OTHER_SAYS}
    METHODS = {"client": CLIENT_METHODS, "agent": AGENT_METHODS}
    OPENER = "client"
