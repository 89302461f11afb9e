"""JSON written without the json module, whose import would double the supervisor's start and grow its memory."""

from __future__ import annotations

import time

_ESCAPES = {code: f"\\u{code:04x}" for code in (*range(0x20), 0x7F, 0x2028, 0x2029)}
_ESCAPES |= {ord('"'): '\\"', ord("\\"): "\\\\", 0x0A: "\\n", 0x0D: "\\r", 0x09: "\\t"}


def quote(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'


def dumps(value: object) -> str:
    """One line of JSON for None, booleans, numbers, text, lists and string-keyed dictionaries."""
    if value is None:
        return "null"
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, str):
        return quote(value.encode("utf-8", "replace").decode())  # lone surrogates come from odd file names
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{quote(key)}: {dumps(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(dumps, value)) + "]"
    raise TypeError(f"{type(value).__name__} has no place in a record")


def timestamp(seconds: float) -> str:
    """UTC, with milliseconds."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{int(seconds * 1000) % 1000:03d}Z"
