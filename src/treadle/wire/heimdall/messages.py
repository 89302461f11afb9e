"""The six typed messages that agents sharing a repository send each other, protocol 2.0.0.

`TYPES` is the one description: `schema()` publishes it as JSON Schema and `faults()` enforces it, so the two cannot
drift. Messages refer to artifacts by id and never restate them; further fields are legal.
"""

from __future__ import annotations

from treadle.wire.common.jsontext import loads
from treadle.wire.heimdall.shapes import Integer, ListOf, Maybe, OneOf, Record, Text, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

VERSION = "2.0.0"
BOM = b"\xef\xbb\xbf"
"""What some editors and shells put in front."""
SCHEMA_ID = f"https://heimdall/protocol/message-schema-{VERSION}.json"

_IDS = ListOf(Text())

TYPES = {
    "task_claim": Record({"task": Text()}, {"symbols": _IDS, "capsules": _IDS}),
    "task_result": Record(
        {"task": Text(), "status": OneOf("pass", "fail", "partial")},
        {"criteria": ListOf(Integer()), "commit": Text(), "capsule": Text()},
    ),
    "gate_report": Record(
        {"gate_id": Text(), "status": OneOf("pass", "fail")}, {"report_ref": Text(), "wave": Maybe(Text())}
    ),
    "escalation": Record({"reason": Text(1), "severity": OneOf("blocker", "warning", "info")}, {"refs": _IDS}),
    "question": Record({"question": Text(1)}, {"refs": _IDS}),
    "checkpoint": Record(
        {"wave": Text(), "state": OneOf("started", "in_progress", "complete", "blocked")}, {"capsules": _IDS}
    ),
}
"""What each type has beyond the common fields."""

COMMON = Record({"type": OneOf(*TYPES), "from": Text(1), "msg_id": Text(1)}, {"reply_to": Text(), "ts": Text()})


def schema() -> dict[str, Any]:
    """The published contract (draft-07): the common fields, then one if/then for each type."""
    branches = [
        {
            "if": {"properties": {"type": {"const": name}}, "required": ["type"]},
            "then": {key: value for key, value in shape.schema.items() if key != "type"},
        }
        for name, shape in TYPES.items()
    ]
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": SCHEMA_ID,
        "title": "Heimdall protocol message",
        **COMMON.schema,
        "allOf": branches,
    }


def faults(message: Any) -> list[str]:
    """Everything that is wrong with a message, common fields first; a valid message has none."""
    if not isinstance(message, dict):
        return ["message must be a JSON object"]
    found = [_common_fault(text, message) for text in COMMON.faults(message)]
    kind = message.get("type")
    if isinstance(kind, str) and kind in TYPES:
        found += [f"{kind}: {text}" for text in TYPES[kind].faults(message)]
    return found


def _common_fault(text: str, message: dict[str, Any]) -> str:
    # The list of types is long and is in the schema; the wire text names only the value.
    return f"type not in enum: {shown(message['type'])}" if text.startswith("type not in enum") else text


def read(text: str | bytes) -> tuple[Any, list[str]]:
    """The message in `text` (None when there is none) and its faults. Never raises, whatever the bytes are."""
    try:
        message = loads(text.removeprefix(BOM) if isinstance(text, bytes) else text)
    except ValueError:
        return None, ["unparseable JSON"]
    return message, faults(message)
