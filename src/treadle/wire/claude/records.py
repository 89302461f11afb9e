"""The records of Claude Code's stream-json, with its control protocol: one JSON object per line, in both directions.

The envelope is decoded into one of the types below; what is inside stays as it came, since every release adds to it.
An unknown type becomes `Unknown`. Keys may come in any order.
"""

from typing import Any, TypeAlias

import msgspec

from treadle.errors import InvalidJson, Violation


class ClaudeRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    pass


class ControlRequest(ClaudeRecord, frozen=True, kw_only=True, tag="control_request"):
    """Either end asks the other: `request` has a `subtype`, such as initialize, interrupt or can_use_tool."""

    request_id: str
    request: dict[str, Any]


class ControlResponse(ClaudeRecord, frozen=True, kw_only=True, tag="control_response"):
    """`response` has subtype success or error, request_id, and response or error."""

    response: dict[str, Any]


class ControlCancel(ClaudeRecord, frozen=True, kw_only=True, tag="control_cancel_request"):
    """The agent withdraws a request."""

    request_id: str


class User(ClaudeRecord, frozen=True, kw_only=True, tag="user"):
    """A prompt on the way in; results of tools, and echoes of prompts, on the way out."""

    message: dict[str, Any]
    parent_tool_use_id: str | None = None
    session_id: str = ""
    uuid: str = ""
    isReplay: bool = False
    isSynthetic: bool = False
    client_composed: bool = False
    tool_use_result: Any = None


class Assistant(ClaudeRecord, frozen=True, kw_only=True, tag="assistant"):
    """One content block of a reply; blocks of one reply share message.id."""

    message: dict[str, Any]
    parent_tool_use_id: str | None = None
    session_id: str = ""
    error: Any = None


class StreamEvent(ClaudeRecord, frozen=True, kw_only=True, tag="stream_event"):
    """A piece of a reply, as the model service sent it."""

    event: dict[str, Any]
    parent_tool_use_id: str | None = None
    session_id: str = ""


class System(ClaudeRecord, frozen=True, kw_only=True, tag="system"):
    """What happens around the conversation. The subtype decides which fields are set."""

    subtype: str
    session_id: str = ""
    # init
    model: str = ""
    tools: list[Any] = []
    permissionMode: str | None = None
    claude_code_version: str = ""
    apiKeySource: str = ""
    mcp_servers: list[Any] = []
    agents: list[Any] = []
    # api_retry
    attempt: int = 0
    retry_delay_ms: float = 0
    error_status: int | None = None
    error: Any = None
    # task_started, task_updated, task_notification
    task_id: str = ""
    task_type: str = ""
    tool_use_id: str | None = None
    description: str = ""
    subagent_type: str | None = None
    patch: dict[str, Any] = {}
    status: str | None = None
    summary: str = ""
    # permission_denied, informational
    tool_name: str = ""
    message: Any = None
    content: Any = None
    level: str | None = None
    # compact_boundary
    compact_metadata: dict[str, Any] | None = None


class ClaudeResult(ClaudeRecord, frozen=True, kw_only=True, tag="result"):
    """The end of a turn. `subtype` is success even when the model service failed: `is_error` says so."""

    subtype: str
    is_error: bool
    session_id: str = ""
    result: str | None = None
    errors: list[Any] = []
    num_turns: int = 0
    stop_reason: str | None = None
    terminal_reason: str | None = None
    api_error_status: int | None = None
    total_cost_usd: float | None = None
    usage: dict[str, Any] = {}
    modelUsage: dict[str, Any] = {}
    model_usage_since_last_result: dict[str, Any] | None = None
    permission_denials: list[Any] = []
    origin: dict[str, Any] | None = None
    structured_output: Any = None


class UnknownRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record of a type that we do not know, as it came."""

    record: dict[str, Any]


KNOWN = (ControlRequest, ControlResponse, ControlCancel, User, Assistant, StreamEvent, System, ClaudeResult)
_Known: TypeAlias = (
    ControlRequest | ControlResponse | ControlCancel | User | Assistant | StreamEvent | System | ClaudeResult
)
AnyRecord: TypeAlias = _Known | UnknownRecord
_decoder = msgspec.json.Decoder(_Known)
_tags = {kind.__struct_config__.tag for kind in KNOWN}


def decode(line: bytes) -> AnyRecord:
    """The record on one line. InvalidJson when it is not an object, Violation when a known record is incomplete."""
    try:
        found: AnyRecord = _decoder.decode(line)
        return found
    except msgspec.ValidationError as error:
        return _unknown(line, error)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidJson(f"a line is not JSON: {error}") from error


def _unknown(line: bytes, wrong: Exception) -> UnknownRecord:
    try:
        found = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidJson(f"a line is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise InvalidJson("a line is not a JSON object")
    kind = found.get("type")
    if isinstance(kind, str) and kind in _tags:
        raise Violation(f"a {kind} record is not valid: {wrong}")
    return UnknownRecord(record=found)
