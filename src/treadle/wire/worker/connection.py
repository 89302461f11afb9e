"""The headless worker protocol: an agent as a process that another program owns, JSON lines on its stdin and stdout.

The client asks (`init`, `send`, `status`, `cancel`, `shutdown`), the worker answers; the client need not wait for
an answer before its next request.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from enum import Enum
from functools import cache, partial
from typing import Any, TypeAlias, get_args

import msgspec

from treadle.errors import LocalProtocolError, RemoteProtocolError
from treadle.wire.common import connection as base
from treadle.wire.common.framing import LineSplitter
from treadle.wire.common.jsontext import REPLACEMENT, repaired, repaired_line
from treadle.wire.worker import messages as wire

# The bytes of the worker wire: one JSON object per line, read tolerantly and written strictly.

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


Check: TypeAlias = Callable[[str, dict[str, Any]], str]
"""Why a request of this type, with these fields, is refused; empty if it is not."""

_encoder = msgspec.json.Encoder()
_BAD_JSON = (msgspec.DecodeError, RecursionError, UnicodeDecodeError, ValueError)


def encode(message: wire.Message) -> bytes:
    try:
        return _encoder.encode(message) + b"\n"
    except UnicodeEncodeError:
        return _encoder.encode(repaired(msgspec.to_builtins(message), REPLACEMENT)) + b"\n"


def encode_lines(lines: list[wire.EventLine]) -> bytes:
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
_requests = {name: msgspec.json.Decoder(kind) for name, kind in wire.REQUESTS.items()}
_RESPONSES = {kind.__struct_config__.tag for kind in get_args(wire.AnyResponse)}
_EVENTS = {kind.__struct_config__.tag for kind in get_args(wire.AnyPayload)}


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


def decode_request(line: bytes, check: Check | None = None) -> Any:
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
        request = _requests[head.type].decode(line)
        refusal = check(head.type, msgspec.json.decode(line)) if check is not None else ""
    except RecursionError:
        return BadLine(f"Invalid {head.type}: nested too deeply", id)
    except _BAD_JSON as error:
        return BadLine(f"Invalid {head.type}: {error}", id)
    return BadLine(refusal, id) if refusal else request


@cache
def _response() -> msgspec.json.Decoder[wire.AnyResponse]:
    """Made only when needed: a worker receives no responses, and building this is the slowest part of its start."""
    return msgspec.json.Decoder(wire.AnyResponse)


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
        return wire.UnknownMessage(kind=head.type, raw=line)
    if head.type != "event":
        return BadLine(f"Invalid {head.type}: {reason}", id)
    try:
        outer = _raw_event.decode(line)
        kind = _inner.decode(outer.event).event
        if isinstance(kind, str) and kind not in _EVENTS:
            event: Any = wire.UnknownMessage(kind=kind, raw=bytes(outer.event))
            return wire.EventLine(
                event, outer.event_seq, outer.send_id, outer.session_id, outer.task_id, outer.worker_id
            )
    except _BAD_JSON as error:
        reason = str(error)
    return BadLine(f"Invalid event: {reason}", id)


NOT_INITIALIZED = "Not initialized. Send 'init' first."


def _is_protocol_error(result: wire.SendResult) -> bool:
    return result.error is not None and result.error.code == "protocol_error"


def protocol_error(error: RemoteProtocolError) -> wire.SendResult:
    """The answer to a bad line: no session ids and no latencies, as nothing ran."""
    return wire.SendResult(
        id=id_of(error),
        status="error",
        tool_calls_made=(),
        iterations=0,
        error=wire.ErrorEnvelope(code="protocol_error", message=str(error), retryable=False, details=error.details),
    )


# What may be said when...


class State(Enum):
    NEW = "new"
    OPENING = "opening"
    READY = "ready"
    CLOSING = "closing"
    CLOSED = "closed"

    def __str__(self) -> str:
        return self.value


CLIENT = frozenset(
    {wire.Init, wire.Send, wire.StatusRequest, wire.CancelRequest, wire.Shutdown, wire.AnswerRequest, wire.Steer}
)
WORKER = frozenset(
    {wire.InitOk, wire.EventLine, wire.SendResult, wire.StatusOk, wire.ShutdownOk, wire.AnswerOk, wire.SteerOk}
)
FAILED = "the failure of the only init"
"""The table's name for an answer that reports the failure, be it an init_ok with an error or a result."""

NEW, OPENING, READY, CLOSING, CLOSED = State


def _stays(state: State, *kinds: Any) -> dict[tuple[State, Any], State]:
    return {(state, kind): state for kind in kinds}


TRANSITIONS: dict[tuple[State, Any], State] = {
    **_stays(NEW, wire.CancelRequest, wire.SendResult),
    (NEW, wire.Init): OPENING,
    (NEW, wire.Shutdown): CLOSING,
    # Requests may be written before init is answered. Its outcome is not known yet, so anything may follow it.
    **_stays(
        OPENING,
        wire.Init,
        wire.Send,
        wire.StatusRequest,
        wire.CancelRequest,
        wire.AnswerRequest,
        wire.Steer,
        wire.SendResult,
    ),
    (OPENING, wire.InitOk): READY,
    (OPENING, FAILED): NEW,
    (OPENING, wire.Shutdown): CLOSING,
    **_stays(READY, wire.Send, wire.StatusRequest, wire.CancelRequest, wire.AnswerRequest, wire.Steer),
    **_stays(READY, wire.EventLine, wire.SendResult, wire.StatusOk, wire.AnswerOk, wire.SteerOk),
    (READY, wire.Shutdown): CLOSING,
    # A shutdown waits for what was asked before it, which can still be watched, steered and cancelled.
    **_stays(CLOSING, wire.CancelRequest, wire.StatusRequest, wire.AnswerRequest, wire.Steer),
    **_stays(CLOSING, wire.InitOk, wire.EventLine, wire.SendResult, wire.StatusOk, wire.AnswerOk, wire.SteerOk),
    (CLOSING, wire.ShutdownOk): CLOSED,
    # From a later version: skipped in every state.
    **{(state, wire.UnknownMessage): state for state in State},
}
ANSWERED_BY: dict[type, type] = {
    wire.InitOk: wire.Init,
    wire.StatusOk: wire.StatusRequest,
    wire.ShutdownOk: wire.Shutdown,
    wire.AnswerOk: wire.AnswerRequest,
    wire.SteerOk: wire.Steer,
}


def _decrement(counts: Counter[Any], key: Any) -> None:
    """Remove counts that reach zero, because a connection may live long."""
    counts[key] -= 1
    if counts[key] <= 0:
        del counts[key]


class Connection(base.Connection[wire.Message]):
    """Beside the state, it remembers the open requests, by kind and id; for each id, how many bad lines are owed an
    answer; and the send whose events are coming, with the number of the next one."""

    SAYS = {"client": CLIENT | {wire.UnknownMessage}, "worker": WORKER | {FAILED, wire.UnknownMessage}}
    START = NEW
    TRANSITIONS = TRANSITIONS

    def __init__(self, role: str, *, cap: int = base.CAP, check: Check | None = None) -> None:
        super().__init__(role, cap=cap)
        self._lines = LineSplitter(cap)
        self._decode_line = decode_response if role == "client" else partial(decode_request, check=check)
        self._open: Counter[tuple[type, str]] = Counter()
        self._bad: Counter[str] = Counter()
        self._send: str | None = None
        self._seq = 0

    def kind(self, sender: str, message: Any) -> Any:
        kind = type(message)
        if self.state is not OPENING or not (
            kind is wire.SendResult or kind is wire.InitOk and message.error is not None
        ):
            return kind
        inits = sum(count for (asked, _), count in self._open.items() if asked is wire.Init)
        return (
            FAILED
            if inits == 1 and self._open[wire.Init, message.id] and self._answered_kind(message) is wire.Init
            else wire.SendResult
        )

    def decode(self, data: bytes) -> Iterable[Any]:
        decode_line = self._decode_line
        return [decode_line(line) if type(line) is bytes else line for line in self._lines.feed(data)]

    def judge(self, messages: Iterable[Any]) -> list[Any]:
        found: list[Any] = []
        for message in messages:
            if type(message) is wire.EventLine and message.send_id == self._send:
                # The next event of the current send: nearly every line is one.
                self._seq = message.event_seq + 1
                found.append(message)
                continue
            [item] = super().judge((message,))
            if isinstance(item, RemoteProtocolError) and self.role == "worker":
                # A bad line is owed an answer too, and may carry the id of a good request.
                self._bad[id_of(item)] += 1
            found.append(item)
        return found

    def end(self) -> list[Any]:
        rest = self._lines.end()
        if not rest.strip():
            return []
        last = self._decode_line(rest)
        if isinstance(last, RemoteProtocolError):
            cut = BadLine("The input ended inside a line", id_of(last))
            self.judge([cut])
            raise cut
        return self.judge([last])

    def encode(self, message: wire.Message) -> bytes:
        return encode(message)

    def send_events(self, lines: list[wire.EventLine]) -> bytes:
        """The bytes of consecutive events of one send: the same as each alone, at a third of the cost."""
        first, last = lines[0], lines[-1]
        reason = self.refusal(self.role, first)
        if reason is not None:
            raise LocalProtocolError(reason)
        if last.send_id != first.send_id or last.event_seq != first.event_seq + len(lines) - 1:
            raise LocalProtocolError(f"events of {first.send_id!r} are out of order")
        data = encode_lines(lines)
        self.record(self.role, last)
        return data

    def refusal(self, sender: str, message: Any) -> str | None:
        kind = type(message)
        if kind is wire.EventLine:
            return self._event_refusal(sender, message)
        if kind is wire.UnknownMessage:
            return None if sender != self.role else "only what the protocol names is sent"
        if kind in CLIENT and sender == "client":
            if self.state is NEW and kind not in (wire.Init, wire.CancelRequest, wire.Shutdown):
                return NOT_INITIALIZED
            if self.state is READY and kind is wire.Init:
                return "Already initialized."
            if self.state in (CLOSING, CLOSED):
                return "Shutting down." if (self.state, kind) not in TRANSITIONS else None
        refusal = super().refusal(sender, message)
        if refusal is None and kind in WORKER and not self._awaited(message):
            return f"no {base.name_of(kind)} is due for request {message.id!r}"
        return refusal

    def _event_refusal(self, sender: str, line: wire.EventLine) -> str | None:
        """Every event belongs to an open send. Our own numbers have no gaps; a peer's numbers are not checked."""
        if (self.state, wire.EventLine) not in TRANSITIONS or sender != "worker":
            return super().refusal(sender, line)
        if line.send_id != self._send and not self._open[wire.Send, line.send_id]:
            return f"an event for {line.send_id!r}, which is no open send"
        if sender == self.role and line.event_seq != (self._seq if line.send_id == self._send else 0):
            return f"event {line.event_seq} of {line.send_id!r} is out of order"
        return None

    def _awaited(self, message: Any) -> bool:
        if type(message) is wire.SendResult:
            # Any request may turn out to be one that cannot be served.
            return _is_protocol_error(message) or bool(
                self._open[wire.Send, message.id] or self._open[wire.Init, message.id]
            )
        return bool(self._open[ANSWERED_BY[type(message)], message.id])

    def refused(self, message: Any, reason: str) -> RemoteProtocolError:
        id = message.send_id if type(message) is wire.EventLine else message.id
        return BadLine(reason, id, untimely=message)

    def record(self, sender: str, message: Any) -> None:
        super().record(sender, message)
        kind = type(message)
        if kind is wire.EventLine:
            self._send, self._seq = message.send_id, message.event_seq + 1
        elif kind in CLIENT and kind is not wire.CancelRequest:
            self._open[kind, message.id] += 1
        elif kind in WORKER:
            self._answered(message)

    def _answered(self, message: Any) -> None:
        asked = self._answered_kind(message)
        if asked is None:
            _decrement(self._bad, message.id)
            return
        _decrement(self._open, (asked, message.id))
        if type(message) is wire.SendResult and message.id == self._send:
            self._send, self._seq = None, 0

    def _answered_kind(self, message: Any) -> type | None:
        """The kind of request that this message answers; None when the bad line was not a request."""
        kind = type(message)
        if kind is wire.SendResult and _is_protocol_error(message) and self._bad[message.id]:
            return None
        return ANSWERED_BY.get(kind) or (wire.Send if self._open[wire.Send, message.id] else wire.Init)
