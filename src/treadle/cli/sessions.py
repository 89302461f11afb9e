"""`treadle sessions`: the conversations kept on this machine."""

from __future__ import annotations

import os
import time

import click
import msgspec

from treadle.agent.transcript import list_sessions


@click.command("sessions")
@click.option("--here", is_flag=True, help="Only those of this directory.")
@click.option("--json", "as_json", is_flag=True, help="One JSON array.")
def sessions(here: bool, as_json: bool) -> None:
    """List kept sessions, the latest first.

    Go on with one by its id, a unique beginning of it, or its name: treadle --resume ID.
    """
    entries = list_sessions(os.getcwd() if here else None)
    if as_json:
        click.echo(msgspec.json.encode(entries))
        return
    if not entries:
        click.echo("no sessions yet: start one with `treadle`, or `treadle -p PROMPT`")
    for entry in entries:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.updated))
        title = entry.name or " ".join(entry.prompt.split())[:60] or "(nothing said)"
        click.echo(f"{entry.id}  {when}  {entry.turns:3} turns  {entry.cwd}  {title}")
