"""Receipts of `abp/v0.1`: the types, their normal form, and the hash over it.

The types match the contract exactly, and decoding straight into them accepts nothing else; `repair.py` reads what real
peers write. The hash is over the *normal form*, not over the bytes received: unknown fields dropped, absent
options null, `mode` filled in, times and ids written in one way, numbers as a peer with 64-bit integers and doubles
holds them. `normal` makes it, `canonical` writes it with sorted keys, `receipt_hash` is the SHA-256 of that.
"""

import hashlib
import math
import re
import uuid
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, TypeAlias, get_args

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType
from msgspec.structs import replace

from treadle.wire.common.jsontext import repaired

CONTRACT = "abp/v0.1"
DEEPEST = 120
"""The deepest nesting that is written. Peers refuse a line with more than 127 nested containers, and an envelope and
an event take a few of them."""
LARGEST = 128 << 20
"""Bytes of a file with a receipt, or with what was made of one, that is read: anyone can write such a file."""

Mode: TypeAlias = Literal["passthrough", "mapped"]
Outcome: TypeAlias = Literal["complete", "partial", "failed"]
Uuid: TypeAlias = Annotated[str, Meta(description="A UUID; written hyphenated and in lower case.")]
Time: TypeAlias = Annotated[str, Meta(description="RFC 3339 in UTC, with 0, 3, 6 or 9 digits of a second.")]
Count: TypeAlias = Annotated[int, Meta(ge=0)]
ExitCode: TypeAlias = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Free: TypeAlias = Any
"""Any JSON."""

# fmt: off
Capability: TypeAlias = Literal[
    "streaming", "tool_read", "tool_write", "tool_edit", "tool_bash", "tool_glob", "tool_grep", "tool_web_search",
    "tool_web_fetch", "tool_ask_user", "hooks_pre_tool_use", "hooks_post_tool_use", "session_resume", "session_fork",
    "checkpointing", "structured_output_json_schema", "mcp_client", "mcp_server", "tool_use", "extended_thinking",
    "image_input", "pdf_input", "code_execution", "logprobs", "seed_determinism", "stop_sequences", "function_calling",
    "vision", "audio", "json_mode", "system_message", "temperature", "top_p", "top_k", "max_tokens",
    "frequency_penalty", "presence_penalty", "cache_control", "batch_mode", "embeddings", "image_generation",
]
ErrorCode: TypeAlias = Literal[
    "protocol_invalid_envelope", "protocol_handshake_failed", "protocol_missing_ref_id", "protocol_unexpected_message",
    "protocol_version_mismatch", "mapping_unsupported_capability", "mapping_dialect_mismatch",
    "mapping_lossy_conversion", "mapping_unmappable_tool", "backend_not_found", "backend_unavailable",
    "backend_timeout", "backend_rate_limited", "backend_auth_failed", "backend_model_not_found", "backend_crashed",
    "execution_tool_failed", "execution_workspace_error", "execution_permission_denied", "contract_version_mismatch",
    "contract_schema_violation", "contract_invalid_receipt", "capability_unsupported", "capability_emulation_failed",
    "policy_denied", "policy_invalid", "workspace_init_failed", "workspace_staging_failed", "ir_lowering_failed",
    "ir_invalid", "receipt_hash_mismatch", "receipt_chain_broken", "dialect_unknown", "dialect_mapping_failed",
    "config_invalid", "rate_limit_exceeded", "circuit_breaker_open", "stream_closed", "receipt_store_failed",
    "validation_failed", "sidecar_spawn_failed", "backend_content_filtered", "backend_context_length", "internal",
]
# fmt: on
CAPABILITIES: tuple[Capability, ...] = get_args(Capability)
ERROR_CODES: tuple[ErrorCode, ...] = get_args(ErrorCode)


class ContractPart(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Base of all types of the contract: read exactly, written in full, with null for an absent option.

    Not tracked by the garbage collector, which halves the time to read one: data from JSON has no cycles.
    """


class ReasonGiven(ContractPart, frozen=True, kw_only=True):
    reason: str


class Restricted(ContractPart, frozen=True, kw_only=True):
    restricted: ReasonGiven


Level: TypeAlias = Literal["native", "emulated", "unsupported"] | Restricted
Manifest: TypeAlias = dict[Capability, Level]


class BackendIdentity(ContractPart, frozen=True, kw_only=True):
    id: str
    backend_version: str | None = None
    adapter_version: str | None = None


# The ten events...


class AgentEvent(ContractPart, frozen=True, kw_only=True, tag_field="type"):
    ts: Time
    ext: dict[str, Free] | UnsetType = UNSET


class RunStarted(AgentEvent, frozen=True, kw_only=True, tag="run_started"):
    message: str


class RunCompleted(AgentEvent, frozen=True, kw_only=True, tag="run_completed"):
    message: str


class AssistantDelta(AgentEvent, frozen=True, kw_only=True, tag="assistant_delta"):
    text: str


class AssistantSaid(AgentEvent, frozen=True, kw_only=True, tag="assistant_message"):
    text: str


class ToolCalled(AgentEvent, frozen=True, kw_only=True, tag="tool_call"):
    tool_name: str
    input: Free
    tool_use_id: str | None = None
    parent_tool_use_id: str | None = None


class ToolReturned(AgentEvent, frozen=True, kw_only=True, tag="tool_result"):
    tool_name: str
    output: Free
    is_error: bool
    tool_use_id: str | None = None


class FileWritten(AgentEvent, frozen=True, kw_only=True, tag="file_changed"):
    path: str
    summary: str


class CommandExecuted(AgentEvent, frozen=True, kw_only=True, tag="command_executed"):
    command: str
    exit_code: ExitCode | None = None
    output_preview: str | None = None


class WarningGiven(AgentEvent, frozen=True, kw_only=True, tag="warning"):
    message: str


class ErrorMet(AgentEvent, frozen=True, kw_only=True, tag="error"):
    message: str
    error_code: ErrorCode | UnsetType = UNSET


AnyAgentEvent: TypeAlias = (
    RunStarted
    | RunCompleted
    | AssistantDelta
    | AssistantSaid
    | ToolCalled
    | ToolReturned
    | FileWritten
    | CommandExecuted
    | WarningGiven
    | ErrorMet
)
EVENT_TYPES: dict[str, type[AgentEvent]] = {str(kind.__struct_config__.tag): kind for kind in get_args(AnyAgentEvent)}


# The receipt...


class ReceiptMeta(ContractPart, frozen=True, kw_only=True):
    run_id: Uuid
    work_order_id: Uuid
    contract_version: str
    started_at: Time
    finished_at: Time
    duration_ms: Count


class UsageTotals(ContractPart, frozen=True, kw_only=True):
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    cache_read_tokens: Count | None = None
    cache_write_tokens: Count | None = None
    request_units: Count | None = None
    estimated_cost_usd: float | None = None


class Artifact(ContractPart, frozen=True, kw_only=True):
    kind: str
    path: str


class Verification(ContractPart, frozen=True, kw_only=True):
    harness_ok: bool
    git_diff: str | None = None
    git_status: str | None = None


class Receipt(ContractPart, frozen=True, kw_only=True):
    meta: ReceiptMeta
    backend: BackendIdentity
    capabilities: Manifest
    mode: Mode = "mapped"
    usage_raw: Free
    usage: UsageTotals
    trace: list[AnyAgentEvent]
    artifacts: list[Artifact]
    verification: Verification
    outcome: Outcome
    receipt_sha256: str | None = None


# The normal form...

_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d+))?([Zz]|[+-]\d\d:\d\d)")


def normal_time(text: str) -> str:
    """The canonical text of this moment. Raises ValueError when it is not RFC 3339 with an offset."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a time such as 2025-01-15T12:00:00Z")
    day, clock, fraction, offset = match.groups()
    moment = datetime.fromisoformat(f"{day}T{clock}{'+00:00' if offset in 'Zz' else offset}")
    if offset not in "Zz":
        try:
            moment = moment.astimezone(UTC)
        except OverflowError as error:
            raise ValueError(f"{text!r} is not within the years 1 to 9999") from error
    digits = (fraction or "")[:9].rstrip("0")
    digits = digits.ljust(-(-len(digits) // 3) * 3, "0")
    return f"{moment:%Y-%m-%dT%H:%M:%S}{'.' if digits else ''}{digits}Z".rjust(20, "0")


def timestamp(seconds: float) -> str:
    """A value of `time.time()`, to the millisecond."""
    whole, part = divmod(round(seconds * 1000), 1000)
    return normal_time(f"{datetime.fromtimestamp(whole, UTC):%Y-%m-%dT%H:%M:%S}.{part:03d}Z")


def normal_uuid(text: str) -> str:
    """Raises ValueError when it is not a UUID. Upper case, braces, `urn:uuid:` and missing hyphens are accepted."""
    return str(uuid.UUID(text))


def float_text(value: float) -> str:
    """The shortest digits that read back the same: positional from 1e-5 up to 1e16, else an exponent with its sign."""
    text = repr(value)
    mantissa, mark, exponent = text.partition("e")
    if not mark:
        return text
    power = int(exponent)
    if power == -5:
        sign = "-" if mantissa[0] == "-" else ""
        return f"{sign}0.0000{mantissa.lstrip('-').replace('.', '')}"
    return f"{mantissa}e{power:+d}"


def plain(value: Any, room: int = DEEPEST) -> Any:
    """Free-form JSON as every peer can hold it: no lone surrogates, NaN or infinity, no integer over 64 bits.

    A number that msgspec would write differently from the canonical form becomes its `Raw` text.
    """
    match value:
        case None | bool() | Raw():
            return value
        case str():
            return repaired(value)
        case int():
            return value if -(2**63) <= value < 2**64 else _number(value)
        case float():
            return value if abs(value) < 1e16 else _number(value)
        case _ if room <= 0:
            return _too_deep(value)
        case dict():
            return {str(plain(str(name))): plain(inside, room - 1) for name, inside in value.items()}
        case list() | tuple():
            return [plain(inside, room - 1) for inside in value]
        case _:
            return plain(msgspec.to_builtins(value), room)


def _too_deep(value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error


def _number(value: float) -> Any:
    try:
        number = float(value)
    except OverflowError:
        return str(value)
    return Raw(float_text(number).encode()) if math.isfinite(number) else None


def normal_event(event: AnyAgentEvent) -> AnyAgentEvent:
    """Raises ValueError when its time cannot be read."""
    changes: dict[str, Any] = {}
    ts = normal_time(event.ts)
    if ts != event.ts:
        changes["ts"] = ts
    if event.ext is not UNSET:
        changes["ext"] = plain(event.ext)
    if isinstance(event, ToolCalled):
        changes["input"] = plain(event.input)
    elif isinstance(event, ToolReturned):
        changes["output"] = plain(event.output)
    return replace(event, **changes) if changes else event


def normal(receipt: Receipt) -> Receipt:
    """The receipt in normal form. Doing it twice changes nothing. ValueError when an id or a time cannot be read."""
    meta, cost = receipt.meta, receipt.usage.estimated_cost_usd
    return replace(
        receipt,
        meta=replace(
            meta,
            run_id=normal_uuid(meta.run_id),
            work_order_id=normal_uuid(meta.work_order_id),
            started_at=normal_time(meta.started_at),
            finished_at=normal_time(meta.finished_at),
        ),
        usage_raw=plain(receipt.usage_raw),
        usage=receipt.usage if cost is None else replace(receipt.usage, estimated_cost_usd=plain(_as_float(cost))),
        trace=[normal_event(event) for event in receipt.trace],
    )


def _as_float(cost: Any) -> Any:
    return float(cost) if isinstance(cost, int) else cost


# The hash...

_sorted = msgspec.json.Encoder(order="sorted")
_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Receipt] = msgspec.json.Decoder(Receipt)


def canonical(receipt: Receipt) -> bytes:
    """The bytes that are hashed. The receipt must be in normal form."""
    return _sorted.encode(receipt if receipt.receipt_sha256 is None else replace(receipt, receipt_sha256=None))


def receipt_hash(receipt: Receipt) -> str:
    """The receipt must be in normal form. The hash that it carries is not part of what is hashed."""
    return hashlib.sha256(canonical(receipt)).hexdigest()


def sealed(receipt: Receipt) -> Receipt:
    """The receipt in normal form, with its hash."""
    receipt = normal(receipt)
    return replace(receipt, receipt_sha256=receipt_hash(receipt))


def encode(receipt: Receipt) -> bytes:
    return _encoder.encode(receipt)


def decode_exact(data: bytes) -> Receipt:
    """Raises msgspec.ValidationError unless it follows the contract exactly; `repair.read_receipt` is tolerant."""
    return _decoder.decode(data)
