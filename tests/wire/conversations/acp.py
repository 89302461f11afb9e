"""The Agent Client Protocol: a turn with a permission, one that is cancelled, a greeting that fails at first."""

from treadle.wire.common.connection import Conversation
from treadle.wire.common.rpc import Returned, RpcCall, RpcNotice, RpcRefused

_OPENING: Conversation = [
    ("client", RpcCall(id=1, method="initialize", params={"protocolVersion": 1, "clientCapabilities": {}})),
    ("agent", Returned(id=1, result={"protocolVersion": 1, "agentCapabilities": {}})),
    ("client", RpcCall(id=2, method="session/new", params={"cwd": "/w", "mcpServers": []})),
    ("agent", Returned(id=2, result={"sessionId": "s1"})),
    ("client", RpcCall(id=3, method="session/prompt", params={"sessionId": "s1", "prompt": []})),
]
_UPDATE = RpcNotice(
    method="session/update",
    params={
        "sessionId": "s1",
        "update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "Hé"}},
    },
)
_PERMISSION = RpcCall(id=0, method="session/request_permission", params={"sessionId": "s1", "options": []})
_ALLOWED = Returned(id=0, result={"outcome": {"outcome": "selected", "optionId": "once"}})
_CANCEL = RpcNotice(method="session/cancel", params={"sessionId": "s1"})
_DONE = Returned(id=3, result={"stopReason": "end_turn"})

SAMPLES: list[Conversation] = [
    [
        *_OPENING,
        ("agent", RpcCall(id="f", method="fs/read_text_file", params={"sessionId": "s1", "path": "/w/none"})),
        ("client", RpcRefused(id="f", code=-32002, message="no such file")),
        ("client", _CANCEL),
        ("agent", Returned(id=3, result={"stopReason": "cancelled"})),
    ],
    [*_OPENING, ("agent", _UPDATE), ("agent", _PERMISSION), ("client", _ALLOWED), ("agent", _DONE)],
    [
        ("client", RpcCall(id="a", method="initialize", params={"protocolVersion": 1})),
        ("agent", RpcRefused(id="a", code=-32603, message="not now", data={"why": "busy"})),
        ("client", RpcCall(id="b", method="initialize", params={"protocolVersion": 1})),
        ("agent", RpcNotice(method="_auth/status", params={})),
        ("agent", Returned(id="b", result={"protocolVersion": 1})),
    ],
]
CROSSINGS = [
    ([*_OPENING], ("client", _CANCEL), ("agent", _DONE)),
    ([*_OPENING, ("agent", _PERMISSION)], ("client", _ALLOWED), ("agent", _UPDATE)),
]
