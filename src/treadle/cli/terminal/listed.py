"""The terminal commands as click commands, so that `treadle --help` lists them. They parse their own arguments."""

import sys

import click

from treadle.cli.arguments import TERMINAL
from treadle.cli.terminal import find, main


def _command(name: str) -> click.Command:
    _, text = find(name)

    def run(arguments: tuple[str, ...]) -> None:
        sys.exit(main(name, list(arguments)))

    return click.Command(
        name,
        params=[click.Argument(["arguments"], nargs=-1, type=click.UNPROCESSED)],
        callback=run,
        help=text.partition("\n")[0],
        add_help_option=False,
        context_settings={"ignore_unknown_options": True},
    )


def __getattr__(name: str) -> click.Command:
    if name in TERMINAL:
        return _command(name)
    raise AttributeError(name)
