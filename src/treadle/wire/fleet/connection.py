"""Which subject carries which type, and who may say it. NATS carries a subject beside its payload; here, and in
recordings, both are one line of JSON: {"subject": "fleet.ended.a1", "data": {...}}.
"""

import re
from typing import Any, NamedTuple

import msgspec

from treadle.errors import RemoteProtocolError
from treadle.wire.common import connection as base
from treadle.wire.common.connection import json_line
from treadle.wire.common.records import without_unknown
from treadle.wire.fleet import messages
from treadle.wire.fleet.keys import BUCKET, KEYS

OPEN = "open"


class Subject(NamedTuple):
    """A kind of subject: words in capitals stand for a name. `by` is the role that publishes there."""

    pattern: str
    by: str
    type: Any


SUBJECTS = (
    *(Subject(BUCKET + key.pattern, "client" if key.by else "scheduler", key.kind) for key in KEYS),
    *(Subject(f"fleet.in.node.NODE.{kind.KIND}", "client", kind) for kind in messages.REPORTS),
    Subject("fleet.in.wish.DO", "client", messages.AnyRequest),
    Subject("fleet.beat.NODE.node", "client", messages.NodeBeat),
    Subject("fleet.beat.NODE.ORDER.ATTEMPT", "client", messages.RunActivity),
    Subject("fleet.tell.NODE.ORDER", "scheduler", messages.AnyInstruction),
    Subject("fleet.notice.ORDER", "scheduler", messages.StallNotice),
    Subject("fleet.ended.ORDER", "scheduler", messages.OrderEnded),
    Subject("fleet.term.NODE.ORDER", "client", messages.AnyTerminalRequest),
)
"""`client` is everyone but the scheduler: commands, the page, nodes, runners. What each role may do there, the engine
enforces (`fleet/engine/server.py`)."""


class Published(NamedTuple):
    """A message with the subject that it is published on."""

    subject: str
    content: Any


class _RecordedLine(msgspec.Struct):
    subject: str
    data: msgspec.Raw


def kind_of(subject: str) -> Subject | None:
    return next((kind for kind, pattern in _PATTERNS if pattern.fullmatch(subject)), None)


def read(subject: str, data: bytes) -> Any:
    """The content of a message on this subject. Raises RemoteProtocolError when it is not of the subject's type."""
    kind = kind_of(subject)
    if kind is None:
        raise RemoteProtocolError(f"nothing is published on {subject[:200]!r}")
    return read_as(kind.type, data, subject)


def read_as(kind: Any, data: bytes, what: str) -> Any:
    """Fields that a later version added are skipped; what is there must have its type."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        try:
            return msgspec.convert(without_unknown(msgspec.json.decode(data), kind), kind)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise RemoteProtocolError(f"{what[:200]} cannot be read: {error}") from None


class Connection(base.LineConnection[Published]):
    """One end of a recorded conversation. The engine orders what is stored, and nothing here waits for an answer, so
    there is one state; which report counts is decided by the order's own states (records.py).
    """

    SAYS = {role: frozenset(kind.pattern for kind in SUBJECTS if kind.by == role) for role in ("client", "scheduler")}
    START = OPEN
    TRANSITIONS = {(OPEN, kind.pattern): OPEN for kind in SUBJECTS}

    def kind(self, sender: str, message: Published) -> str:
        found = kind_of(message.subject)
        return found.pattern if found is not None else message.subject

    def read(self, line: bytes) -> Published:
        try:
            envelope = msgspec.json.decode(line, type=_RecordedLine)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise RemoteProtocolError(f"a line is not a message of a fleet: {error}") from None
        return Published(envelope.subject, read(envelope.subject, bytes(envelope.data)))

    def encode(self, message: Published) -> bytes:
        return json_line({"subject": message.subject, "data": message.content})


_PATTERNS = [
    (kind, re.compile(re.sub(r"\b[A-Z]+\b(?!\.fleet)", r"[^.\\s]+", re.escape(kind.pattern)))) for kind in SUBJECTS
]
