"""What commands declare in the same way: `--json`, and groups of which one command needs no name."""

from typing import Any

import click
import msgspec

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")


def show_json(value: Any) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(value)))


def group_or(default: str) -> type[click.Group]:
    """A group in which a first word that is no command, or none, is for the command `default`."""

    class DefaultGroup(click.Group):
        def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
            if not args or args[0] not in (*self.commands, "-h", "--help"):
                args = [default, *args]
            return super().parse_args(ctx, args)

    return DefaultGroup
