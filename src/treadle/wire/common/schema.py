"""Checks JSON values against plain JSON Schema (draft-07) and says what is wrong with them.

The schema is data that can be published as it is. Only the keywords of our own schemas are supported: `enum` of texts,
`type` (also with "null" beside it), `minLength`, `minimum`, `minItems`, `items`, `properties`, `required` and
`additionalProperties`. Light, because small commands import this and a full validator would cost more than they do.
"""

from treadle.light import Any, TypeAlias
from treadle.wire.common.jsontext import dumps

Schema: TypeAlias = "dict[str, Any]"

TEXT: Schema = {"type": "string"}
NON_EMPTY: Schema = {"type": "string", "minLength": 1}
FLAG: Schema = {"type": "boolean"}


def one_of(*values: str) -> Schema:
    return {"enum": list(values)}


def list_of(item: Schema, at_least: int = 0) -> Schema:
    return {"type": "array", "items": item} | ({"minItems": at_least} if at_least else {})


def record(required: dict[str, Schema], optional: dict[str, Schema] | None = None, *, closed: bool = False) -> Schema:
    """An object with these fields; a closed one has no others."""
    schema: Schema = {"type": "object", "properties": required | (optional or {})}
    if required:
        schema["required"] = list(required)
    if closed:
        schema["additionalProperties"] = False
    return schema


def faults(schema: Schema, value: Any) -> list[str]:
    """Everything that is wrong with the value, in words that fit after its name; empty when it is valid."""
    if "enum" in schema:
        valid = isinstance(value, str) and value in schema["enum"]
        return [] if valid else [f"not in enum {dumps(schema['enum'])}: {shown(value)}"]
    if schema["type"] == "object" and isinstance(value, dict):
        return _object_faults(schema, value)
    return [] if _accepts(schema, value) else [f"must be {_requirement(schema)}"]


def _object_faults(schema: Schema, value: dict[str, Any]) -> list[str]:
    fields = schema["properties"]
    found = [f"missing required field: {name}" for name in schema.get("required", ()) if name not in value]
    for name, field in fields.items():
        if name in value:
            found += [f"{name} {fault}" for fault in faults(field, value[name])]
    if schema.get("additionalProperties") is False:
        found += [f"unknown field: {name}" for name in value if name not in fields]
    return found


def _accepts(schema: Schema, value: Any) -> bool:
    match schema["type"]:
        case [kind, "null"]:
            return value is None or _accepts({**schema, "type": kind}, value)
        case "string":
            return isinstance(value, str) and len(value) >= schema.get("minLength", 0)
        case "integer":
            # JSON has one kind of number, so 2.0 is an integer. In Python, but not in JSON, true is an integer too.
            whole = isinstance(value, int) and not isinstance(value, bool)
            whole = whole or isinstance(value, float) and value == value // 1
            return whole and ("minimum" not in schema or value >= schema["minimum"])
        case "boolean":
            return isinstance(value, bool)
        case "array":
            enough = isinstance(value, list) and len(value) >= schema.get("minItems", 0)
            return enough and all(not faults(schema["items"], item) for item in value)
    return False


def _requirement(schema: Schema) -> str:
    """What the schema demands, in words that fit after "must be "."""
    match schema["type"]:
        case [kind, "null"]:
            return f"{_requirement({**schema, 'type': kind})} or null"
        case "string":
            return "a non-empty string" if schema.get("minLength") else "a string"
        case "integer":
            return f"an integer of at least {schema['minimum']}" if "minimum" in schema else "an integer"
        case "boolean":
            return "true or false"
        case "array":
            more = f", with at least {schema['minItems']}" if "minItems" in schema else ""
            return f"an array in which each item is {_requirement(schema['items'])}{more}"
    return "an object"


def shown(value: Any, limit: int = 200) -> str:
    """A value for an error message: strings as they are, the rest as JSON, shortened to the limit."""
    try:
        text = value if isinstance(value, str) else dumps(value)
    except ValueError as error:
        text = f"({error})"
    return text if len(text) <= limit else text[:limit] + "..."
