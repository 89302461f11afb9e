"""`treadle trust`: say which project directories may change settings, run hooks and start servers."""

import os
import time

import click

from treadle.cli.as_json import json_option, show_json
from treadle.settings import trust as store


@click.command()
@click.argument("directory", type=click.Path(file_okay=False), default=".", metavar="[DIR]")
@click.option("--list", "listing", is_flag=True, help="Show what is trusted.")
@click.option("--remove", is_flag=True, help="Stop trusting DIR.")
@json_option
def trust(directory: str, listing: bool, remove: bool, as_json: bool) -> None:
    """Trust the project in DIR (default: here) as its files are now.

    Until then, what a project's .treadle/, .mcp.json, backplane.toml and .claude/settings*.json say can only narrow
    what is allowed: hooks do not run, servers are not started, allow rules are ignored. When one of these files
    changes, the project must be trusted again.
    """
    if listing:
        _list(as_json)
    elif remove:
        _remove(directory, as_json)
    else:
        _trust(directory, as_json)


def _list(as_json: bool) -> None:
    entries = store.entries()
    if as_json:
        show_json(entries)
    elif not entries:
        click.echo("nothing is trusted yet")
    else:
        for entry in entries:
            when = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.at))
            click.echo(f"{when}  {entry.path}{'  (changed since: not trusted)' if entry.changed else ''}")


def _remove(directory: str, as_json: bool) -> None:
    path = os.path.realpath(directory)
    removed = store.remove(directory)
    if as_json:
        show_json({"path": path, "removed": removed})
    else:
        click.echo(f"{path} is not trusted any more" if removed else f"{path} was not trusted")


def _trust(directory: str, as_json: bool) -> None:
    added = store.trust(directory)
    if as_json:
        show_json(added)
        return
    for entry in added:
        click.echo(f"trusted {entry.path}")
        for name in entry.files:
            click.echo(f"  {name}")
        if not entry.files:
            click.echo("  it has no project files yet; when it gets some, trust it again")
