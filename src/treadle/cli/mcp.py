"""`treadle mcp`: agents as tools of an MCP server."""

import sys

import click

from treadle.cli.options import confinement, serving_options
from treadle.cli.serving import serve, warner


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--model", metavar="NAME", help="The model of runs, unless the client names one.")
@click.option(
    "--permission-mode",
    "mode",
    metavar="MODE",
    help="The most that runs may do without asking. [default: that of the settings, or suggest]",
)
@serving_options
def mcp(agent: str, sandbox: bool | None, network: str | None, model: str | None, mode: str | None) -> None:
    """Serve agents on stdin and stdout as tools of an MCP server.

    Any MCP client can then put any agent to work in this directory: run, start, status, read, answer, cancel.

    \b
      claude mcp add treadle -- treadle mcp --agent codex
      codex mcp add treadle -- treadle mcp --agent claude

    A client cannot ask for more than --permission-mode allows, nor for a directory outside of this one. What needs a
    permission is asked: of the person at the client where the client can ask them, else of its model, with `answer`.
    Nothing but the protocol is ever written to stdout. More: treadle docs give-agents-to-an-mcp-client.
    """
    from treadle.agents import find_agent
    from treadle.doors.mcp.door import McpDoor
    from treadle.io.paths import here
    from treadle.session import SessionSpec, parse_mode
    from treadle.settings import config

    most = parse_mode(mode) if mode else config.load(here()).settings.mode or "suggest"
    confined = confinement(sandbox, network)
    base = SessionSpec(cwd=here(), model=model, mode=most, answers=True, confinement=confined)
    find_agent(agent)  # report a wrong name now, to the person, and not later to the client's model
    warn = warner("treadle mcp")
    sys.exit(serve(lambda stream: McpDoor(find_agent, agent, stream, base=base, warn=warn).run()))
