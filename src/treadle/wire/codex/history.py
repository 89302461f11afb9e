"""The turns that a thread had before, as events. Pure."""

from collections.abc import Callable
from typing import Any

import msgspec

from treadle.events import Event, Message, ToolEnded, ToolStarted, TurnStarted
from treadle.session import Access
from treadle.wire.codex.events import TOOLS, result_text, tool_name


def past(turns: Any, about: Callable[[dict[str, Any]], Access]) -> list[Event]:
    """`about` says what the tool call of an item touches. Items that are no part of a conversation are left out."""
    found: list[Event] = []
    for turn in turns if isinstance(turns, list) else []:
        items = turn.get("items") if isinstance(turn, dict) else None
        for item in items if isinstance(items, list) else []:
            if isinstance(item, dict):
                found += _events(item, about)
    return found


def _events(item: dict[str, Any], about: Callable[[dict[str, Any]], Access]) -> list[Event]:
    match item.get("type"):
        case "userMessage":
            content = item.get("content")
            parts = [part for part in (content if isinstance(content, list) else []) if isinstance(part, dict)]
            text = "\n".join(part["text"] for part in parts if isinstance(part.get("text"), str))
            return [TurnStarted(prompt=text)]
        case "agentMessage" if isinstance(item.get("text"), str):
            return [Message(text=item["text"])]
        case "reasoning" if item.get("summary"):
            return [Message(text="\n".join(map(str, item["summary"])), kind="thinking")]
        case kind if kind in TOOLS and isinstance(item.get("id"), str):
            access, name = about(item), tool_name(item)
            started = ToolStarted(call=item["id"], name=name, args=access.args, kind=access.kind, paths=access.paths)
            ok = item.get("status") == "completed" and not item.get("exitCode")
            ended = ToolEnded(call=item["id"], name=name, result=result_text(item), ok=ok)
            return [msgspec.structs.replace(started, command=access.command), ended]
    return []
