"""The messages of the terminal wire and their bytes: `[type u8][length u32 BE][payload]`.

Light: the supervisor and the small commands import this, so messages are plain classes.
"""

from __future__ import annotations

from treadle.errors import LocalProtocolError, RemoteProtocolError
from treadle.light import TYPE_CHECKING, Any
from treadle.wire.common.framing import frame as frame

if TYPE_CHECKING:
    from typing import ClassVar

BINARY = 0x00
"""The mode byte with which a supervisor greets, unframed, before anything else (seed 001)."""
FRAME_CAP = 1024 * 1024
"""The longest payload that is accepted. We never send a longer one."""

INPUT, SUBSCRIBE, STATUS, RESIZE, KILL, HELLO, DETAIL, STOP, TYPE, EXPLAIN = range(1, 11)
PROMPT, CANCEL = 12, 13
OUTPUT, STATUS_RESP, EXIT, GAP, STATE, HELLO_RESP, DETAIL_RESP, STOPPED, SIZE, LEADER = range(0x81, 0x8B)
TYPED, EXPLAINED, PROMPTED = 0x8B, 0x8C, 0x8E

IDLE, THINKING, STREAMING, TOOL_USE, ACTIVE, DEAD = 0x00, 0x01, 0x02, 0x03, 0x04, 0xFF
STATE_NAMES = {
    IDLE: "idle",
    THINKING: "thinking",
    STREAMING: "streaming",
    TOOL_USE: "tool_use",
    ACTIVE: "active",
    DEAD: "dead",
}

WANT_GAPS, WANT_STATES, WANT_SIZES, IS_TERMINAL, READ_ONLY, FROM = 1, 2, 4, 8, 16, 32
"""The flags of a client in HELLO: tell me about output I missed, about state changes, about size changes; I am a
person's terminal; I only watch; begin at this offset of the output instead of the whole scrollback."""
PRESSES_ENTER, ANYWAY, ANSWERS, NAMES_DIALOG = 1, 2, 4, 8
"""The flags of TYPE: the text is to be submitted, so a program in an unknown state must not get it; type it anyway; it
is the answer to what the program asks; the text begins with the id of the dialog that it answers, one byte of length
first."""
REPLACE, AT_ANY_TIME, WHEN_IDLE = 1, 2, 4
"""The flags of PROMPT: first remove what is in the input box; whatever the program is doing; wait until it is idle."""
VERSION = 3
"""1 had no PROMPT, 2 no ids of dialogs."""

U32_MAX = 0xFFFFFFFF


class Frame:
    """One message. `KIND` is its type byte; `FIELDS` are its fields as (name, bytes), big-endian, unsigned unless
    `SIGNED`.

    The payload of a message with no fixed fields is `data`.
    """

    KIND: ClassVar[int]
    FIELDS: ClassVar[tuple[tuple[str, int], ...]] = ()
    SIGNED: ClassVar[bool] = False
    NAMES: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        cls.NAMES = tuple(name for name, _ in cls.FIELDS) or cls.NAMES

    def __init__(self, *values: Any) -> None:
        for name, value in zip(self.NAMES, values, strict=True):
            setattr(self, name, value)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.values() == other.values()

    def __hash__(self) -> int:
        return hash((type(self), self.values()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.values()))})"

    def values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.NAMES)

    def payload(self) -> bytes:
        return b"".join([getattr(self, name).to_bytes(size, "big", signed=self.SIGNED) for name, size in self.FIELDS])

    @classmethod
    def read(cls, payload: bytes) -> Frame:
        values, at = [], 0
        for _, size in cls.FIELDS:
            values.append(int.from_bytes(payload[at : at + size], "big", signed=cls.SIGNED))
            at += size
        if len(payload) != at:
            raise RemoteProtocolError(f"{cls.__name__} has {at} bytes of payload, not {len(payload)}")
        return cls(*values)


class Bare(Frame):
    """A question or an order without a payload. A payload that comes with it is ignored."""

    @classmethod
    def read(cls, payload: bytes) -> Frame:
        return cls()


class Raw(Frame):
    """A payload of plain bytes."""

    NAMES = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data

    def payload(self) -> bytes:
        return self.data

    @classmethod
    def read(cls, payload: bytes) -> Frame:
        return cls(payload)


class JsonFrame(Raw):
    """A payload that is a JSON object, for data that may grow."""

    @property
    def body(self) -> dict[str, Any]:
        import json

        found: dict[str, Any] = json.loads(self.data)
        return found

    @classmethod
    def read(cls, payload: bytes) -> Frame:
        import json

        try:
            if isinstance(json.loads(payload), dict):
                return cls(payload)
        except (ValueError, RecursionError):
            pass
        raise RemoteProtocolError(f"{cls.__name__} is not a JSON object")


class Mode(Frame):
    """The supervisor's first byte, which has no frame."""

    NAMES = ("mode",)
    mode: int


# What a client says...


class Input(Raw):
    KIND = INPUT


class Subscribe(Bare):
    KIND = SUBSCRIBE


class StatusQuestion(Bare):
    KIND = STATUS


class Resize(Frame):
    KIND = RESIZE
    FIELDS = (("cols", 2), ("rows", 2))
    cols: int
    rows: int


class Kill(Bare):
    KIND = KILL


class ClientHello(Frame):
    KIND = HELLO
    FIELDS = (("wants", 4), ("start", 8))
    wants: int
    start: int


class Detail(Bare):
    KIND = DETAIL


class Stop(Frame):
    """End the program: ask, wait this long, then kill all that belongs to it."""

    KIND = STOP
    FIELDS = (("grace_ms", 4),)
    grace_ms: int

    @classmethod
    def within(cls, seconds: float) -> Stop:
        """A time that does not fit the field is sent as the longest one that does."""
        return cls(min(int(seconds * 1000), U32_MAX))


class Type(Frame):
    """Input that is typed only when it cannot approve anything (`treadle.terminal.keyboard`). TYPED is the answer."""

    KIND = TYPE
    NAMES = ("how", "data")
    how: int
    data: bytes

    def payload(self) -> bytes:
        return bytes((self.how,)) + self.data

    @classmethod
    def read(cls, payload: bytes) -> Frame:
        if not payload:
            raise RemoteProtocolError("Type has at least 1 byte of payload, not 0")
        return cls(payload[0], payload[1:])


class SubmitPrompt(Frame):
    """A text to submit: typed when that is safe, Enter pressed when it is seen in the input box. PROMPTED answers,
    at each step. `patience_ms` is how long a sign that it was submitted is waited for."""

    KIND = PROMPT
    NAMES = ("how", "patience_ms", "data")
    how: int
    patience_ms: int
    data: bytes

    def payload(self) -> bytes:
        return bytes((self.how,)) + self.patience_ms.to_bytes(4, "big") + self.data

    @classmethod
    def read(cls, payload: bytes) -> Frame:
        if len(payload) < 5:
            raise RemoteProtocolError(f"SubmitPrompt has at least 5 bytes of payload, not {len(payload)}")
        return cls(payload[0], int.from_bytes(payload[1:5], "big"), payload[5:])


class CancelPrompt(Frame):
    """Remove a text that waits to be typed. PROMPTED is the answer."""

    KIND = CANCEL
    FIELDS = (("number", 4),)
    number: int


class Explain(Bare):
    KIND = EXPLAIN


# What a supervisor says...


class ProgramOutput(Raw):
    KIND = OUTPUT


class StatusReply(Frame):
    KIND = STATUS_RESP
    FIELDS = (("pid", 4), ("idle_ms", 4), ("alive", 1), ("state", 1), ("state_ms", 4), ("reserved", 1))
    pid: int
    idle_ms: int
    alive: int
    state: int
    state_ms: int
    reserved: int

    @classmethod
    def of(cls, pid: int, idle_ms: int, alive: bool, state: int, state_ms: int) -> StatusReply:
        """Times that do not fit their field are sent as the longest that do."""
        return cls(pid, min(idle_ms, U32_MAX), int(alive), state, min(state_ms, U32_MAX), 0)

    @property
    def state_name(self) -> str:
        return STATE_NAMES.get(self.state, "unknown")


class Exit(Frame):
    KIND = EXIT
    FIELDS = (("code", 4),)
    SIGNED = True
    code: int


class Gap(Frame):
    """This many bytes of output were dropped here, because the client did not keep up."""

    KIND = GAP
    FIELDS = (("missed", 8),)
    missed: int


class StateFrame(JsonFrame):
    """The state has changed: the same object as in DetailReply's `state`."""

    KIND = STATE


class HelloReply(Frame):
    """The offset of the first byte that can be replayed, the offset of the next byte to come, and the current size."""

    KIND = HELLO_RESP
    FIELDS = (("version", 1), ("granted", 4), ("start", 8), ("end", 8), ("cols", 2), ("rows", 2))
    version: int
    granted: int
    start: int
    end: int
    cols: int
    rows: int


class DetailReply(JsonFrame):
    KIND = DETAIL_RESP


class Stopped(JsonFrame):
    KIND = STOPPED


class Size(Frame):
    KIND = SIZE
    FIELDS = (("cols", 2), ("rows", 2))
    cols: int
    rows: int


class Leader(Frame):
    """Whether this client's terminal answers the program's queries."""

    KIND = LEADER
    FIELDS = (("leads", 1),)
    leads: int


class TypedReply(JsonFrame):
    """Whether the text of TYPE was typed, if not why, and the state on which this was decided."""

    KIND = TYPED


class Explained(JsonFrame):
    """Everything that the state was judged by."""

    KIND = EXPLAINED


class Prompted(JsonFrame):
    """How far the text of PROMPT has got: `number`, `stage`, and `why`, `state` and `turn` where they say more."""

    KIND = PROMPTED


class UnknownFrame(Frame):
    """A type that this version does not know, to be ignored."""

    NAMES = ("kind", "data")
    kind: int
    data: bytes

    def payload(self) -> bytes:
        return self.data


def encode(message: Frame) -> bytes:
    if isinstance(message, Mode):
        return bytes((message.mode,))
    kind = message.kind if isinstance(message, UnknownFrame) else message.KIND
    payload = message.payload()
    if len(payload) > FRAME_CAP:
        raise LocalProtocolError(f"a frame carries at most {FRAME_CAP} bytes, not {len(payload)}")
    return frame(kind, payload)
