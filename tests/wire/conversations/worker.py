"""Worker conversations: the one in the specification, a refused version, and everything that our extensions add."""

from treadle.wire.common.connection import Conversation
from treadle.wire.worker import messages

_SESSION = "550e8400-e29b-41d4-a716-446655440000"
_CONFIG = messages.InitConfig(
    model="m/large", system_prompt="Be brief.", tools=("read_file", "bash"), task_id="t", worker_id="w"
)


def _event(seq: int, payload: messages.AnyPayload, send: str = "2") -> tuple[str, messages.Message]:
    return "worker", messages.EventLine(payload, seq, send, _SESSION, "t", "w")


_OPENED: Conversation = [
    ("client", messages.Init(id="1", config=_CONFIG, protocol_version="0.2.0")),
    ("worker", messages.InitOk(id="1", session_id=_SESSION, protocol_version="0.2.0")),
    ("client", messages.Send(id="2", message="Read a.py — and explain it\u2028please")),
]
_DONE = messages.SendResult(
    id="2",
    status="ok",
    response="It prints.",
    tool_calls_made=(messages.CallMade("read_file", {"file_path": "a.py"}),),
    iterations=2,
    usage=messages.ResultUsage(prompt_tokens=20, completion_tokens=5, total_tokens=25),
    session_id=_SESSION,
    model_latency_ms=1200,
    tool_latency_ms=50,
    total_latency_ms=1250,
)
_CANCELLED = messages.SendResult(
    id="2",
    status="error",
    tool_calls_made=(),
    iterations=0,
    error=messages.ErrorEnvelope(code="cancelled", message="cancelled", retryable=False),
)
SAMPLES: list[Conversation] = [
    [
        *_OPENED,
        _event(0, messages.ContentDelta("It ")),
        _event(1, messages.ToolStart("read_file", {"file_path": "a.py"})),
        ("client", messages.StatusRequest(id="3")),
        ("worker", messages.StatusOk(id="3", model="m/large", messages_count=1, session_id=_SESSION, active=True)),
        _event(2, messages.ToolEnd("read_file", "print(1)")),
        _event(3, messages.Heartbeat(5000)),
        _event(4, messages.UsageEvent(prompt_tokens=20, completion_tokens=5, total_tokens=25)),
        _event(
            5,
            messages.ErrorPayload(code="provider_error", message="Rate limited", retryable=True, provider="openrouter"),
        ),
        ("worker", _DONE),
        ("client", messages.Shutdown(id="4")),
        ("worker", messages.ShutdownOk(id="4")),
    ],
    [
        ("client", messages.Init(id="1", config=_CONFIG, protocol_version="1.0.0")),
        (
            "worker",
            messages.InitOk(
                id="1",
                session_id="",
                protocol_version="0.2.0",
                error=messages.ErrorEnvelope(
                    code="protocol_version_mismatch", message="Client requested 1.0.0, server is 0.2.0", retryable=False
                ),
            ),
        ),
        *_OPENED,
        ("client", messages.Shutdown(id="3")),
        ("client", messages.CancelRequest(id="4", target_id="2")),
        ("worker", _CANCELLED),
        ("worker", messages.ShutdownOk(id="3")),
    ],
    [
        *_OPENED,
        _event(0, messages.PermissionRequest(name="bash", reason="bash (execute) requires approval", request_id="q1")),
        ("client", messages.AnswerRequest(id="3", target_id="2", request_id="q1", decision="allow", scope="session")),
        ("worker", messages.AnswerOk(id="3", accepted=True)),
        ("client", messages.Steer(id="4", target_id="2", message="Only the first line.")),
        ("worker", messages.SteerOk(id="4", accepted=False)),
        ("worker", _CANCELLED),
    ],
]
CROSSINGS = [
    (_OPENED, ("client", messages.CancelRequest(id="3", target_id="2")), ("worker", _DONE)),
    (_OPENED, ("client", messages.Shutdown(id="3")), _event(0, messages.ContentDelta("It "))),
    (_OPENED[:1], ("client", messages.Send(id="2", message="early")), ("worker", _OPENED[1][1])),
]
