"""What may be said when on the terminal wire, at either end.

Light: it has the shape of `wire.common.connection.Connection` but is not made from it, because the supervisor and the
small commands import it.
"""

from __future__ import annotations

from collections.abc import Iterator

from treadle.errors import LocalProtocolError, RemoteProtocolError
from treadle.light import TYPE_CHECKING
from treadle.wire.common.framing import FrameSplitter
from treadle.wire.terminal import frames

if TYPE_CHECKING:
    from typing import ClassVar

COMMANDS = (
    frames.Input,
    frames.StatusQuestion,
    frames.Resize,
    frames.Kill,
    frames.ClientHello,
    frames.Detail,
    frames.Stop,
    frames.Type,
    frames.Explain,
    frames.SubmitPrompt,
    frames.CancelPrompt,
)
CLIENT = (frames.Subscribe, *COMMANDS)
REPLIES = (
    *(
        frames.StatusReply,
        frames.HelloReply,
        frames.DetailReply,
        frames.Stopped,
        frames.StateFrame,
        frames.Size,
        frames.Leader,
        frames.TypedReply,
        frames.Explained,
    ),
    frames.Prompted,
)
SUPERVISOR = (frames.ProgramOutput, frames.Exit, frames.Gap, *REPLIES)
ORDERS = (*COMMANDS, frames.UnknownFrame)


def _transitions() -> dict[tuple[str, type[frames.Frame]], str]:
    table: dict[tuple[str, type[frames.Frame]], str] = {("greeting", frames.Mode): "open"}
    for state in ("open", "subscribed", "ended"):
        table |= {(state, kind): state for kind in (*ORDERS, *REPLIES)}
        table[state, frames.Subscribe] = state
    table["open", frames.Subscribe] = "subscribed"
    table |= {("subscribed", kind): "subscribed" for kind in (frames.ProgramOutput, frames.Gap)}
    table["subscribed", frames.Exit] = "ended"
    return table


class Connection:
    """One end of the wire: `receive` bytes to get messages, `send` a message to get bytes."""

    SAYS: ClassVar[dict[str, frozenset[type[frames.Frame]]]] = {
        "client": frozenset((*CLIENT, frames.UnknownFrame)),
        "supervisor": frozenset((*SUPERVISOR, frames.Mode, frames.UnknownFrame)),
    }
    START = "greeting"
    TRANSITIONS = _transitions()
    """What an observer may be sent when. The first SUBSCRIBE starts the output; none follows EXIT."""

    def __init__(self, role: str, *, cap: int = frames.FRAME_CAP) -> None:
        self.role = role
        self.peer = "supervisor" if role == "client" else "client"
        self.state = self.START
        self._frames = FrameSplitter(cap)
        self._kinds = {kind.KIND: kind for kind in (CLIENT if self.peer == "client" else SUPERVISOR)}
        self._greeted = role == "supervisor"

    def receive(self, data: bytes) -> list[frames.Frame | RemoteProtocolError]:
        """The messages that these bytes complete. A malformed one is replaced by its error."""
        found: list[frames.Frame | RemoteProtocolError] = []
        for message in self._decode(data):
            if isinstance(message, frames.Frame):
                reason = self.refusal(self.peer, message)
                if reason is None:
                    self.state = self.TRANSITIONS[self.state, type(message)]
                else:
                    message = RemoteProtocolError(reason)
            found.append(message)
        return found

    def sole(self, kind: int, data: bytes) -> bytes | None:
        """The payload, when a subscriber is here and these bytes are exactly one frame of this kind. That is nearly
        always so between a person's terminal and a program, so it has this short cut. On None, call `receive`."""
        if (
            self.state == "subscribed"
            and data[0] == kind
            and not self._frames.unfinished
            and int.from_bytes(data[1:5], "big") == len(data) - 5
        ):
            return data[5:]
        return None

    def end(self) -> list[frames.Frame]:
        """The peer will send nothing more. Raises when it stopped inside a message."""
        if not self._greeted:
            raise RemoteProtocolError("the supervisor closed the connection before its mode byte")
        if rest := self._frames.end():
            raise RemoteProtocolError(f"the connection ended inside a frame, after {len(rest)} bytes of it")
        return []

    def send(self, message: frames.Frame) -> bytes:
        """The bytes of this message. Raises, and changes nothing, when it may not be said now."""
        if reason := self.refusal(self.role, message):
            raise LocalProtocolError(reason)
        data = frames.encode(message)
        self.state = self.TRANSITIONS[self.state, type(message)]
        return data

    def kind(self, sender: str, message: frames.Frame) -> type[frames.Frame]:
        return type(message)

    def refusal(self, sender: str, message: frames.Frame) -> str | None:
        kind = type(message)
        if kind not in self.SAYS[sender]:
            return f"a {sender} does not send {kind.__name__}"
        if (self.state, kind) not in self.TRANSITIONS:
            return f"{kind.__name__} may not be sent while {self.state}"
        return None

    def _decode(self, data: bytes) -> Iterator[frames.Frame | RemoteProtocolError]:
        if not self._greeted and data:
            if data[0] != frames.BINARY:
                raise RemoteProtocolError(f"the supervisor speaks mode 0x{data[0]:02x}; only 0x00 is known")
            self._greeted = True
            yield frames.Mode(data[0])
            data = data[1:]
        for found in self._frames.feed(data):
            yield self._message(*found) if isinstance(found, tuple) else found

    def _message(self, kind: int, payload: bytes) -> frames.Frame | RemoteProtocolError:
        known = self._kinds.get(kind)
        if known is None:
            return frames.UnknownFrame(kind, payload)
        try:
            return known.read(payload)
        except RemoteProtocolError as error:
            # Other clients may use this number for something else, so it is ignored like any unknown type.
            return frames.UnknownFrame(kind, payload) if kind > frames.KILL and self.peer == "client" else error
