"""The command tree. A command is one line here and one file beside this one; it is imported when it is used."""

from __future__ import annotations

import importlib
import sys

import click

from treadle.cli import TERMINAL, logs
from treadle.errors import TreadleError

COMMANDS: dict[str, str] = {
    "chat": "treadle.cli.chat:chat",
    "coord": "treadle.cli.coord:coord",
    "demo": "treadle.cli.demo:demo",
    "doctor": "treadle.cli.doctor:doctor",
    "host": "treadle.cli.host:host",
    "models": "treadle.cli.models:models",
    "receipt": "treadle.cli.receipt:receipt",
    "ps": "treadle.cli.ps:ps",
    "sessions": "treadle.cli.sessions:sessions",
    "sidecar": "treadle.cli.sidecar:sidecar",
    "trust": "treadle.cli.trust:trust",
    "worker": "treadle.cli.worker:worker",
    **{name: f"treadle.cli.terminal.listed:{name}" for name in TERMINAL},
}
"""name -> "module:attribute" of a click command."""

PRINT = ("-p", "--print", "--input-format")
"""What makes a command line a one-shot run. The last one: what drives Claude Code leaves out -p when it sends it."""


HELP = ["-h", "--help"]


class LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        return _load(COMMANDS[name]) if name in COMMANDS else None


def _load(place: str) -> click.Command:
    module, attribute = place.split(":")
    command = getattr(importlib.import_module(module), attribute)
    assert isinstance(command, click.Command)
    return command


@click.group(cls=LazyGroup)
@click.version_option(package_name="treadle", prog_name="treadle")
def treadle() -> None:
    """Drive, supervise and coordinate coding agents: any agent, over any wire, to the end.

    \b
    treadle                          talk with an agent in this directory
    treadle -p "fix the test"        run one prompt and print the answer
    treadle -p --help                all options of a run

    Without a model of your own, `treadle demo` shows it at work.
    """


def main(arguments: list[str]) -> None:
    """Run a command; what fails in a way we know, or for want of a file, is one line on stderr and exit code 1."""
    try:
        logs.set_up()
        _dispatch(arguments)
    except (TreadleError, OSError) as error:
        print(f"treadle: {error}", file=sys.stderr)
        sys.exit(1)


def _dispatch(arguments: list[str]) -> None:
    """`treadle -p ...` and bare `treadle` are commands of their own; everything else is in the tree."""
    words = arguments[: arguments.index("--")] if "--" in arguments else arguments
    first = words[0] if words else ""
    if first not in COMMANDS and any(word in words for word in PRINT):
        command = _load("treadle.cli.oneshot:oneshot")
    elif first.startswith("-") and first not in HELP or not arguments and sys.stdin.isatty():
        command = _load(COMMANDS["chat"])
    else:
        command, arguments = treadle, arguments or ["--help"]
    command(args=arguments, prog_name="treadle", help_option_names=HELP)
