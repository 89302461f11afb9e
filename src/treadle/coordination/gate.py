"""The only part that reads a gate's report.json, and only three of its fields; the rest is up to the gate."""

import os

from treadle.coordination.planning import Planning, read_text
from treadle.errors import ConfigError, NotFound
from treadle.light import Any
from treadle.wire.common.jsontext import loads


def to_message(planning: Planning, report: str, sender: str, msg_id: str, wave: str = "") -> dict[str, Any]:
    """A gate_report message that points to the report without copying its content."""
    path = os.path.abspath(report)
    text = read_text(path)
    if text is None:
        raise NotFound(f"no report at {path}", hint="a gate that left no report has not passed: run it again")
    try:
        found = loads(text)
    except ValueError as error:
        raise ConfigError(f"{path} is not a report: {error}") from None
    if not isinstance(found, dict) or not isinstance(found.get("gate_id"), str) or not found["gate_id"]:
        raise ConfigError(f"{path} is not a report: it names no gate_id")
    if found.get("status") not in ("pass", "fail"):
        raise ConfigError(f"{path} is not a report: its status is neither pass nor fail")
    message: dict[str, Any] = {
        "type": "gate_report",
        "from": sender,
        "msg_id": msg_id,
        "ts": planning.now(),
        "gate_id": found["gate_id"],
        "status": found["status"],
        "report_ref": path,
    }
    if chosen := wave or _wave(found.get("wave")):
        message["wave"] = chosen
    planning.note("gate", "to-message", f"{message['gate_id']}/{message['status']} ref={path}")
    return message


def _wave(value: Any) -> str:
    return value if isinstance(value, str) else str(value) if isinstance(value, (int, float)) else ""
