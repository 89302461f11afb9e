"""Sample conversations with Codex's app-server."""

from treadle.wire.common.connection import Conversation
from treadle.wire.common.rpc import Returned, RpcCall, RpcNotice, RpcRefused

_WHERE = {"threadId": "t", "turnId": "u"}
SAMPLES: list[Conversation] = [
    [
        ("host", RpcCall(id=1, method="initialize", params={"clientInfo": {"name": "treadle", "version": "1"}})),
        ("server", Returned(id=1, result={"userAgent": "treadle/0.166.0"})),
        ("host", RpcNotice(method="initialized")),
        ("host", RpcCall(id=2, method="thread/start", params={"cwd": "/w"})),
        ("server", Returned(id=2, result={"thread": {"id": "t"}})),
        (
            "host",
            RpcCall(id=3, method="turn/start", params={"threadId": "t", "input": [{"type": "text", "text": "go"}]}),
        ),
        ("server", Returned(id=3, result={"turn": {"id": "u"}})),
        (
            "server",
            RpcNotice(method="item/started", params={**_WHERE, "item": {"type": "commandExecution", "id": "c"}}),
        ),
        ("server", RpcCall(id=0, method="item/commandExecution/requestApproval", params={**_WHERE, "itemId": "c"})),
        ("host", Returned(id=0, result={"decision": "accept"})),
        ("server", RpcCall(id=1, method="item/permissions/requestApproval", params=_WHERE)),
        ("host", RpcRefused(id=1, code=-32601, message="not offered")),
        ("host", RpcCall(id=4, method="turn/steer", params={"threadId": "t", "expectedTurnId": "x"})),
        ("server", RpcRefused(id=4, code=-32600, message="expected active turn id u")),
        ("server", RpcNotice(method="turn/completed", params={"threadId": "t", "turn": {"id": "u"}})),
    ]
]
