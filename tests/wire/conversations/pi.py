"""Sample conversations with pi."""

from treadle.wire.common.connection import Conversation
from treadle.wire.pi.connection import Command, Piece, PiMessage

SAMPLES: list[Conversation] = [
    [
        ("host", Command(type="get_state", id="1")),
        ("agent", PiMessage(type="response", command="get_state", success=True, id="1", data={"sessionId": "s"})),
        ("host", Command(type="prompt", id="2", message="go")),
        ("agent", PiMessage(type="response", command="prompt", success=True, id="2")),
        ("agent", PiMessage(type="agent_start")),
        ("agent", PiMessage(type="message_update", assistantMessageEvent=Piece(type="text_delta", delta="Let "))),
        ("agent", PiMessage(type="tool_execution_start", toolCallId="c", toolName="bash", args={"command": "ls"})),
        ("agent", PiMessage(type="extension_ui_request", id="u", method="input", title="t", placeholder="{}")),
        ("host", Command(type="extension_ui_response", id="u", value='{"allow":true}')),
        ("agent", PiMessage(type="tool_execution_end", toolCallId="c", toolName="bash", result={"content": []})),
        ("agent", PiMessage(type="agent_end")),
    ]
]
