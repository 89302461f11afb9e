"""Which parts of an order's events are searched, and which events are errors."""

from collections.abc import Iterator
from typing import Any


def texts_of(event: dict[str, Any]) -> Iterator[tuple[str, str]]:
    kind = event.get("type")
    if kind == "message" and event.get("kind", "text") == "text" and event.get("text"):
        yield "turn", str(event["text"])
    elif kind == "turn_started" and event.get("prompt"):
        yield "turn", str(event["prompt"])
    elif kind == "tool_started":
        if event.get("command"):
            yield "command", str(event["command"])
        for path in event.get("paths") or ():
            yield "file", str(path)
    elif kind == "command_run" and not event.get("call"):
        yield "command", str(event.get("command", ""))
    elif kind == "file_changed":
        yield "file", str(event.get("path", ""))


def is_error(event: dict[str, Any]) -> bool:
    kind = event.get("type")
    return (
        kind == "failed"
        or (kind == "tool_ended" and event.get("ok", True) is False)
        or (kind == "command_run" and event.get("exit_code") not in (0, None))
        or (kind == "turn_ended" and event.get("outcome") == "failed")
    )
