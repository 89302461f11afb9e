"""What every wire has in common: one end of a conversation as a value, without I/O.

A protocol is a folder beside `common`. The contract test finds it by listing the folders. To add one, write:

    __init__.py        a docstring: what the protocol is, who speaks, where its specification is; it imports nothing
    connection.py      `class Connection`, made from the class below: the tables, `decode` and `encode`
    messages.py        frozen msgspec structs tagged as on the wire, or plain objects where the protocol is open-ended
    events.py          the way to and from `treadle.events`, when agents speak on it
    tests/wire/conversations/NAME.py      `SAMPLES`: legal conversations, lists of (role, message), with every kind of
                       message; `CROSSINGS`: messages that may pass each other on the way
    tests/golden/translations/NAME.txt    what it makes of events and of lines

`decode` cuts lines or frames (`framing`) and gives for each a message or a `RemoteProtocolError` in its place; it
raises only when the stream cannot be followed any more. Decode the envelope first and its content second, so that
additions of a later version can be skipped. If each line is a message, start from `LineConnection` and implement
`read`. `end` returns what the last bytes still hold, and raises when the peer stopped inside a message.

A folder without a conversation (a file format, or A2A, in which each HTTP request stands alone) has no `Connection`:
`NO_CONVERSATIONS` in `tests/wire/conversations/__init__.py` names it with the reason.
"""

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

import msgspec

from treadle.errors import LocalProtocolError, RemoteProtocolError
from treadle.wire.common.framing import LINE_CAP, LineSplitter
from treadle.wire.common.jsontext import repaired

# A message as one line of JSON, whatever characters its strings hold.

_encoder = msgspec.json.Encoder()


def json_line(message: Any) -> bytes:
    try:
        return _encoder.encode(message) + b"\n"
    except UnicodeEncodeError:
        return _encoder.encode(repaired(msgspec.to_builtins(message))) + b"\n"


CAP = LINE_CAP
"""The longest line or frame that is taken, in bytes."""

M = TypeVar("M")
Transitions: TypeAlias = Mapping[tuple[Any, Any], Hashable]
Conversation: TypeAlias = list[tuple[str, Any]]


class Connection(Generic[M]):
    """`receive` bytes to get messages, `send` a message to get bytes; `state` follows both.

    A subclass gives the tables and `decode`/`encode`. What a table cannot say (ids that must match, counters that must
    grow) goes into `refusal`, which only looks, and `record`, which remembers.
    """

    SAYS: ClassVar[Mapping[str, frozenset[Any]]]
    """Each of the two roles, and the kinds of message it may send."""
    START: ClassVar[Hashable]
    TRANSITIONS: ClassVar[Transitions]
    """(state, kind of message) -> state after it. What is not here may not be said.

    A row for (state, RemoteProtocolError) says where a message that cannot be taken leads. Without one it changes
    nothing.
    """

    def __init__(self, role: str, *, cap: int = CAP) -> None:
        if role not in self.SAYS:
            raise ValueError(f"role must be one of {', '.join(self.SAYS)}, not {role!r}")
        self.role = role
        self.peer = next(other for other in self.SAYS if other != role)
        self.cap = cap
        self.state = self.START

    def kind(self, sender: str, message: M) -> Any:
        """The name of this message in the tables: its type, or another name where messages are plain JSON objects."""
        return type(message)

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.Connection {self.role} {self.state}>"

    def receive(self, data: bytes) -> list[M | RemoteProtocolError]:
        """The messages that these bytes complete, in order.

        A message that cannot be read, or may not be said now, leaves its error in its place and changes no state: the
        messages after it still count. Bytes that leave no way to find the next message raise the error instead.
        """
        return self.judge(self.decode(data))

    def judge(self, messages: Iterable[M | RemoteProtocolError]) -> list[M | RemoteProtocolError]:
        """Hold each message against the tables, and move the state by those that pass."""
        found: list[M | RemoteProtocolError] = []
        for message in messages:
            if not isinstance(message, RemoteProtocolError):
                reason = self.refusal(self.peer, message)
                if reason is None:
                    self.record(self.peer, message)
                else:
                    message = self.refused(message, reason)
            if isinstance(message, RemoteProtocolError):
                self.state = self.TRANSITIONS.get((self.state, RemoteProtocolError), self.state)
            found.append(message)
        return found

    def end(self) -> list[M | RemoteProtocolError]:
        """The peer will send nothing more: what its last bytes still amount to, such as a line without its newline.

        Raises RemoteProtocolError when it stopped inside a message.
        """
        raise NotImplementedError

    def send(self, message: M) -> bytes:
        """The bytes of this message. Raises LocalProtocolError, and changes nothing, when it may not be said now."""
        reason = self.refusal(self.role, message)
        if reason is not None:
            raise LocalProtocolError(reason)
        data = self.encode(message)
        self.record(self.role, message)
        return data

    def decode(self, data: bytes) -> Iterable[M | RemoteProtocolError]:
        raise NotImplementedError

    def encode(self, message: M) -> bytes:
        raise NotImplementedError

    def refusal(self, sender: str, message: M) -> str | None:
        """Why `sender` may not say this now; None when it may."""
        kind = self.kind(sender, message)
        if kind not in self.SAYS[sender]:
            return f"a {sender} does not send {name_of(kind)}"
        if (self.state, kind) not in self.TRANSITIONS:
            return f"{name_of(kind)} may not be sent while {self.state}"
        return None

    def refused(self, message: M, reason: str) -> RemoteProtocolError:
        """The error that stands for a received message which may not be said now."""
        return RemoteProtocolError(reason)

    def record(self, sender: str, message: M) -> None:
        self.state = self.TRANSITIONS[self.state, self.kind(sender, message)]


class LineConnection(Connection[M]):
    """A wire whose messages are lines, each of them readable without the others. Blank lines mean nothing."""

    def __init__(self, role: str, *, cap: int = CAP) -> None:
        super().__init__(role, cap=cap)
        self._lines = LineSplitter(cap)

    def read(self, line: bytes) -> M:
        """The message on this line. Raises RemoteProtocolError when there is none."""
        raise NotImplementedError

    def decode(self, data: bytes) -> Iterable[M | RemoteProtocolError]:
        for line in self._lines.feed(data):
            if isinstance(line, RemoteProtocolError):
                yield line
            elif line.strip():
                try:
                    yield self.read(line)
                except RemoteProtocolError as error:
                    yield error

    def end(self) -> list[M | RemoteProtocolError]:
        rest = self._lines.end()
        return self.judge([self.read(rest)]) if rest.strip() else []


def name_of(kind: Any) -> str:
    """What the protocol calls this kind of message: its tag there, if it has one."""
    config = getattr(kind, "__struct_config__", None)
    return str(config.tag if config and config.tag else getattr(kind, "__name__", kind))
