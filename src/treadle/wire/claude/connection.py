"""One end of a conversation with Claude Code."""

from typing import ClassVar

from treadle.wire.claude.records import (
    KNOWN,
    AnyRecord,
    ControlRequest,
    ControlResponse,
    UnknownRecord,
    User,
    decode,
)
from treadle.wire.common.connection import LineConnection, Transitions
from treadle.wire.common.jsonline import json_line


class Connection(LineConnection[AnyRecord]):
    """`host` is the one who starts the program, `agent` the program. Both may ask at any time."""

    SAYS: ClassVar = {
        "host": frozenset({ControlRequest, ControlResponse, User, UnknownRecord}),
        "agent": frozenset({*KNOWN, UnknownRecord}),
    }
    START: ClassVar = "open"
    TRANSITIONS: ClassVar[Transitions] = {("open", kind): "open" for kind in (*KNOWN, UnknownRecord)}
    """A request of either end is answered while the other goes on to send, and a prompt may be sent ahead of the result
    of the one before: no message is illegal at any time, so one state is all there is."""

    def read(self, line: bytes) -> AnyRecord:
        return decode(line)

    def encode(self, message: AnyRecord) -> bytes:
        return json_line(message.record if isinstance(message, UnknownRecord) else message)
