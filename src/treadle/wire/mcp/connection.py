"""Who may say what in the Model Context Protocol, between a client and a server of tools."""

from typing import ClassVar

from treadle.wire.common.connection import Transitions
from treadle.wire.common.rpc import OPENER_SAYS, OTHER_SAYS, RpcConnection

CLIENT_METHODS = frozenset(
    {
        "initialize",
        "notifications/initialized",
        "notifications/cancelled",
        "notifications/progress",
        "ping",
        "server/discover",
        "tools/list",
        "tools/call",
    }
)
SERVER_METHODS = frozenset(
    {"notifications/progress", "notifications/message", "notifications/cancelled", "elicitation/create", "ping"}
)


class Connection(RpcConnection):
    """A client may send other requests before `initialize`: the newest clients do, and initialize only when refused."""

    SAYS = {"client": OPENER_SAYS, "server": OTHER_SAYS}
    METHODS = {"client": CLIENT_METHODS, "server": SERVER_METHODS}
    OPENER = "client"
    TRANSITIONS: ClassVar[Transitions] = {
        **RpcConnection.TRANSITIONS,
        ("new", "call"): "new",
        ("new", "result"): "new",
        ("new", "reply"): "new",
    }
