"""Who may say what in the Agent Client Protocol. Protocol version 1, as its schema of November 2026 has it."""

from treadle.wire.common.rpc import OPENER_SAYS, OTHER_SAYS, RpcConnection

PROTOCOL_VERSION = 1

CLIENT_METHODS = frozenset(
    {
        "initialize",
        "authenticate",
        "session/new",
        "session/load",
        "session/resume",
        "session/fork",
        "session/list",
        "session/close",
        "session/prompt",
        "session/cancel",
        "session/set_mode",
        "session/set_model",
        "session/set_config_option",
    }
)
"""Methods that we call as a client. `session/set_model` is not in the schema, but four agents implement it."""

AGENT_METHODS = frozenset(
    {
        "session/update",
        "session/request_permission",
        "fs/read_text_file",
        "fs/write_text_file",
        "terminal/create",
        "terminal/output",
        "terminal/wait_for_exit",
        "terminal/kill",
        "terminal/release",
        "elicitation/create",
    }
)


class Connection(RpcConnection):
    SAYS = {"client": OPENER_SAYS, "agent": OTHER_SAYS}
    METHODS = {"client": CLIENT_METHODS, "agent": AGENT_METHODS}
    OPENER = "client"
