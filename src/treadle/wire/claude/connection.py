"""One end of a conversation with Claude Code."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from treadle.errors import RemoteProtocolError
from treadle.wire.claude.records import (
    KNOWN,
    AnyRecord,
    Assistant,
    ControlCancel,
    ControlRequest,
    ControlResponse,
    Result,
    StreamEvent,
    System,
    Unknown,
    User,
    decode,
)
from treadle.wire.common.connection import CAP, Transitions
from treadle.wire.common.connection import Connection as Base
from treadle.wire.common.framing import LineSplitter
from treadle.wire.common.jsonline import json_line


class Connection(Base[AnyRecord]):
    """`host` is whoever starts the program, `agent` the program. Both may ask at any time."""

    SAYS: ClassVar = {
        "host": frozenset({ControlRequest, ControlResponse, User, Unknown}),
        "agent": frozenset(
            {ControlRequest, ControlResponse, ControlCancel, User, Assistant, StreamEvent, System, Result, Unknown}
        ),
    }
    START: ClassVar = "open"
    TRANSITIONS: ClassVar[Transitions] = {("open", kind): "open" for kind in (*KNOWN, Unknown)}

    def __init__(self, role: str, *, cap: int = CAP) -> None:
        super().__init__(role, cap=cap)
        self._lines = LineSplitter(cap)

    def decode(self, data: bytes) -> Iterable[AnyRecord | RemoteProtocolError]:
        for line in self._lines.feed(data):
            if isinstance(line, RemoteProtocolError):
                yield line
            elif line.strip():
                try:
                    yield decode(line)
                except RemoteProtocolError as error:
                    yield error

    def encode(self, message: AnyRecord) -> bytes:
        return json_line(message.record if isinstance(message, Unknown) else message)

    def end(self) -> list[AnyRecord | RemoteProtocolError]:
        rest = self._lines.end()
        return self.judge([decode(rest)]) if rest.strip() else []
