"""The six typed messages that agents sharing a repository send each other, protocol 2.0.0.

`TYPES` is the one description: `schema()` publishes it as JSON Schema and `faults()` enforces it, so the two cannot
drift. Messages refer to artifacts by id and never restate them; further fields are legal.
"""

from treadle.light import Any
from treadle.wire.common import schema as schemas
from treadle.wire.common.jsontext import loads
from treadle.wire.common.schema import NON_EMPTY, TEXT, list_of, one_of, record, shown

VERSION = "2.0.0"
BOM = b"\xef\xbb\xbf"
"""The byte order mark that some editors and shells put in front."""
SCHEMA_ID = f"https://heimdall/protocol/message-schema-{VERSION}.json"

_IDS = list_of(TEXT)

TYPES = {
    "task_claim": record({"task": TEXT}, {"symbols": _IDS, "capsules": _IDS}),
    "task_result": record(
        {"task": TEXT, "status": one_of("pass", "fail", "partial")},
        {"criteria": list_of({"type": "integer"}), "commit": TEXT, "capsule": TEXT},
    ),
    "gate_report": record(
        {"gate_id": TEXT, "status": one_of("pass", "fail")}, {"report_ref": TEXT, "wave": {"type": ["string", "null"]}}
    ),
    "escalation": record({"reason": NON_EMPTY, "severity": one_of("blocker", "warning", "info")}, {"refs": _IDS}),
    "question": record({"question": NON_EMPTY}, {"refs": _IDS}),
    "checkpoint": record(
        {"wave": TEXT, "state": one_of("started", "in_progress", "complete", "blocked")}, {"capsules": _IDS}
    ),
}
"""The fields of each type beyond the common ones."""

COMMON = record({"type": one_of(*TYPES), "from": NON_EMPTY, "msg_id": NON_EMPTY}, {"reply_to": TEXT, "ts": TEXT})


def schema() -> dict[str, Any]:
    """The published contract (draft-07): the common fields, then one if/then for each type."""
    branches = [
        {
            "if": {"properties": {"type": {"const": name}}, "required": ["type"]},
            "then": {key: value for key, value in fields.items() if key != "type"},
        }
        for name, fields in TYPES.items()
    ]
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": SCHEMA_ID,
        "title": "Heimdall protocol message",
        **COMMON,
        "allOf": branches,
    }


def faults(message: Any) -> list[str]:
    """Everything that is wrong with a message, common fields first; a valid message has none."""
    if not isinstance(message, dict):
        return ["message must be a JSON object"]
    found = [_common_fault(text, message) for text in schemas.faults(COMMON, message)]
    kind = message.get("type")
    if isinstance(kind, str) and kind in TYPES:
        found += [f"{kind}: {text}" for text in schemas.faults(TYPES[kind], message)]
    return found


def _common_fault(text: str, message: dict[str, Any]) -> str:
    # The schema has the long list of types; this text names only the wrong value.
    return f"type not in enum: {shown(message['type'])}" if text.startswith("type not in enum") else text


def read(text: str | bytes) -> tuple[Any, list[str]]:
    """The message in `text` (None when it is not JSON) and its faults. Never raises, whatever the bytes are."""
    try:
        message = loads(text.removeprefix(BOM) if isinstance(text, bytes) else text)
    except ValueError:
        return None, ["unparseable JSON"]
    return message, faults(message)
