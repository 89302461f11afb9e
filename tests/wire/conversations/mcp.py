"""The Model Context Protocol: a call of a tool with progress and a question, and a client that looks around first."""

from treadle.wire.common.connection import Conversation
from treadle.wire.common.rpc import Returned, RpcCall, RpcNotice, RpcRefused

_OPENING: Conversation = [
    ("client", RpcCall(id=0, method="initialize", params={"protocolVersion": "2025-11-25", "capabilities": {}})),
    ("server", Returned(id=0, result={"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}})),
    ("client", RpcNotice(method="notifications/initialized")),
    ("client", RpcCall(id=1, method="tools/call", params={"name": "run", "arguments": {"prompt": "hé"}})),
]
_PROGRESS = RpcNotice(method="notifications/progress", params={"progressToken": 1, "progress": 1})
_ASK = RpcCall(id=1, method="elicitation/create", params={"message": "may I?", "requestedSchema": {}})
_DONE = Returned(id=1, result={"content": []})
_CANCEL = RpcNotice(method="notifications/cancelled", params={"requestId": 1})

SAMPLES: list[Conversation] = [
    [
        *_OPENING,
        ("server", _PROGRESS),
        ("server", _ASK),
        ("client", Returned(id=1, result={"action": "accept", "content": {"decision": "allow"}})),
        ("server", _DONE),
    ],
    [
        ("client", RpcCall(id="probe", method="server/discover")),
        ("server", RpcRefused(id="probe", code=-32601, message="unknown method")),
        *_OPENING,
        ("server", _ASK),
        ("client", RpcRefused(id=1, code=-32601, message="no elicitation here")),
        ("server", _DONE),
    ],
]
CROSSINGS = [
    ([*_OPENING], ("client", _CANCEL), ("server", _DONE)),
    ([*_OPENING, ("server", _ASK)], ("client", Returned(id=1, result={})), ("server", _PROGRESS)),
]
