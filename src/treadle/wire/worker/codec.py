"""The bytes of the worker wire: one JSON object per line, read tolerantly and written strictly."""

import re
from functools import cache
from typing import Any, get_args

import msgspec

from treadle.errors import RemoteProtocolError
from treadle.wire.common.jsontext import REPLACEMENT, repaired, repaired_line
from treadle.wire.worker.messages import REQUESTS, AnyPayload, AnyResponse, EventLine, Message, UnknownMessage

UNKNOWN_ID = "unknown"


class BadLine(RemoteProtocolError):
    """A line that cannot be acted on. `id` is the request's id, if that could be read.

    `untimely` is the message itself when it was well formed but came at the wrong time.
    """

    def __init__(self, message: str, id: str = UNKNOWN_ID, details: Any = None, untimely: Any = None) -> None:
        super().__init__(message, details=details)
        self.id = id
        self.untimely = untimely


def id_of(error: RemoteProtocolError) -> str:
    return error.id if isinstance(error, BadLine) else UNKNOWN_ID


_encoder = msgspec.json.Encoder()
_BAD_JSON = (msgspec.DecodeError, RecursionError, UnicodeDecodeError, ValueError)


def encode(message: Message) -> bytes:
    try:
        return _encoder.encode(message) + b"\n"
    except UnicodeEncodeError:
        return _encoder.encode(repaired(msgspec.to_builtins(message), REPLACEMENT)) + b"\n"


def encode_lines(lines: list[EventLine]) -> bytes:
    try:
        return _encoder.encode_lines(lines)
    except UnicodeEncodeError:
        return b"".join([encode(line) for line in lines])


class _Envelope(msgspec.Struct, frozen=True):
    type: Any = None
    id: Any = None


class _Inner(msgspec.Struct, frozen=True):
    event: Any = None


class _RawEventLine(msgspec.Struct, frozen=True, tag_field="type", tag="event"):
    event: msgspec.Raw
    event_seq: int
    send_id: str
    session_id: str | None = None
    task_id: str | None = None
    worker_id: str | None = None


_envelope = msgspec.json.Decoder(_Envelope)
_inner = msgspec.json.Decoder(_Inner)
_raw_event = msgspec.json.Decoder(_RawEventLine)
_requests = {name: msgspec.json.Decoder(kind) for name, kind in REQUESTS.items()}
_RESPONSES = {kind.__struct_config__.tag for kind in get_args(AnyResponse)}
_EVENTS = {kind.__struct_config__.tag for kind in get_args(AnyPayload)}


def _open_envelope(line: bytes) -> _Envelope | BadLine:
    try:
        return _envelope.decode(line)
    except msgspec.ValidationError:
        return BadLine("Expected JSON object")
    except RecursionError:
        return BadLine("Invalid JSON", details="nested too deeply")
    except _BAD_JSON as error:
        return BadLine("Invalid JSON", details=str(error))


_LEADING = rb'\s*\{(?:\s*"[^"\\]*"\s*:\s*(?:"(?:[^"\\]|\\.)*"|-?[\d.]+|true|false|null)\s*,)*'
_ID = re.compile(_LEADING + rb'\s*"id"\s*:\s*("(?:[^"\\]|\\.)*")', re.S)


def _id_of_broken_line(line: bytes) -> str:
    """The id in a line that is not valid JSON, if it is among the plain members at the beginning."""
    found = _ID.match(line[:65536])
    try:
        return msgspec.json.decode(repaired_line(found[1]), type=str) if found is not None else UNKNOWN_ID
    except (msgspec.DecodeError, UnicodeDecodeError):
        return UNKNOWN_ID


def decode_request(line: bytes) -> Any:
    """A request, or the error to answer with."""
    if b"\\u" in line:
        line = repaired_line(line)
    try:
        line.decode()
        readable = True
    except UnicodeDecodeError:
        line, readable = line.decode(errors="replace").encode(), False
    head = _open_envelope(line)
    if isinstance(head, BadLine):
        head.id = _id_of_broken_line(line)
        return head
    id = head.id if isinstance(head.id, str) else UNKNOWN_ID
    if not readable:
        return BadLine("Invalid UTF-8", id)
    if not isinstance(head.type, str):
        return BadLine("Missing 'type' field", id)
    if not isinstance(head.id, str):
        return BadLine("Missing 'id' field")
    if head.type not in _requests:
        return BadLine(f"Unknown request type: {head.type[:100]!r}", id)
    try:
        return _requests[head.type].decode(line)
    except RecursionError:
        return BadLine(f"Invalid {head.type}: nested too deeply", id)
    except _BAD_JSON as error:
        return BadLine(f"Invalid {head.type}: {error}", id)


@cache
def _response() -> msgspec.json.Decoder[AnyResponse]:
    """Made only when needed: a worker receives no responses, and building this is the slowest part of its start."""
    return msgspec.json.Decoder(AnyResponse)


def decode_response(line: bytes) -> Any:
    """A response; Unknown for one that a later worker might send; or an error.

    The envelope is decoded first and its content second, so that an unknown event can be skipped. Nearly every line is
    known, so both are first tried in one step.
    """
    try:
        return _response().decode(line)
    except _BAD_JSON as error:
        fixed = b"\\u" in line and repaired_line(line)
        return decode_response(fixed) if fixed and fixed != line else _decode_strange(line, str(error))
    except RecursionError:
        return BadLine("Invalid JSON", details="nested too deeply")


def _decode_strange(line: bytes, reason: str) -> Any:
    head = _open_envelope(line)
    if isinstance(head, BadLine):
        return head
    id = head.id if isinstance(head.id, str) else UNKNOWN_ID
    if not isinstance(head.type, str):
        return BadLine("Missing 'type' field", id)
    if head.type not in _RESPONSES:
        return UnknownMessage(kind=head.type, raw=line)
    if head.type != "event":
        return BadLine(f"Invalid {head.type}: {reason}", id)
    try:
        outer = _raw_event.decode(line)
        kind = _inner.decode(outer.event).event
        if isinstance(kind, str) and kind not in _EVENTS:
            event: Any = UnknownMessage(kind=kind, raw=bytes(outer.event))
            return EventLine(event, outer.event_seq, outer.send_id, outer.session_id, outer.task_id, outer.worker_id)
    except _BAD_JSON as error:
        reason = str(error)
    return BadLine(f"Invalid event: {reason}", id)
