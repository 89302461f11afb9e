"""One end of a conversation with Claude Code."""

from typing import ClassVar

from treadle.wire.claude import records
from treadle.wire.common.connection import LineConnection, Transitions
from treadle.wire.common.jsonline import json_line


class Connection(LineConnection[records.AnyRecord]):
    """`host` is the one who starts the program, `agent` the program. Both may ask at any time."""

    SAYS: ClassVar = {
        "host": frozenset({records.ControlRequest, records.ControlResponse, records.User, records.UnknownRecord}),
        "agent": frozenset({*records.KNOWN, records.UnknownRecord}),
    }
    START: ClassVar = "open"
    TRANSITIONS: ClassVar[Transitions] = {("open", kind): "open" for kind in (*records.KNOWN, records.UnknownRecord)}
    """A request of either end is answered while the other goes on to send, and a prompt may be sent ahead of the result
    of the one before: no message is illegal at any time, so one state is all there is."""

    def read(self, line: bytes) -> records.AnyRecord:
        return records.decode(line)

    def encode(self, message: records.AnyRecord) -> bytes:
        return json_line(message.record if isinstance(message, records.UnknownRecord) else message)
