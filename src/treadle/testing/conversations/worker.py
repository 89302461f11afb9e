"""Worker conversations: the one in the specification, a refused version, and everything that our extensions add."""

from treadle.wire.common.connection import Conversation
from treadle.wire.worker.messages import (
    AnswerOk,
    AnswerRequest,
    AnyPayload,
    CallMade,
    CancelRequest,
    ContentDelta,
    ErrorEnvelope,
    ErrorPayload,
    EventLine,
    Heartbeat,
    Init,
    InitConfig,
    InitOk,
    Message,
    PermissionRequest,
    ResultUsage,
    Send,
    SendResult,
    Shutdown,
    ShutdownOk,
    StatusOk,
    StatusRequest,
    Steer,
    SteerOk,
    ToolEnd,
    ToolStart,
    UsageEvent,
)

_SESSION = "550e8400-e29b-41d4-a716-446655440000"
_CONFIG = InitConfig(
    model="m/large", system_prompt="Be brief.", tools=("read_file", "bash"), task_id="t", worker_id="w"
)


def _event(seq: int, payload: AnyPayload, send: str = "2") -> tuple[str, Message]:
    return "worker", EventLine(payload, seq, send, _SESSION, "t", "w")


_OPENED: Conversation = [
    ("client", Init(id="1", config=_CONFIG, protocol_version="0.2.0")),
    ("worker", InitOk(id="1", session_id=_SESSION, protocol_version="0.2.0")),
    ("client", Send(id="2", message="Read a.py — and explain it\u2028please")),
]
_DONE = SendResult(
    id="2",
    status="ok",
    response="It prints.",
    tool_calls_made=(CallMade("read_file", {"file_path": "a.py"}),),
    iterations=2,
    usage=ResultUsage(prompt_tokens=20, completion_tokens=5, total_tokens=25),
    session_id=_SESSION,
    model_latency_ms=1200,
    tool_latency_ms=50,
    total_latency_ms=1250,
)
_CANCELLED = SendResult(
    id="2",
    status="error",
    tool_calls_made=(),
    iterations=0,
    error=ErrorEnvelope(code="cancelled", message="cancelled", retryable=False),
)
SAMPLES: list[Conversation] = [
    [
        *_OPENED,
        _event(0, ContentDelta("It ")),
        _event(1, ToolStart("read_file", {"file_path": "a.py"})),
        ("client", StatusRequest(id="3")),
        ("worker", StatusOk(id="3", model="m/large", messages_count=1, session_id=_SESSION, active=True)),
        _event(2, ToolEnd("read_file", "print(1)")),
        _event(3, Heartbeat(5000)),
        _event(4, UsageEvent(prompt_tokens=20, completion_tokens=5, total_tokens=25)),
        _event(5, ErrorPayload(code="provider_error", message="Rate limited", retryable=True, provider="openrouter")),
        ("worker", _DONE),
        ("client", Shutdown(id="4")),
        ("worker", ShutdownOk(id="4")),
    ],
    [
        ("client", Init(id="1", config=_CONFIG, protocol_version="1.0.0")),
        (
            "worker",
            InitOk(
                id="1",
                session_id="",
                protocol_version="0.2.0",
                error=ErrorEnvelope(
                    code="protocol_version_mismatch", message="Client requested 1.0.0, server is 0.2.0", retryable=False
                ),
            ),
        ),
        *_OPENED,
        ("client", Shutdown(id="3")),
        ("client", CancelRequest(id="4", target_id="2")),
        ("worker", _CANCELLED),
        ("worker", ShutdownOk(id="3")),
    ],
    [
        *_OPENED,
        _event(0, PermissionRequest(name="bash", reason="bash (execute) requires approval", request_id="q1")),
        ("client", AnswerRequest(id="3", target_id="2", request_id="q1", decision="allow", scope="session")),
        ("worker", AnswerOk(id="3", accepted=True)),
        ("client", Steer(id="4", target_id="2", message="Only the first line.")),
        ("worker", SteerOk(id="4", accepted=False)),
        ("worker", _CANCELLED),
    ],
]
CROSSINGS = [
    (_OPENED, ("client", CancelRequest(id="3", target_id="2")), ("worker", _DONE)),
    (_OPENED, ("client", Shutdown(id="3")), _event(0, ContentDelta("It "))),
    (_OPENED[:1], ("client", Send(id="2", message="early")), ("worker", _OPENED[1][1])),
]
