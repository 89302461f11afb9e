"""Small commands as click commands, so that helps, manual pages and completion have them. They read their arguments."""

import sys
from collections.abc import Callable
from typing import Any

import click

from treadle.cli.arguments import TERMINAL, Small
from treadle.cli.terminal import find, main


class SmallCommand(click.Command):
    """What a small command declares, as click's parameters. Those are for completion: a run reads its own arguments."""

    def __init__(self, name: str, small: Small, run: Callable[[str, list[str]], int] = main) -> None:
        flags = [click.Option([each], is_flag=True) for each in small.flags.split()]
        options = [click.Option([each], type=click.Path()) for each in f"{small.options} {small.many}".split()]
        first = [click.Argument(["command"], type=click.Choice(small.commands))] if small.commands else []
        words = click.Argument(["words"], nargs=-1, type=click.Path(), metavar=small.words)
        text, self.small, self.run = small.help, small, run
        summary = text.partition("\n")[0].removeprefix(f"heimdall-{name}: ")
        super().__init__(name, params=[*options, *flags, *first, words], help=summary, add_help_option=False)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if ctx.resilient_parsing:  # for completion
            return super().parse_args(ctx, args)
        ctx.args = args
        return args

    def invoke(self, ctx: click.Context) -> Any:
        sys.exit(self.run(str(self.name), ctx.args))

    def get_help(self, ctx: click.Context) -> str:
        return self.small.help


def __getattr__(name: str) -> click.Command:
    if name in TERMINAL:
        return SmallCommand(name, find(name))
    raise AttributeError(name)
