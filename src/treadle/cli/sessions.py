"""`treadle sessions`: the conversations kept on this machine."""

from __future__ import annotations

import time

import click
import msgspec

from treadle.agent.transcript import list_sessions
from treadle.cli.options import here
from treadle.cli.render import printable


@click.command("sessions")
@click.option("--here", "only_here", is_flag=True, help="Only those of this directory.")
@click.option("--json", "as_json", is_flag=True, help="One JSON array.")
def sessions(only_here: bool, as_json: bool) -> None:
    """List kept sessions, the latest first.

    Go on with one by its id, a unique beginning of it, or its name: treadle --resume ID.
    """
    entries = list_sessions(here() if only_here else None)
    if as_json:
        click.echo(msgspec.json.encode(entries))
        return
    if not entries:
        click.echo("no sessions yet: start one with `treadle`, or `treadle -p PROMPT`")
    for entry in entries:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.updated))
        title = entry.name or " ".join(entry.prompt.split())[:60] or "(nothing said)"
        click.echo(printable(f"{entry.id}  {when}  {entry.turns:3} turns  {entry.cwd}  {title}"))
