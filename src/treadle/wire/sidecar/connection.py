"""The sidecar protocol `abp/v0.1`: one JSON object per line over stdio, told apart by `t`.

A sidecar says `hello` first; a host answers with `run`; then `event`s, and one `final` or `fatal`. `cancel`, `ping` and
`pong` may come at any time after `hello`. `Connection` is both ends' check of that sequence.

Reading is tolerant: a line that deviates from the contract is read by `repair.py`, and each deviation is noted in
`Connection.notes`. Writing is strict: only what the contract names.
"""

import json
import re
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal, NoReturn, TypeAlias, get_args

import msgspec
from msgspec import UNSET, Meta, UnsetType

from treadle.errors import InvalidJson, RemoteProtocolError, VersionMismatch, Violation
from treadle.wire.common import connection as base
from treadle.wire.common.framing import LineSplitter
from treadle.wire.common.jsontext import repaired
from treadle.wire.sidecar import receipts
from treadle.wire.sidecar.receipts import CONTRACT
from treadle.wire.sidecar.repair import Deviation, convert

# Faults of a line that decoding into types does not find: a repeated name, half a character, an incomplete receipt.

_HALF = re.compile(rb"\\u[dD][89a-fA-F]")


class IncompleteReceipt(msgspec.ValidationError):
    """A `final` that lacks what the contract requires. Such a run has failed."""


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def repeated_field(line: bytes) -> str | None:
    """A name that occurs more than once in the line's outermost object."""
    outermost: list[tuple[str, Any]] = []

    def keep(pairs: list[tuple[str, Any]]) -> None:
        outermost[:] = pairs  # the hook is called for inner objects first, so the last call is for the outermost

    try:
        json.loads(line, object_pairs_hook=keep)
    except ValueError as error:  # a number with more digits than Python converts
        raise msgspec.ValidationError(str(error)) from error
    names = [name for name, _ in outermost]
    return next((name for name in names if names.count(name) > 1), None)


def repeated_name(data: bytes) -> str | None:
    """A name that an object anywhere in this JSON has twice. Readers differ about which of the two counts."""
    found: list[str] = []

    def look(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) < len(pairs):
            names = [name for name, _ in pairs]
            found.append(next(name for name in names if names.count(name) > 1))
        return made

    json.loads(data, object_pairs_hook=look)
    return found[0] if found else None


def unusable(meta: receipts.ReceiptMeta) -> str | None:
    """Why a receipt with these metadata is not valid; None when it is."""
    try:
        for text in (meta.run_id, meta.work_order_id):
            receipts.normal_uuid(text)
        for text in (meta.started_at, meta.finished_at):
            receipts.normal_time(text)
    except ValueError as error:
        return f"its receipt is not valid: {error}"
    return None


def repaired_line(line: bytes) -> bytes:
    """The line with every lone surrogate replaced. Raises ValueError when that is not what is wrong with it."""
    if not _HALF.search(line):
        raise ValueError("it holds no half of a surrogate pair")
    clean = msgspec.json.encode(repaired(json.loads(line, parse_constant=_no_constant)))
    if clean == line:
        raise ValueError("nothing in it was to be replaced")
    return clean


Lane: TypeAlias = Literal["patch_first", "workspace_first"]
WorkspaceMode: TypeAlias = Literal["pass_through", "staged"]
MinSupport: TypeAlias = Literal["native", "emulated", "any"]


# The work order...


class WorkspaceSpec(receipts.ContractPart, frozen=True, kw_only=True):
    root: str
    mode: WorkspaceMode = "staged"
    include: list[str]
    exclude: list[str]


class Snippet(receipts.ContractPart, frozen=True, kw_only=True):
    name: str
    content: str


class ContextPacket(receipts.ContractPart, frozen=True, kw_only=True):
    files: list[str]
    snippets: list[Snippet]


class PolicyProfile(receipts.ContractPart, frozen=True, kw_only=True):
    """An empty list is no rule: an empty `allowed_tools` allows all of them."""

    allowed_tools: list[str]
    disallowed_tools: list[str]
    deny_read: list[str]
    deny_write: list[str]
    allow_network: list[str]
    deny_network: list[str]
    require_approval_for: list[str]


class Requirement(receipts.ContractPart, frozen=True, kw_only=True):
    capability: receipts.Capability
    min_support: MinSupport


class Requirements(receipts.ContractPart, frozen=True, kw_only=True):
    required: list[Requirement]


class RuntimeConfig(receipts.ContractPart, frozen=True, kw_only=True):
    model: str | None = None
    vendor: dict[str, receipts.Free]
    env: dict[str, str]
    max_budget_usd: float | None = None
    max_turns: Annotated[int, Meta(ge=0, le=2**32 - 1)] | None = None


class WorkOrder(receipts.ContractPart, frozen=True, kw_only=True):
    id: receipts.Uuid
    task: str
    lane: Lane
    workspace: WorkspaceSpec
    context: ContextPacket
    policy: PolicyProfile
    requirements: Requirements
    config: RuntimeConfig


NO_POLICY = PolicyProfile(
    allowed_tools=[],
    disallowed_tools=[],
    deny_read=[],
    deny_write=[],
    allow_network=[],
    deny_network=[],
    require_approval_for=[],
)


# The envelopes...


class SidecarHello(receipts.ContractPart, frozen=True, kw_only=True, tag_field="t", tag="hello"):
    contract_version: str
    backend: receipts.BackendIdentity
    capabilities: receipts.Manifest
    mode: receipts.Mode = "mapped"


class Run(receipts.ContractPart, frozen=True, kw_only=True, tag_field="t", tag="run"):
    id: str
    work_order: WorkOrder


class RunEvent(receipts.ContractPart, frozen=True, kw_only=True, tag_field="t", tag="event"):
    ref_id: str
    event: receipts.AnyAgentEvent


class Final(receipts.ContractPart, frozen=True, kw_only=True, tag_field="t", tag="final"):
    ref_id: str
    receipt: receipts.Receipt


class Fatal(receipts.ContractPart, frozen=True, kw_only=True, tag_field="t", tag="fatal"):
    ref_id: str | None = None
    error: str
    error_code: receipts.ErrorCode | UnsetType = UNSET


class CancelRun(receipts.ContractPart, frozen=True, kw_only=True, tag_field="t", tag="cancel"):
    ref_id: str
    reason: str | None = None


class Ping(receipts.ContractPart, frozen=True, kw_only=True, tag_field="t", tag="ping"):
    seq: int


class Pong(receipts.ContractPart, frozen=True, kw_only=True, tag_field="t", tag="pong"):
    seq: int


class UnknownEnvelope(msgspec.Struct, frozen=True, kw_only=True):
    """A message whose `t` only a later version may know. It is read and skipped, and never sent."""

    t: str
    body: dict[str, Any]


Envelope: TypeAlias = SidecarHello | Run | RunEvent | Final | Fatal | CancelRun | Ping | Pong
Message: TypeAlias = Envelope | UnknownEnvelope
KINDS: dict[str, type[Any]] = {str(kind.__struct_config__.tag): kind for kind in get_args(Envelope)}

_VERSION = re.compile(r"abp/v(\d{1,9})\.(\d{1,9})")


def compatible(version: str, ours: str = receipts.CONTRACT) -> bool:
    """Whether both have the same major version."""
    one, other = _VERSION.fullmatch(ours), _VERSION.fullmatch(version)
    return one is not None and other is not None and int(one[1]) == int(other[1])


def satisfies(level: receipts.Level | None, wanted: MinSupport) -> bool:
    """A capability that is missing from the manifest satisfies nothing, not even `any`."""
    if wanted == "any":
        return level is not None
    if wanted == "native":
        return level == "native"
    return level in ("native", "emulated") or isinstance(level, receipts.Restricted)


def unmet(requirements: Requirements, manifest: receipts.Manifest) -> list[str]:
    """The requirements that the manifest does not meet, in words."""
    return [
        f"{need.capability} ({need.min_support} is required, {_level(manifest.get(need.capability))})"
        for need in requirements.required
        if not satisfies(manifest.get(need.capability), need.min_support)
    ]


def _level(level: receipts.Level | None) -> str:
    if level is None:
        return "the backend does not name it"
    return f"the backend has it {level if isinstance(level, str) else 'restricted'}"


# One end of the conversation...

MAX_NOTES = 1000
BIG_LINE = 64 * 1024
"""For lines longer than this, a note does not keep the original value."""


def _shown(line: bytes) -> dict[str, str]:
    return {"line": line[:200].decode("utf-8", "replace")}


def _not_json(line: bytes, error: Exception) -> InvalidJson:
    shown = _shown(line)
    return InvalidJson(f"not JSON: {shown['line'][:60]!r}: {error}", details=shown)


_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Envelope] = msgspec.json.Decoder(Envelope)
_event_decoder: msgspec.json.Decoder[RunEvent] = msgspec.json.Decoder(RunEvent)


IN_HELLO = frozenset({"hello.backend", "hello.backend.id", "hello.capabilities"})
"""What no hello may lack or get wrong, beside its version, which has an error of its own."""
LAST_END = "the end of the only run"
"""The table's name for a `final` or `fatal` after which no run is left."""


class Connection(base.Connection[Message]):
    """Roles: host and sidecar. Beside the state, it keeps the ids of the `runs`: the first runs, the others wait."""

    SAYS = {
        "host": frozenset({Run, CancelRun, Ping, UnknownEnvelope}),
        "sidecar": frozenset({SidecarHello, RunEvent, Final, Fatal, LAST_END, Pong, UnknownEnvelope}),
    }
    START = "waiting for hello"
    TRANSITIONS = {
        (START, SidecarHello): "idle",
        **{("idle", kind): "idle" for kind in (SidecarHello, Fatal, CancelRun, Ping, Pong, UnknownEnvelope)},
        ("idle", Run): "running",
        **{("running", kind): "running" for kind in KINDS.values()},
        ("running", LAST_END): "idle",
        ("running", UnknownEnvelope): "running",
    }
    """`hello` is the first line, and says which version everything after it has. Orders may be sent ahead of the one
    that runs; each ends in one `final` or `fatal`, in their order, so it is idle again only after the last of them.
    What can cross with an end on the way (cancel, ping, pong) moves nothing, and is allowed when idle for that reason;
    a `fatal` when idle is about the program and not about a run. A second `hello` is taken, and never sent."""

    def __init__(self, role: str, *, cap: int = base.CAP) -> None:
        super().__init__(role, cap=cap)
        self.notes: list[Deviation] = []
        self.notes_left_out = 0
        self.runs: deque[str] = deque()
        self._lines = LineSplitter(cap)

    def kind(self, sender: str, message: Message) -> Any:
        return LAST_END if isinstance(message, Final | Fatal) and len(self.runs) == 1 else type(message)

    def receive(self, data: bytes) -> list[Message | RemoteProtocolError]:
        lines = self._lines.feed(data)
        if self.role == "host" and self.state == "running":
            flood = self._all_events(lines)
            if flood is not None:
                return flood
        return self.judge(self._each(lines))

    def _each(self, lines: Iterable[bytes | RemoteProtocolError]) -> Iterator[Message | RemoteProtocolError]:
        for line in lines:
            message = line if isinstance(line, RemoteProtocolError) else self._read(line)
            if message is not None:
                yield message

    def _all_events(self, lines: list[Any]) -> list[Message | RemoteProtocolError] | None:
        """Decode lines that are all events of the current run, as nearly all are, in one go; None otherwise."""
        try:
            found: list[Any] = _event_decoder.decode_lines(b"\n".join(lines))
        except (msgspec.MsgspecError, TypeError, RecursionError, UnicodeDecodeError):
            return None
        # The decoder takes a newline for white space, so it would accept an object that is spread over two lines.
        run = self.runs[0]
        if len(found) != len(lines) or [message for message in found if message.ref_id != run]:
            return None
        return found

    def _read(self, line: bytes) -> Message | RemoteProtocolError | None:
        if not line.strip() and self.state != self.START:
            return None
        try:
            return _decoder.decode(line)
        except msgspec.ValidationError:
            pass
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            return self._read_repaired(line, error)
        try:
            tree = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            return _not_json(line, error)
        try:
            message = self._read_tolerantly(tree, line)
            self._bound_notes(len(line))
            return message
        except (msgspec.ValidationError, RecursionError) as error:
            named = {"id": tree["id"]} if isinstance(tree, dict) and isinstance(tree.get("id"), str) else {}
            if isinstance(error, IncompleteReceipt):
                named["error_code"] = "contract_invalid_receipt"
            return Violation(f"a line lacks what it must contain: {error}", details={**_shown(line), **named})

    def _read_repaired(self, line: bytes, error: Exception) -> Message | RemoteProtocolError | None:
        """Half a surrogate pair, which JavaScript's `text.slice` can leave, is replaced; the rest is read."""
        try:
            clean = repaired_line(line)
        except (ValueError, RecursionError):
            return _not_json(line, error)
        self.notes.append(Deviation(where="line", problem="half a surrogate pair was replaced"))
        self._bound_notes(0)
        return self._read(clean)

    def _bound_notes(self, size: int) -> None:
        """Limit the notes, so that a peer with something wrong in every line cannot fill our memory."""
        if size > BIG_LINE:
            self.notes = [msgspec.structs.replace(note, value=None) if note.value else note for note in self.notes]
        if len(self.notes) > MAX_NOTES:
            self.notes_left_out += len(self.notes) - MAX_NOTES
            del self.notes[MAX_NOTES:]

    def _read_tolerantly(self, tree: Any, line: bytes) -> Message:
        kind = tree.get("t") if isinstance(tree, dict) else None
        if not isinstance(kind, str):
            raise msgspec.ValidationError("it is not an object with a string `t`")
        twice = repeated_field(line)
        if twice is not None:
            # Readers disagree on which of the two counts, so the line is refused.
            raise msgspec.ValidationError(f"it has `{twice}` twice")
        if kind not in KINDS:
            self.notes.append(Deviation(where=kind, problem="unknown kind of message", value=tree))
            return UnknownEnvelope(t=kind, body=tree)
        found: list[Deviation] = []
        message: Message = convert(tree, KINDS[kind], kind, found)
        lacking = [str(note) for note in found if note.blank and not note.where.startswith("final.receipt.trace[")]
        if kind == "final" and lacking:
            raise IncompleteReceipt(f"its receipt is not valid: {'; '.join(lacking[:5])}")
        if kind == "hello" and (missing := [note for note in found if note.where in IN_HELLO]):
            raise msgspec.ValidationError(f"hello must say who it is and what it can: {missing[0]}")
        self.notes += found
        return message

    def end(self) -> list[Message | RemoteProtocolError]:
        rest = self._lines.end()
        if not rest.strip():
            return []
        message = self._read(rest)
        if isinstance(message, InvalidJson):
            raise InvalidJson("the output ended inside a line", details=message.details)
        return self.judge([message] if message is not None else [])

    def encode(self, message: Message) -> bytes:
        return _encoder.encode(message) + b"\n"

    def refusal(self, sender: str, message: Message) -> str | None:
        if self.state == self.START and type(message) is not SidecarHello:
            return f"the first line must be hello, not {self.named(message)}"
        reason = super().refusal(sender, message)
        if reason is not None:
            return reason
        match message:
            case SidecarHello() if not compatible(message.contract_version):
                return f"the sidecar speaks {message.contract_version!r} and we speak {receipts.CONTRACT!r}"
            case SidecarHello() if sender == self.role and self.state != self.START:
                return "hello is sent once"
            case UnknownEnvelope() if sender == self.role:
                return "only what the contract names is sent"
            case RunEvent() | Final() if message.ref_id != self.runs[0]:
                return f"ref_id {message.ref_id!r} is not the run under way, {self.runs[0]!r}"
            case Final():
                return unusable(message.receipt.meta)
            case Fatal(ref_id=str()) if self.runs and message.ref_id != self.runs[0]:
                return f"ref_id {message.ref_id!r} is not the run under way, {self.runs[0]!r}"
        return None

    @staticmethod
    def named(message: Message) -> str:
        reason = f": {message.error}" if isinstance(message, Fatal) else ""
        kind = message.t if isinstance(message, UnknownEnvelope) else str(type(message).__struct_config__.tag)
        return f"{kind}{reason}"

    def refused(self, message: Message, reason: str) -> RemoteProtocolError:
        if isinstance(message, SidecarHello):
            return VersionMismatch(reason, hint="versions must have the same major number")
        details = {"message": self.named(message)[:200]}
        if isinstance(message, Final) and unusable(message.receipt.meta) == reason:
            details["error_code"] = "contract_invalid_receipt"
        return Violation(reason, details=details)

    def record(self, sender: str, message: Message) -> None:
        super().record(sender, message)
        if isinstance(message, Run):
            self.runs.append(message.id)
        elif isinstance(message, Final | Fatal) and self.runs:
            self.runs.popleft()


# JSON Schemas of the sidecar protocol, made from its types.

TYPES: dict[str, Any] = {
    "work-order": WorkOrder,
    "receipt": receipts.Receipt,
    "policy": PolicyProfile,
    "event": receipts.AnyAgentEvent,
    "envelope": Envelope,
    "hello": SidecarHello,
    "run": Run,
    "event-envelope": RunEvent,
    "final": Final,
    "fatal": Fatal,
    "cancel": CancelRun,
    "ping": Ping,
    "pong": Pong,
}


def schema(name: str) -> dict[str, Any]:
    """The schema of one of `TYPES`. Fields that it does not name are allowed: a reader ignores them."""
    (made,), parts = msgspec.json.schema_components([TYPES[name]], ref_template="#/$defs/{name}")
    whole = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"{CONTRACT} {name}",
        **made,
        "$defs": parts,
    }
    _correct(whole)
    return whole


def _correct(node: Any) -> None:
    """Add what the types cannot express: the names that a manifest may hold, and that unknown fields are no error."""
    if isinstance(node, list):
        for inside in node:
            _correct(inside)
    if not isinstance(node, dict):
        return
    if node.get("additionalProperties") is False:
        del node["additionalProperties"]
    manifest = node.get("properties", {}).get("capabilities")
    if manifest is not None:
        manifest["propertyNames"] = {"enum": list(receipts.CAPABILITIES)}
    for inside in node.values():
        _correct(inside)


def text(name: str) -> str:
    return msgspec.json.format(msgspec.json.encode(schema(name)), indent=2).decode() + "\n"
