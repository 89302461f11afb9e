"""`treadle sessions`: the conversations kept on this machine."""

from __future__ import annotations

import time

import click

from treadle.agent.session_list import list_sessions
from treadle.cli.as_json import json_option, show_json
from treadle.cli.render import printable
from treadle.io.paths import here


@click.command("sessions")
@click.option("--here", "only_here", is_flag=True, help="Only those of this directory.")
@json_option
def sessions(only_here: bool, as_json: bool) -> None:
    """List kept sessions, the latest first.

    Go on with one by its id, a unique beginning of it, or its name: treadle --resume ID.
    """
    entries = list_sessions(here() if only_here else None)
    if as_json:
        show_json(entries)
        return
    if not entries:
        click.echo("no sessions yet: start one with `treadle`, or `treadle -p PROMPT`")
    for entry in entries:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.updated))
        title = entry.name or " ".join(entry.prompt.split())[:60] or "(nothing said)"
        click.echo(printable(f"{entry.id}  {when}  {entry.turns:3} turns  {entry.cwd}  {title}"))
