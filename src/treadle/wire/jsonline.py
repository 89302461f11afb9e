"""A message as one line of JSON, whatever strings it holds."""

from __future__ import annotations

from typing import Any

import msgspec

_encoder = msgspec.json.Encoder()


def json_line(message: Any) -> bytes:
    try:
        return _encoder.encode(message) + b"\n"
    except UnicodeEncodeError:
        # Half a surrogate pair, as a file name or a program's output can hold, cannot be written as UTF-8.
        return _encoder.encode(mended(msgspec.to_builtins(message))) + b"\n"


def mended(value: Any) -> Any:
    """The value with every string made fit for UTF-8."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {mended(key): mended(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [mended(item) for item in value]
    return value
