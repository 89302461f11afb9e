"""The command tree. A command is one line here and one file beside this one; it is imported when it is used."""

from __future__ import annotations

import importlib

import click

COMMANDS: dict[str, str] = {
    "coord": "treadle.cli.coord:coord",
}
"""name -> "module:attribute" of a click command, and its one line of help is read from there."""


class LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module, attribute = COMMANDS[name].split(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command


@click.group(cls=LazyGroup)
def treadle() -> None:
    """Drive, supervise and coordinate coding agents: any agent, over any wire, to the end."""
