"""What Codex gives when it is asked: the turns that a thread had before, its threads, its models. Pure."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from treadle.events import Event, Message, ToolEnded, ToolStarted, TurnStarted
from treadle.session import Access, OfferedModel, StoredSession
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


def listed_thread(fields: dict[str, Any]) -> StoredSession:
    updated = fields.get("updatedAt")
    return StoredSession(
        id=str(fields.get("id")),
        cwd=str(fields.get("cwd") or ""),
        title=str(fields.get("name") or fields.get("preview") or ""),
        updated=float(updated) if isinstance(updated, int | float) else 0.0,
    )


def offered_models(listed: Any) -> Iterator[OfferedModel]:
    """The models that it shows to people."""
    for one in listed if isinstance(listed, list) else []:
        if isinstance(one, dict) and isinstance(one.get("model"), str) and not one.get("hidden"):
            name, about = str(one.get("displayName") or ""), str(one.get("description") or "")
            yield OfferedModel(id=one["model"], name=name, description=about)
