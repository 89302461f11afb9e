"""What is said on the worker wire: requests, responses, and the events inside event lines.

Base version 0.2.0. A number under a field or a type is the version that added it; an "extension" is our own addition,
which a client turns on by naming it in `config.capabilities`. Fields without a default are always on the wire.
"""

from typing import Any, Literal, TypeAlias, get_args

import msgspec

# Requests...


class PermissionRules(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


class SessionBudget(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Limits for the whole session, except the seconds, which count per send."""

    max_cost_usd: float | None = None
    max_tokens: int | None = None
    max_seconds: float | None = None


class Runtime(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Since 0.4: where a worker keeps its files."""

    mode: Literal["default", "isolated"] = "default"
    state_root: str | None = None
    transcript_path: str | None = None
    inherit_ambient_config: bool | None = None


class InitConfig(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    model: str
    system_prompt: str
    tools: tuple[str, ...]
    max_iterations: int | None = None
    task_id: str | None = None
    worker_id: str | None = None
    runtime: Runtime | None = None
    capabilities: tuple[str, ...] = ()
    """Our addition: the extensions that this client uses. The fields below count only when they are named here."""
    approval_mode: Literal["suggest", "auto-edit", "full-auto", "plan", "yolo"] | None = None
    permissions: PermissionRules | None = None
    budget: SessionBudget | None = None
    cwd: str | None = None
    resume: str | None = None

    def asked(self, extension: str) -> bool:
        return extension in self.capabilities


class Request(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    id: str


class Init(Request, frozen=True, kw_only=True, tag="init"):
    config: InitConfig
    protocol_version: str | None = None


class Send(Request, frozen=True, kw_only=True, tag="send"):
    message: str


class StatusRequest(Request, frozen=True, kw_only=True, tag="status"):
    pass


class CancelRequest(Request, frozen=True, kw_only=True, tag="cancel"):
    target_id: str


class Shutdown(Request, frozen=True, kw_only=True, tag="shutdown"):
    pass


class AnswerRequest(Request, frozen=True, kw_only=True, tag="answer"):
    """Extension `answers`: the answer to a permission_request, question or plan with this request_id."""

    target_id: str
    request_id: str
    decision: Literal["allow", "deny"]
    scope: Literal["once", "session", "always"] = "once"
    text: str = ""
    args: Any = None
    """Another input for the call that is allowed."""


class Steer(Request, frozen=True, kw_only=True, tag="steer"):
    """Extension `steer`: text that the agent is to see at its next step."""

    target_id: str
    message: str


AnyRequest: TypeAlias = Init | Send | StatusRequest | CancelRequest | Shutdown | AnswerRequest | Steer
REQUESTS: dict[str, type[Request]] = {str(kind.__struct_config__.tag): kind for kind in get_args(AnyRequest)}

# Events, the inside of an event line...


class Payload(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="event", gc=False):
    pass


class ContentDelta(Payload, frozen=True, tag="content_delta", gc=False):
    text: str


class ToolStart(Payload, frozen=True, tag="tool_start"):
    name: str
    args: Any
    id: str | None = None
    """0.5"""


class ToolEnd(Payload, frozen=True, tag="tool_end"):
    name: str
    result_preview: str
    id: str | None = None
    """0.5"""


class ResultUsage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    cost_micros: int | None = None
    """0.3, as are all below"""
    cost_currency: str | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    generation_id: str | None = None
    """The service's id of its reply; in a result, of the last one."""


class UsageEvent(ResultUsage, frozen=True, kw_only=True, tag_field="event", tag="usage"):
    pass


class ErrorPayload(Payload, frozen=True, kw_only=True, tag="error"):
    code: str
    message: str
    retryable: bool
    provider: str | None = None
    details: Any = None


class PermissionRequest(Payload, frozen=True, kw_only=True, tag="permission_request"):
    """With a request_id (extension `answers`) it waits for an answer; an agent's question also comes in this form."""

    name: str
    reason: str | None = None
    request_id: str | None = None
    kind: Literal["permission", "question", "plan"] | None = None
    args: Any = None
    options: tuple[str, ...] = ()


class PermissionDenied(Payload, frozen=True, tag="permission_denied"):
    name: str
    reason: str


class PlanComplete(Payload, frozen=True, tag="plan_complete"):
    plan: str
    request_id: str | None = None
    """Extension `answers`"""


class ContextPrune(Payload, frozen=True, kw_only=True, tag="context_prune"):
    messages_pruned: int
    tokens_before: int
    tokens_after: int


class ContextCompact(Payload, frozen=True, tag="context_compact"):
    pass


class HandoffPayload(Payload, frozen=True, tag="context_handoff"):
    pass


class Heartbeat(Payload, frozen=True, tag="heartbeat"):
    duration_ms: int


class RoutedModel(Payload, frozen=True, tag="routed_model"):
    """0.3"""

    model: str


class TurnState(Payload, frozen=True, tag="turn_state"):
    """0.5"""

    state: Literal["queued", "running", "cancelling", "completed"]


class WarningPayload(Payload, frozen=True, tag="warning"):
    """Extension `warnings`"""

    message: str
    code: str = ""


AnyPayload: TypeAlias = (
    ContentDelta
    | ToolStart
    | ToolEnd
    | UsageEvent
    | ErrorPayload
    | PermissionRequest
    | PermissionDenied
    | PlanComplete
    | ContextPrune
    | ContextCompact
    | HandoffPayload
    | Heartbeat
    | RoutedModel
    | TurnState
    | WarningPayload
)

# Responses...


class ErrorEnvelope(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    code: str
    message: str
    retryable: bool
    details: Any = None


class WorkerResponse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    id: str


class InitOk(WorkerResponse, frozen=True, kw_only=True, tag="init_ok"):
    session_id: str
    protocol_version: str | None = None
    error: ErrorEnvelope | None = None
    capabilities: dict[str, Any] | None = None
    """0.5, as is the one below"""
    profile: dict[str, Any] | None = None
    runtime: dict[str, Any] | None = None
    """0.4, when it was asked for"""


class EventLine(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type", tag="event", gc=False):
    event: AnyPayload
    event_seq: int
    send_id: str
    session_id: str | None = None
    task_id: str | None = None
    worker_id: str | None = None


class CallMade(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    args: Any
    id: str | None = None
    """0.5"""


class Failure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """0.4: what an orchestrator needs to decide whether to retry. `tool_calls_made` is a count."""

    code: str
    termination_reason: str
    iterations: int
    tool_calls_made: int
    last_tool_name: str | None = None
    loop_count: int | None = None
    loop_threshold: int | None = None
    cancellation_source: str | None = None
    last_tool: CallMade | None = None
    """0.5"""


class SendResult(WorkerResponse, frozen=True, kw_only=True, tag="result"):
    status: Literal["ok", "error", "cancelled"]
    """We say `ok` or `error`; some workers say `cancelled` too."""
    tool_calls_made: tuple[CallMade, ...]
    iterations: int
    response: str | None = None
    usage: ResultUsage | None = None
    error: ErrorEnvelope | None = None
    session_id: str | None = None
    task_id: str | None = None
    worker_id: str | None = None
    model_latency_ms: int | None = None
    tool_latency_ms: int | None = None
    total_latency_ms: int | None = None
    failure: Failure | None = None


class StatusOk(WorkerResponse, frozen=True, kw_only=True, tag="status_ok"):
    model: str
    messages_count: int
    session_id: str
    active: bool
    last_routed_model: str | None = None
    """0.3"""


class ShutdownOk(WorkerResponse, frozen=True, kw_only=True, tag="shutdown_ok"):
    pass


class AnswerOk(WorkerResponse, frozen=True, kw_only=True, tag="answer_ok"):
    """Extension `answers`. Not accepted means that the question is no longer open."""

    accepted: bool


class SteerOk(WorkerResponse, frozen=True, kw_only=True, tag="steer_ok"):
    """Extension `steer`. Not accepted means that the send is not running, has no step left, or what `reason` says."""

    accepted: bool
    reason: str | None = None
    """Why its agent cannot be given messages while it works."""


AnyResponse: TypeAlias = InitOk | EventLine | SendResult | StatusOk | ShutdownOk | AnswerOk | SteerOk


class UnknownMessage(msgspec.Struct, frozen=True):
    """A response or an event that this version does not know: to be skipped."""

    kind: str
    raw: bytes


Message: TypeAlias = AnyRequest | AnyResponse
