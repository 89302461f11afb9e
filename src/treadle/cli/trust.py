"""`treadle trust`: say which project directories may change settings, run hooks and start servers."""

from __future__ import annotations

import os
from datetime import datetime

import click
import msgspec

from treadle.errors import TreadleError
from treadle.work import trust as store


@click.command()
@click.argument("directory", type=click.Path(file_okay=False), default=".", metavar="[DIR]")
@click.option("--list", "listing", is_flag=True, help="Show what is trusted.")
@click.option("--remove", is_flag=True, help="Stop trusting DIR.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def trust(directory: str, listing: bool, remove: bool, as_json: bool) -> None:
    """Trust the project in DIR (default: here) as its files are now.

    Until then, what a project's .treadle/ and .mcp.json say can only narrow what is allowed: hooks do not run, servers
    are not started, allow rules are ignored. When one of these files changes, the project must be trusted again.
    """
    try:
        if listing:
            _list(as_json)
        elif remove:
            _remove(directory, as_json)
        else:
            _trust(directory, as_json)
    except TreadleError as error:
        raise click.ClickException(str(error)) from error


def _print_json(value: object) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(value)).decode())


def _list(as_json: bool) -> None:
    entries = store.entries()
    if as_json:
        _print_json(entries)
    elif not entries:
        click.echo("nothing is trusted yet", err=True)
    elif entries:
        for entry in entries:
            when = datetime.fromtimestamp(entry.at).strftime("%Y-%m-%d %H:%M")
            click.echo(f"{when}  {entry.path}{'  (changed since: not trusted)' if entry.changed else ''}")


def _remove(directory: str, as_json: bool) -> None:
    path = os.path.realpath(directory)
    removed = store.remove(directory)
    if as_json:
        _print_json({"path": path, "removed": removed})
    else:
        click.echo(f"{path} is not trusted any more" if removed else f"{path} was not trusted")


def _trust(directory: str, as_json: bool) -> None:
    added = store.trust(directory)
    if as_json:
        _print_json(added)
        return
    for entry in added:
        click.echo(f"trusted {entry.path}")
        for name in entry.files:
            click.echo(f"  {name}")
        if not entry.files:
            click.echo("  it has no project files yet; when it gets some, trust it again")
