"""Messages against the JSON Schema that their protocol publishes: `PROTOCOL.json`, which a tool of the tests writes."""

import base64
import functools
import json
import os
import re
from typing import Any

from treadle.io.files import read

TYPES: dict[str, Any] = {
    **{"object": dict, "array": list, "string": str, "boolean": bool},
    **{"number": (int, float), "integer": int, "null": type(None)},
}
SHOWN = 100
"""Characters of a wrong value that are shown."""
PUBLISHED = {"acp": "acp", "mcp": "mcp", "ledger": "mcp"}


class ShapeWatch:
    """What was wrong with the messages of a program, each fault once, with the first message that had it."""

    def __init__(self, protocol: str = "") -> None:
        self.wrong: dict[str, Any] = {}
        self.fresh: list[str] = []
        """What was wrong since this was emptied."""
        self._published = published(PUBLISHED[protocol]) if protocol in PUBLISHED else None
        self.judges = self._published is not None

    def note(self, why: str, line: Any) -> None:
        self.wrong.setdefault(why, line)
        self.fresh.append(why)

    def look(self, line: dict[str, Any], asked: str = "") -> bool:
        """Whether a message is as it must be; `asked` is the method of the request that it answers."""
        method, found = str(line.get("method", "")), ""
        if self._published is None or (not asked and method.startswith("_")):
            return True
        group = "results" if asked else "asked" if "id" in line else "told"
        if "error" in line:
            found = fault(self._published["kinds"], ERROR, line["error"], "error")
        elif (name := self._published[group].get(asked or method)) is not None:
            value = line.get("result" if asked else "params", {} if not asked else None)
            kinds = self._published["kinds"]
            if value is not None or kinds[name].get("required"):
                found = fault(kinds, kinds[name], value, "result" if asked else "params")
        elif not asked:
            found = f"the protocol has no such {'request' if 'id' in line else 'notification'} of a program"
        if found:
            self.note(f"{asked or method}: {found}", line)
        return not found


ERROR = {
    "type": "object",
    "properties": {"code": {"type": "integer"}, "message": {"type": "string"}},
    "required": ["code", "message"],
}


@functools.cache
def published(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(read(os.path.join(os.path.dirname(__file__), f"{name}.json")))
    return found


def fault(kinds: dict[str, Any], schema: Any, value: Any, at: str = "it") -> str:
    """What is wrong with the value first, by all keywords that the published schemas use; empty: nothing."""
    if not isinstance(schema, dict):
        return "" if schema is not False else f"{at} is not allowed"
    if "$ref" in schema and (found := fault(kinds, kinds.get(schema["$ref"], {}), value, at)):
        return found
    if value != schema.get("const", value) or value not in schema.get("enum", [value]):
        return f"{at} is {_short(value)}"
    if (kind := schema.get("type")) and not any(_is(value, one) for one in ([kind] if isinstance(kind, str) else kind)):
        return f"{at} is not of type {kind if isinstance(kind, str) else ' or '.join(kind)}"
    if (why := _bounds(schema, value)) or (why := _format(str(schema.get("format")), value)):
        return f"{at} {why}"
    if "not" in schema and not fault(kinds, schema["not"], value, at):
        return f"{at} is what it must not be"
    parts = [(one, value, at) for one in schema.get("allOf", [])]
    if isinstance(value, dict):
        if missing := [name for name in schema.get("required", []) if name not in value]:
            return f"{at}.{missing[0]} is missing"
        fields, others = schema.get("properties", {}), schema.get("additionalProperties", True)
        parts += [(fields.get(name, others), inner, f"{at}.{name}") for name, inner in value.items()]
    elif isinstance(value, list):
        parts += [(schema.get("items", True), inner, f"{at}[]") for inner in value]
    choices = [_chosen(kinds, schema[word], value, at) for word in ("anyOf", "oneOf") if word in schema]
    return next(filter(None, [*(fault(kinds, *part) for part in parts), *choices]), "")


def _short(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)[:SHOWN]


def _chosen(kinds: dict[str, Any], choices: list[Any], value: Any, at: str) -> str:
    """What is wrong with the value for the choice that it was meant as: the one whose constants it has."""
    found = [fault(kinds, choice, value, at) for choice in choices]
    if "" in found:
        return ""
    marked = [_marks(kinds, choice) for choice in choices]
    there = [marks and all(_has(value, *mark) for mark in marks.items()) for marks in marked]
    meant = [why for why, has in zip(found, there, strict=True) if has]
    meant = meant or [why for why, choice in zip(found, choices, strict=True) if choice != {"type": "null"}]
    return meant[0] if len(meant) == 1 else f"{at} is none of what it may be: {_short(value)}"


def _has(value: Any, name: str, constant: Any) -> bool:
    return isinstance(value, dict) and value.get(name) == constant


def _marks(kinds: dict[str, Any], choice: Any) -> dict[str, Any]:
    """The constants by which a choice is told from the others."""
    fields = {**kinds.get(choice.get("$ref"), {}), **choice}.get("properties", {})
    return {name: one["const"] for name, one in fields.items() if isinstance(one, dict) and "const" in one}


def _is(value: Any, kind: str) -> bool:
    """In Python, but not in JSON, true is a number; in JSON, but not in Python, 2.0 is an integer."""
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, TYPES.get(kind, object)) or (
        kind == "integer" and isinstance(value, float) and value.is_integer()
    )


def _bounds(schema: dict[str, Any], value: Any) -> str:
    size = len(value) if isinstance(value, str) else schema.get("minLength", 0)
    if size < schema.get("minLength", 0):
        return "is too short"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    inside = schema.get("minimum", value) <= value <= schema.get("maximum", value)
    return "" if inside else f"is out of its bounds: {value}"


def _format(name: str, value: Any) -> str:
    if name == "uri" and isinstance(value, str) and not re.match("[A-Za-z][A-Za-z0-9+.-]*:", value):
        return f"is no URI: {_short(value)}"
    if name == "byte" and isinstance(value, str):
        try:
            base64.b64decode(value, validate=True)
        except ValueError:
            return f"is no base64: {_short(value)}"
    return ""
