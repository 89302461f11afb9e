"""Who may call what in Codex's app-server protocol."""

from treadle.wire.common.connection import json_line
from treadle.wire.common.rpc import OPENER_SAYS, OTHER_SAYS, RpcConnection, RpcMessage, as_json

SPEAKS = "0.166.0"
"""The version of Codex whose messages these are."""

HOST_METHODS = frozenset(
    {
        *("initialize", "initialized", "thread/start", "thread/resume", "thread/fork", "thread/list", "thread/read"),
        *("turn/start", "turn/steer", "turn/interrupt", "thread/backgroundTerminals/clean", "thread/compact/start"),
        *("account/read", "model/list", "config/read", "thread/loaded/list", "thread/turns/list", "thread/unsubscribe"),
        *("skills/list", "hooks/list", "mcpServerStatus/list", "experimentalFeature/list", "permissionProfile/list"),
    }
)
SERVER_METHODS = frozenset(
    {
        *("item/commandExecution/requestApproval", "item/fileChange/requestApproval", "turn/started", "turn/completed"),
        *("item/permissions/requestApproval", "item/tool/requestUserInput", "mcpServer/elicitation/request"),
        *("item/started", "item/completed", "item/agentMessage/delta", "thread/tokenUsage/updated", "error", "warning"),
        *("item/reasoning/summaryPartAdded", "item/reasoning/summaryTextDelta", "item/commandExecution/outputDelta"),
        *("thread/started", "thread/status/changed", "thread/closed", "turn/plan/updated", "serverRequest/resolved"),
    }
)


class Connection(RpcConnection):
    SAYS = {"host": OPENER_SAYS, "server": OTHER_SAYS}
    METHODS = {"host": HOST_METHODS, "server": SERVER_METHODS}
    OPENER = "host"

    def encode(self, message: RpcMessage) -> bytes:
        body = as_json(message)
        del body["jsonrpc"]
        return json_line(body)
