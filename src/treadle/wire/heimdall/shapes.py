"""The shape of a JSON value, said once: the published schema and the check both come from it.

A shape has `schema`, its JSON Schema (draft-07), and `faults(value)`, which says what is wrong with a value in words
that fit after a field's name ("must be a non-empty string"). A value has no faults exactly when the schema accepts it.
Light: `dataclasses` and msgspec cost several interpreter starts, and the small commands import this.
"""

from __future__ import annotations

from treadle.wire.common.jsontext import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Shape:
    schema: dict[str, Any]
    said: str
    """What it must be, after "must be "."""

    def accepts(self, value: Any) -> bool:
        raise NotImplementedError

    def faults(self, value: Any) -> list[str]:
        return [] if self.accepts(value) else [f"must be {self.said}"]


class Text(Shape):
    def __init__(self, min_length: int = 0) -> None:
        self.min_length = min_length
        self.schema = {"type": "string"} | ({"minLength": min_length} if min_length else {})
        self.said = "a non-empty string" if min_length else "a string"

    def accepts(self, value: Any) -> bool:
        return isinstance(value, str) and len(value) >= self.min_length


class Integer(Shape):
    def __init__(self, minimum: int | None = None) -> None:
        self.minimum = minimum
        self.schema = {"type": "integer"} | ({} if minimum is None else {"minimum": minimum})
        self.said = "an integer" if minimum is None else f"an integer of at least {minimum}"

    def accepts(self, value: Any) -> bool:
        # JSON has one kind of number: 2.0 is an integer, and true is none.
        whole = (
            isinstance(value, int) and not isinstance(value, bool) or isinstance(value, float) and value == value // 1
        )
        return whole and (self.minimum is None or value >= self.minimum)


class Flag(Shape):
    schema = {"type": "boolean"}
    said = "true or false"

    def accepts(self, value: Any) -> bool:
        return isinstance(value, bool)


class OneOf(Shape):
    def __init__(self, *values: str) -> None:
        self.values = values
        self.schema = {"enum": list(values)}
        self.said = f"one of {dumps(list(values))}"

    def accepts(self, value: Any) -> bool:
        return isinstance(value, str) and value in self.values

    def faults(self, value: Any) -> list[str]:
        return [] if self.accepts(value) else [f"not in enum {dumps(list(self.values))}: {shown(value)}"]


class Maybe(Shape):
    """The shape, or null."""

    def __init__(self, shape: Text | Integer) -> None:
        self.shape = shape
        self.schema = {**shape.schema, "type": [shape.schema["type"], "null"]}
        self.said = f"{shape.said} or null"

    def accepts(self, value: Any) -> bool:
        return value is None or self.shape.accepts(value)


class ListOf(Shape):
    def __init__(self, item: Text | Integer, min_items: int = 0) -> None:
        self.item = item
        self.min_items = min_items
        self.schema = {"type": "array", "items": item.schema} | ({"minItems": min_items} if min_items else {})
        self.said = f"an array in which each item is {item.said}" + (
            f", with at least {min_items}" if min_items else ""
        )

    def accepts(self, value: Any) -> bool:
        return isinstance(value, list) and len(value) >= self.min_items and all(map(self.item.accepts, value))


class Record(Shape):
    """An object with named fields. A closed one has no others."""

    said = "an object"

    def __init__(
        self, required: dict[str, Shape], optional: dict[str, Shape] | None = None, *, closed: bool = False
    ) -> None:
        self.required = required
        self.fields = required | (optional or {})
        self.closed = closed
        self.schema = {"type": "object", "properties": {name: shape.schema for name, shape in self.fields.items()}}
        if required:
            self.schema["required"] = list(required)
        if closed:
            self.schema["additionalProperties"] = False

    def accepts(self, value: Any) -> bool:
        return not self.faults(value)

    def faults(self, value: Any) -> list[str]:
        if not isinstance(value, dict):
            return [f"must be {self.said}"]
        found = [f"missing required field: {name}" for name in self.required if name not in value]
        for name, shape in self.fields.items():
            if name in value:
                found += [f"{name} {fault}" for fault in shape.faults(value[name])]
        if self.closed:
            found += [f"unknown field: {name}" for name in value if name not in self.fields]
        return found


def shown(value: Any, limit: int = 200) -> str:
    """A value within an error text: strings as they are, the rest as JSON, and never very long."""
    try:
        text = value if isinstance(value, str) else dumps(value)
    except ValueError as error:
        text = f"({error})"
    return text if len(text) <= limit else text[:limit] + "..."
