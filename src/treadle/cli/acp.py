"""`treadle acp`: an agent for editors that speak the Agent Client Protocol."""

import sys

import click

from treadle.cli.options import confinement, serving_options
from treadle.cli.serving import serve, warner


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--model", metavar="NAME", help="The model that new sessions use.")
@click.option("--permission-mode", "mode", metavar="MODE", help="suggest, auto-edit, full-auto, plan or yolo.")
@serving_options
def acp(agent: str, sandbox: bool | None, network: str | None, model: str | None, mode: str | None) -> None:
    """Serve an agent on stdin and stdout to an editor that speaks the Agent Client Protocol.

    Your editor starts this; tell it the command. In Zed's settings.json:

    \b
      "agent_servers": {
        "Treadle": { "command": "treadle", "args": ["acp"] },
        "Codex through Treadle": { "command": "treadle", "args": ["acp", "--agent", "codex"] }
      }

    The editor is asked for permissions, with the diff, and can switch the mode, load earlier sessions and run slash
    commands. Nothing but the protocol is ever written to stdout. More: treadle docs use-treadle-from-an-editor.
    """
    from treadle.agents import find_agent
    from treadle.doors.acp.door import AcpDoor
    from treadle.io.paths import here
    from treadle.session import SessionSpec, parse_mode

    confined = confinement(sandbox, network)
    given = parse_mode(mode) if mode else None
    base = SessionSpec(cwd=here(), model=model, mode=given, confinement=confined)
    found = find_agent(agent)

    warn = warner("treadle acp")
    sys.exit(serve(lambda stream: AcpDoor(found, stream, base=base, warn=warn).run()))
