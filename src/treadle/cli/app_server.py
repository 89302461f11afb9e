"""`treadle app-server`: an agent for programs that drive Codex's app-server."""

import sys

import click

from treadle.cli.options import confinement, serving_options
from treadle.cli.serving import serve, warner
from treadle.errors import ConfigError


@click.command("app-server", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--model", metavar="NAME", help="The model that new threads use.")
@click.option("--permission-mode", "mode", metavar="MODE", help="suggest, auto-edit, full-auto, plan or yolo.")
@click.option("--listen", default="stdio://", metavar="URL", help="stdio:// is all that there is.")
@click.option("--config", "-c", multiple=True, metavar="KEY=VALUE", hidden=True)
@serving_options
def app_server(
    agent: str,
    sandbox: bool | None,
    network: str | None,
    model: str | None,
    mode: str | None,
    listen: str,
    config: tuple[str, ...],
) -> None:
    """Serve an agent on stdin and stdout as `codex app-server` serves Codex, for its SDK and editors.

    Programs that drive Codex start this when they are told that `treadle` is the program of Codex:

    \b
      from openai_codex import Codex, CodexConfig
      codex = Codex(CodexConfig(codex_bin="/path/of/treadle"))

    TREADLE_AGENT or --agent names the agent. The client decides about approvals. More: treadle docs app-server.
    """
    from treadle.agents import find_agent
    from treadle.doors.codex.door import AppServerDoor
    from treadle.io.paths import here
    from treadle.session import SessionSpec, parse_mode

    if listen != "stdio://":
        raise ConfigError(f"--listen {listen} is not offered here", hint="stdio:// is")
    warn = warner("treadle app-server")
    for entry in config:
        warn(f"--config {entry.partition('=')[0]} is not used here")
    given = parse_mode(mode) if mode else None
    confined = confinement(sandbox, network)
    base = SessionSpec(cwd=here(), model=model, mode=given, looks_freely=True, confinement=confined)
    found = find_agent(agent)
    sys.exit(serve(lambda stream: AppServerDoor(found, stream, base=base, warn=warn).run()))
