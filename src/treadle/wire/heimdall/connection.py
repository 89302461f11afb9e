"""Validate on receipt (seed 003): one message per line; an invalid one gets one retry, and a second failure escalates.

The sender writes lines until one is accepted. The receiver sends nothing on this wire: it writes its findings to its
own output and to the audit trail.
"""

from collections.abc import Iterable
from typing import Any

from treadle.errors import RemoteProtocolError
from treadle.wire.common import connection as base
from treadle.wire.common.framing import LineSplitter
from treadle.wire.common.jsontext import dumps
from treadle.wire.heimdall.messages import read

WAITING, RETRYING, ACCEPTED, ESCALATED = "waiting", "retrying", "accepted", "escalated"
MESSAGE = "message"


class Invalid(RemoteProtocolError):
    """A line that is not a valid message, and everything that is wrong with it."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("; ".join(faults))
        self.faults = faults


class Connection(base.Connection[dict[str, Any]]):
    SAYS = {"sender": frozenset({MESSAGE}), "receiver": frozenset()}
    START = WAITING
    TRANSITIONS = {
        (WAITING, MESSAGE): ACCEPTED,
        (WAITING, RemoteProtocolError): RETRYING,
        (RETRYING, MESSAGE): ACCEPTED,
        (RETRYING, RemoteProtocolError): ESCALATED,
    }

    def __init__(self, role: str, *, cap: int = base.CAP) -> None:
        super().__init__(role, cap=cap)
        self._lines = LineSplitter(cap)

    def kind(self, sender: str, message: Any) -> str:
        return MESSAGE

    def decode(self, data: bytes) -> Iterable[dict[str, Any] | RemoteProtocolError]:
        return [_message(line) for line in self._lines.feed(data) if isinstance(line, Exception) or line.strip()]

    def end(self) -> list[dict[str, Any] | RemoteProtocolError]:
        """A last line counts even without its newline. Raises Invalid when it is not a valid message."""
        rest = self._lines.end()
        found = self.judge([_message(rest)] if rest.strip() else [])
        for item in found:
            if isinstance(item, RemoteProtocolError):
                raise item
        return found

    def encode(self, message: dict[str, Any]) -> bytes:
        return dumps(message).encode() + b"\n"


def _message(line: bytes | RemoteProtocolError) -> dict[str, Any] | RemoteProtocolError:
    if isinstance(line, RemoteProtocolError):
        return Invalid([str(line)])
    message, faults = read(line)
    return Invalid(faults) if faults else message
