"""`--json`: the same option and the same form for every command that has it."""

from typing import Any

import click
import msgspec

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")


def show_json(value: Any) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(value)))
