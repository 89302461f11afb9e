"""Turns a JSON Schema into a llama.cpp grammar that allows no white space.

llama.cpp makes grammars of schemas itself, but those allow line breaks and indentation, which small models write and
which cost up to half of the tokens of a short call. This supports what schemas of calls consist of: a choice of objects
whose values are constants, choices of texts, texts with a maximum length, numbers, booleans, and lists of these.
"""

import json
from typing import Any

_TERMINALS = r"""
char ::= [^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt/] | "u" [0-9a-fA-F]{4})
number ::= "-"? ("0" | [1-9] [0-9]{0,15}) ("." [0-9]{1,15})?
boolean ::= "true" | "false"
"""


class Unsuitable(ValueError):
    """A schema with something that this does not support."""


def compact(schema: dict[str, Any]) -> str:
    return f"root ::= {_rule(schema)}\n{_TERMINALS.strip()}\n"


def _rule(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return "(" + " | ".join(map(_rule, schema["anyOf"])) + ")"
    if "const" in schema:
        return _literal(json.dumps(schema["const"], separators=(",", ":")))
    if "enum" in schema:
        return "(" + " | ".join(_literal(json.dumps(value)) for value in schema["enum"]) + ")"
    match schema.get("type"):
        case "string":
            most = schema.get("maxLength", "")
            return f'"\\"" char{{0,{most}}} "\\""' if most else '"\\"" char* "\\""'
        case "object":
            return _object(schema)
        case "array":
            item, most = _rule(schema["items"]), schema.get("maxItems")
            more = f"{{0,{most - 1}}}" if most else "*"
            return f'"[" {item} ("," {item}){more} "]"'
        case "integer" | "number":
            return "number"
        case "boolean":
            return "boolean"
    raise Unsuitable(f"no grammar for {schema}")


def _object(schema: dict[str, Any]) -> str:
    properties = schema.get("properties", {})
    if list(properties) != list(schema.get("required", ())) or not properties:
        raise Unsuitable("only objects all of whose properties are required")
    pieces = [f"{_literal(json.dumps(name) + ':')} {_rule(value)}" for name, value in properties.items()]
    return '"{" ' + ' "," '.join(pieces) + ' "}"'


def _literal(text: str) -> str:
    """A terminal in the notation of llama.cpp, which escapes like JSON."""
    return json.dumps(text)
