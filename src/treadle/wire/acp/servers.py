"""MCP servers, converted between this protocol's list and the table of a `.mcp.json`."""

from collections.abc import Mapping
from typing import Any


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
