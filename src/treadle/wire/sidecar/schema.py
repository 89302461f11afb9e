"""JSON Schemas of the sidecar protocol, made from its types."""

from typing import Any

import msgspec

from treadle.wire.sidecar import connection
from treadle.wire.sidecar.receipts import CAPABILITIES, CONTRACT, AnyAgentEvent, Receipt

TYPES: dict[str, Any] = {
    "work-order": connection.WorkOrder,
    "receipt": Receipt,
    "policy": connection.PolicyProfile,
    "event": AnyAgentEvent,
    "envelope": connection.Envelope,
    "hello": connection.SidecarHello,
    "run": connection.Run,
    "event-envelope": connection.RunEvent,
    "final": connection.Final,
    "fatal": connection.Fatal,
    "cancel": connection.CancelRun,
    "ping": connection.Ping,
    "pong": connection.Pong,
}


def schema(name: str) -> dict[str, Any]:
    """The schema of one of `TYPES`. Fields that it does not name are allowed: a reader ignores them."""
    (made,), parts = msgspec.json.schema_components([TYPES[name]], ref_template="#/$defs/{name}")
    whole = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"{CONTRACT} {name}",
        **made,
        "$defs": parts,
    }
    _correct(whole)
    return whole


def _correct(node: Any) -> None:
    """Add what the types cannot express: the names that a manifest may hold, and that unknown fields are no error."""
    if isinstance(node, list):
        for inside in node:
            _correct(inside)
    if not isinstance(node, dict):
        return
    if node.get("additionalProperties") is False:
        del node["additionalProperties"]
    manifest = node.get("properties", {}).get("capabilities")
    if manifest is not None:
        manifest["propertyNames"] = {"enum": list(CAPABILITIES)}
    for inside in node.values():
        _correct(inside)


def text(name: str) -> str:
    return msgspec.json.format(msgspec.json.encode(schema(name)), indent=2).decode() + "\n"
