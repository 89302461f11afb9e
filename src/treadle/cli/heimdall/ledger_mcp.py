"""`heimdall-ledger-mcp`: the coordination ledger for any MCP client."""

import os

from treadle.cli.heimdall.table import Arguments, small
from treadle.coordination.mcp import Server, serve
from treadle.coordination.planning import Planning
from treadle.errors import ConfigError
from treadle.io.paths import here

LEDGER_MCP_HELP = """heimdall-ledger-mcp: the coordination ledger for any MCP client

heimdall-ledger-mcp [--project DIR] [--extended]
    serve on standard input and output
--project is the ledger's project, if the host starts the server in another directory
--extended adds heartbeat, messages, facts, symbols, capsules and briefs to the six tools of 1.0.0
"""


@small(LEDGER_MCP_HELP, "--project", "--extended")
def ledger_mcp_command(args: Arguments) -> int:
    args.exactly(0, "only options")
    project = args.get("--project") or here()
    if not os.path.isdir(project):
        raise ConfigError(f"there is no directory {project}", hint="--project names the repository")
    planning = Planning(project=project)
    serve(Server(planning, extended="--extended" in args.flags))
    return 0
