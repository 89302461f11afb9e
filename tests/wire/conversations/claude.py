"""Sample conversations with Claude Code."""

from treadle.wire.claude.connection import (
    Assistant,
    ClaudeResult,
    ControlCancel,
    ControlRequest,
    ControlResponse,
    StreamEvent,
    System,
    User,
)
from treadle.wire.common.connection import Conversation

_ID = "9f0c2a34-5b1d-4f7a-8f55-3f2d1c9b7a10"
SAMPLES: list[Conversation] = [
    [
        ("host", ControlRequest(request_id="1", request={"subtype": "initialize", "hooks": {}})),
        (
            "agent",
            ControlResponse(response={"subtype": "success", "request_id": "1", "response": {"commands": []}}),
        ),
        ("host", User(message={"role": "user", "content": "touch it"}, uuid="u1")),
        ("agent", System(subtype="init", session_id=_ID, model="m", tools=["Bash"])),
        ("agent", StreamEvent(event={"type": "message_start", "message": {"id": "m1"}}, session_id=_ID)),
        (
            "agent",
            Assistant(message={"id": "m1", "content": [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {}}]}),
        ),
        (
            "agent",
            ControlRequest(request_id="a", request={"subtype": "can_use_tool", "tool_name": "Bash", "input": {}}),
        ),
        (
            "host",
            ControlResponse(response={"subtype": "success", "request_id": "a", "response": {"behavior": "allow"}}),
        ),
        (
            "agent",
            User(message={"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": ""}]}),
        ),
        ("agent", ControlCancel(request_id="b")),
        ("agent", ClaudeResult(subtype="success", is_error=False, session_id=_ID, result="done")),
    ]
]
