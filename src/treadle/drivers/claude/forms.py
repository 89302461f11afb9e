"""Translates session settings and reports into the terms of Claude Code."""

from typing import Any

import msgspec

from treadle.drivers.claude.tools import claude_name
from treadle.session import OfferedModel, Subagent
from treadle.wire.acp.servers import transport


def subagent(given: Subagent) -> dict[str, Any]:
    entry: dict[str, Any] = {"description": given.description, "prompt": given.prompt}
    if given.tools is not None:
        entry["tools"] = [claude_name(name) for name in given.tools]
    if given.denied:
        entry["disallowedTools"] = [claude_name(name) for name in given.denied]
    if given.model is not None:
        entry["model"] = given.model
    if given.max_turns is not None:
        entry["maxTurns"] = given.max_turns
    return entry


def model(entry: dict[str, Any]) -> OfferedModel:
    """A model of its list. It is chosen by its short name."""
    value = str(entry.get("value") or "")
    name, about = str(entry.get("displayName") or value), str(entry.get("description") or "")
    return OfferedModel(id=value, name=name, description=about)


def server(entry: dict[str, Any]) -> dict[str, Any]:
    """An MCP server of a `.mcp.json`, with the type that Claude Code requires."""
    return {**{name: value for name, value in entry.items() if name != "disabled"}, "type": transport(entry)}


def response_text(response: Any) -> str:
    """A tool's result as text, for a person's hook: each tool has another form."""
    if isinstance(response, str):
        return response
    if isinstance(response, dict) and isinstance(response.get("stdout"), str):
        return "\n".join(
            part for part in (response["stdout"], response.get("stderr")) if isinstance(part, str) and part
        )
    return msgspec.json.encode(response).decode() if response is not None else ""
