"""The Model Context Protocol: a call of a tool with progress and a question, and a client that looks around first."""

from treadle.wire.common.connection import Conversation
from treadle.wire.common.rpc import Call, Notice, Refused, Returned

_OPENING: Conversation = [
    ("client", Call(id=0, method="initialize", params={"protocolVersion": "2025-11-25", "capabilities": {}})),
    ("server", Returned(id=0, result={"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}})),
    ("client", Notice(method="notifications/initialized")),
    ("client", Call(id=1, method="tools/call", params={"name": "run", "arguments": {"prompt": "hé"}})),
]
_PROGRESS = Notice(method="notifications/progress", params={"progressToken": 1, "progress": 1})
_ASK = Call(id=1, method="elicitation/create", params={"message": "may I?", "requestedSchema": {}})
_DONE = Returned(id=1, result={"content": []})
_CANCEL = Notice(method="notifications/cancelled", params={"requestId": 1})

SAMPLES: list[Conversation] = [
    [
        *_OPENING,
        ("server", _PROGRESS),
        ("server", _ASK),
        ("client", Returned(id=1, result={"action": "accept", "content": {"decision": "allow"}})),
        ("server", _DONE),
    ],
    [
        ("client", Call(id="probe", method="server/discover")),
        ("server", Refused(id="probe", code=-32601, message="unknown method")),
        *_OPENING,
        ("server", _ASK),
        ("client", Refused(id=1, code=-32601, message="no elicitation here")),
        ("server", _DONE),
    ],
]
CROSSINGS = [
    ([*_OPENING], ("client", _CANCEL), ("server", _DONE)),
    ([*_OPENING, ("server", _ASK)], ("client", Returned(id=1, result={})), ("server", _PROGRESS)),
]
