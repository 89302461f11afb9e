"""`treadle host validate` and `treadle host schema`: files of the contract, and what they must look like."""

import os
import sys

import click

from treadle.cli.as_json import json_option, show_json
from treadle.host.validate import check_file
from treadle.io.files import write_atomic
from treadle.wire.sidecar.schema import TYPES, text


@click.command("validate")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@json_option
def validate(file: str, as_json: bool) -> None:
    """Check a work order, a receipt, a policy or a backplane.toml against the contract.

    Whatever a strict peer would not take is named. Exits with 1 when there is something.
    """
    report = check_file(file)
    if as_json:
        show_json(report)
    else:
        click.echo(f"{file}: {report.kind}, {'valid' if report.valid else 'not valid'}")
        for problem in report.problems:
            click.echo(f"  {problem}")
    sys.exit(0 if report.valid else 1)


@click.command("schema")
@click.argument("name", type=click.Choice(list(TYPES)), required=False)
@click.option("--write", "directory", type=click.Path(file_okay=False), help="Write all of them to DIRECTORY.")
def schema(name: str | None, directory: str | None) -> None:
    """Print the JSON Schema of one of the contract's types, or write all of them."""
    if (name is None) == (directory is None):
        raise click.UsageError("give NAME to print one, or --write DIRECTORY for all")
    if name is not None:
        click.echo(text(name), nl=False)
    if directory is not None:
        os.makedirs(directory, exist_ok=True)
        for each in TYPES:
            write_atomic(os.path.join(directory, f"{each}.schema.json"), text(each).encode(), mode=0o644)
