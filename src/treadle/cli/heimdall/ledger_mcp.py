"""`heimdall-ledger-mcp`: the coordination ledger for any MCP client."""

import os
import sys

from treadle.cli.heimdall.table import Arguments, UsageError, out, small
from treadle.coordination.mcp import Server, serve
from treadle.coordination.planning import Planning
from treadle.errors import ConfigError
from treadle.io.paths import here

LEDGER_MCP_HELP = """heimdall-ledger-mcp: the coordination ledger for any MCP client

heimdall-ledger-mcp [--project DIR] [--extended]
    serve on standard input and output
heimdall-ledger-mcp --http [--port N] [--project DIR] [--extended]
    serve Streamable HTTP on loopback; prints the address and the token, which HEIMDALL_MCP_TOKEN can set
--project says whose ledger it is, when the host starts the server elsewhere
--extended adds heartbeat, messages, facts, symbols, capsules and briefs to the six tools of 1.0.0
"""


@small(LEDGER_MCP_HELP, "--project --port", "--extended --http")
def ledger_mcp_command(args: Arguments) -> int:
    args.exactly(0, "only options")
    project = args.get("--project") or here()
    if not os.path.isdir(project):
        raise ConfigError(f"there is no directory {project}", hint="--project names the repository")
    planning = Planning(project=project)
    extended = "--extended" in args.flags
    if "--http" in args.flags:
        return _http(planning, extended, args.get("--port", "0"))
    serve(Server(planning, extended=extended))
    return 0


def _http(planning: Planning, extended: bool, port: str) -> int:
    import secrets

    from treadle.coordination.mcp_http import HttpListener

    if not port.isdecimal() or int(port) > 65535:
        raise UsageError("--port is a number up to 65535")

    def make() -> Server:
        return Server(planning, extended=extended, remote=True)

    make().close()  # try it once, so that an error is reported now and not to the first client
    token = os.environ.get("HEIMDALL_MCP_TOKEN") or secrets.token_urlsafe(32)
    try:
        listener = HttpListener(make, token, int(port))
    except OSError as error:
        raise ConfigError(f"cannot listen on port {port}: {error.strerror}", hint="choose another --port") from error
    out(f"listening on {listener.url}\ntoken {token}")
    sys.stdout.flush()
    with listener:
        listener.serve_forever()
    return 0
