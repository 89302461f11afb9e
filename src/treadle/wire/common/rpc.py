"""JSON-RPC 2.0 between two ends that both make calls, one message per line, without I/O.

`jsonrpc.py` is the small synchronous answering side for the light commands; this is for conversations in which either
end may have several calls open at once. A protocol built on it lists the methods that each role may call.
"""

from collections.abc import Iterable, Mapping
from types import NoneType
from typing import Any, ClassVar, TypeAlias

import msgspec

from treadle.errors import InvalidJson, LineTooLong, RemoteProtocolError, Violation
from treadle.wire.common.connection import CAP, Connection, Transitions, json_line
from treadle.wire.common.framing import LineSplitter
from treadle.wire.common.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST

CallKey: TypeAlias = int | str


class RpcCall(msgspec.Struct, frozen=True, kw_only=True):
    """A request: the other end owes it an answer."""

    id: CallKey
    method: str
    params: dict[str, Any] = {}


class RpcNotice(msgspec.Struct, frozen=True, kw_only=True):
    """A notification: it gets no answer."""

    method: str
    params: dict[str, Any] = {}


class Returned(msgspec.Struct, frozen=True, kw_only=True):
    id: CallKey
    result: Any = None


class RpcRefused(msgspec.Struct, frozen=True, kw_only=True):
    """A call that failed. `id` is None when the other end could not read the id of the call."""

    id: CallKey | None
    code: int
    message: str
    data: Any = None


RpcMessage: TypeAlias = RpcCall | RpcNotice | Returned | RpcRefused

_decoder = msgspec.json.Decoder()
GREETING = "initialize"

OPENER_SAYS = frozenset({"initialize", "call", "notice", "reply", "refusal"})
OTHER_SAYS = frozenset({"call", "notice", "result", "error"})
"""The kinds of message in the tables. An answer by the end that opens is a reply or a refusal; an answer by the
other end is a result or an error. No other call is open during the greeting, so the first result is the answer to
the greeting."""


# Built once: a union written inside a function is built at every call, which costs time in a flood of messages.
_CALLS, _ANSWERS, _IDS = (RpcCall, RpcNotice), (Returned, RpcRefused), (int, str, NoneType)


class RpcConnection(Connection[RpcMessage]):
    """The opening role calls `initialize` first; after that each role may call the methods that METHODS lists for it.

    Tolerant in, strict out: unknown methods are accepted, to be answered with an error, but never sent.
    """

    METHODS: ClassVar[Mapping[str, frozenset[str]]]
    OPENER: ClassVar[str]
    START = "new"
    TRANSITIONS: ClassVar[Transitions] = {
        ("new", "initialize"): "greeting",
        ("new", "notice"): "new",
        ("new", "error"): "new",
        ("new", "refusal"): "new",
        ("greeting", "result"): "ready",
        ("greeting", "error"): "new",
        ("greeting", "call"): "greeting",
        ("greeting", "notice"): "greeting",
        ("greeting", "reply"): "greeting",
        ("greeting", "refusal"): "greeting",
        **{("ready", kind): "ready" for kind in (OPENER_SAYS | OTHER_SAYS) - {"initialize"}},
    }
    """JSON-RPC has no states; the protocols above it agree on versions first, and that is what these are. Before the
    greeting, errors are possible, because a line that is no call is answered with one (JSON-RPC 2.0, section 5.1).
    During it the opener calls nothing else (`refusal`), and takes what the other end sends. A greeting that fails may
    be tried again. Which answers which call is not in the table but in `open`: ids are settled in any order."""

    def __init__(self, role: str, *, cap: int = CAP) -> None:
        super().__init__(role, cap=cap)
        self._lines = LineSplitter(cap)
        self.open: dict[str, set[CallKey]] = {each: set() for each in self.SAYS}
        """The calls of each role that are not answered yet."""

    # Bytes

    def decode(self, data: bytes) -> list[RpcMessage | RemoteProtocolError]:
        return [message for line in self._lines.feed(data) for message in read_line(line)]

    def end(self) -> list[RpcMessage | RemoteProtocolError]:
        messages = read_line(self._lines.end())
        for message in messages:
            if isinstance(message, RemoteProtocolError):
                raise message
        return self.judge(messages)

    def encode(self, message: RpcMessage) -> bytes:
        return json_line(as_json(message))

    # Rules

    def judge(self, messages: Iterable[RpcMessage | RemoteProtocolError]) -> list[RpcMessage | RemoteProtocolError]:
        """Notices are always allowed after the greeting and change no state, so a flood of them skips the checks."""
        found: list[RpcMessage | RemoteProtocolError] = []
        for message in messages:
            if type(message) is RpcNotice and self.state == "ready":
                found.append(message)
            else:
                found += super().judge((message,))
        return found

    def kind(self, sender: str, message: RpcMessage) -> str:
        match message:
            case RpcCall():
                return "initialize" if message.method == GREETING else "call"
            case RpcNotice():
                return "notice"
            case Returned():
                return "reply" if sender == self.OPENER else "result"
            case RpcRefused():
                return "refusal" if sender == self.OPENER else "error"

    def refusal(self, sender: str, message: RpcMessage) -> str | None:
        reason = super().refusal(sender, message)
        if reason is not None:
            return reason
        if isinstance(message, _CALLS):
            return self._refused_call(sender, message)
        if isinstance(message, RpcRefused):
            return None  # also for a call that could not be read, whose id may be anything
        return None if message.id in self.open[self._other(sender)] else f"no call {message.id!r} is open"

    def _refused_call(self, sender: str, message: RpcCall | RpcNotice) -> str | None:
        method = message.method
        ours = sender == self.role
        if ours and isinstance(message, RpcCall) and sender == self.OPENER and self.state == "greeting":
            return f"{method} may not be called before {GREETING} is answered"
        if isinstance(message, RpcCall) and message.id in self.open[sender]:
            return f"the id {message.id!r} is in use by another call"
        if ours and method not in self.METHODS[sender] and not method.startswith("_"):
            return f"a {sender} does not call {method}"
        return None

    def record(self, sender: str, message: RpcMessage) -> None:
        if isinstance(message, RpcRefused) and message.id not in self.open[self._other(sender)]:
            return  # it answers something that was not a call, so no call is settled
        super().record(sender, message)
        if isinstance(message, RpcCall):
            self.open[sender].add(message.id)
        elif isinstance(message, _ANSWERS) and message.id is not None:
            self.open[self._other(sender)].discard(message.id)

    def _other(self, sender: str) -> str:
        return self.peer if sender == self.role else self.role

    def refused(self, message: RpcMessage, reason: str) -> RemoteProtocolError:
        details = {"id": message.id, "code": INVALID_REQUEST} if isinstance(message, RpcCall) else None
        return Violation(reason, details=details)


def as_json(message: RpcMessage) -> dict[str, Any]:
    match message:
        case RpcCall():
            return {"jsonrpc": "2.0", "id": message.id, "method": message.method, "params": message.params}
        case RpcNotice():
            return {"jsonrpc": "2.0", "method": message.method, "params": message.params}
        case Returned():
            return {"jsonrpc": "2.0", "id": message.id, "result": message.result}
        case RpcRefused():
            error: dict[str, Any] = {"code": message.code, "message": message.message}
            if message.data is not None:
                error["data"] = message.data
            return {"jsonrpc": "2.0", "id": message.id, "error": error}


def read_line(line: bytes | LineTooLong) -> list[RpcMessage | RemoteProtocolError]:
    """The message on a line; several when it is a batch; none when it is blank."""
    if isinstance(line, LineTooLong):
        return [line]
    if not line.strip():
        return []
    try:
        value = _decoder.decode(line)
    except RecursionError:
        return [InvalidJson("a line is nested too deeply")]
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return [InvalidJson(f"a line is not JSON: {error}", details={"line": line[:200].decode("utf-8", "replace")})]
    return [read_message(item) for item in value] if isinstance(value, list) else [read_message(value)]


def read_message(value: Any) -> RpcMessage | RemoteProtocolError:
    """A message from its JSON. The member `jsonrpc` may be missing, because some peers leave it out."""
    if not isinstance(value, dict):
        return Violation("a message is not an object")
    key, method = value.get("id"), value.get("method")
    if isinstance(key, bool) or not isinstance(key, _IDS):
        return Violation("the id of a message is neither a number nor a text")
    if isinstance(method, str):
        return _read_call(key, method, value)
    if "method" in value or not ("result" in value or "error" in value):
        details = {"id": key, "code": INVALID_REQUEST, "named": "method" in value, "line": str(value)[:500]}
        return Violation("a message is neither a call nor an answer", details=details)
    return _read_answer(key, value)


def _read_call(key: CallKey | None, method: str, value: dict[str, Any]) -> RpcMessage | RemoteProtocolError:
    params = value.get("params")
    if params is None:
        params = {}
    if not isinstance(params, dict):
        return Violation(f"the params of {method:.60} are not an object", details={"id": key, "code": INVALID_PARAMS})
    return RpcNotice(method=method, params=params) if key is None else RpcCall(id=key, method=method, params=params)


def _read_answer(key: CallKey | None, value: dict[str, Any]) -> RpcMessage | RemoteProtocolError:
    error = value.get("error")
    if error is None:
        return Returned(id=key, result=value.get("result")) if key is not None else Violation("an answer has no id")
    fields = error if isinstance(error, dict) else {"message": str(error)}
    code, message = fields.get("code"), fields.get("message")
    return RpcRefused(
        id=key,
        code=code if isinstance(code, int) else INTERNAL_ERROR,
        message=message if isinstance(message, str) else "it gave no reason",
        data=fields.get("data"),
    )
