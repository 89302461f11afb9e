"""A message as one line of JSON, whatever characters its strings hold."""

from typing import Any

import msgspec

from treadle.wire.common.jsontext import repaired

_encoder = msgspec.json.Encoder()


def json_line(message: Any) -> bytes:
    try:
        return _encoder.encode(message) + b"\n"
    except UnicodeEncodeError:
        return _encoder.encode(repaired(msgspec.to_builtins(message))) + b"\n"
