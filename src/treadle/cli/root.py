"""The command tree. A command is one line here and one module beside this one, imported when it is used."""

import importlib
import os
import stat
import sys

import click

from treadle.cli import logs
from treadle.cli.names import PRINT, TERMINAL
from treadle.cli.summaries import SUMMARIES
from treadle.errors import ConfigError, TreadleError

GROUPS: dict[str, dict[str, str]] = {
    "Work with an agent": {
        "chat": "treadle.cli.chat.command:chat",
        "demo": "treadle.cli.demo:demo",
        "sessions": "treadle.cli.sessions:sessions",
        "trust": "treadle.cli.trust:trust",
    },
    "Offer an agent to another program, or run another's": {
        "acp": "treadle.cli.acp:acp",
        "mcp": "treadle.cli.mcp:mcp",
        "worker": "treadle.cli.worker:worker",
        "sidecar": "treadle.cli.sidecar:sidecar",
        "host": "treadle.cli.host:host",
        "receipt": "treadle.cli.receipt:receipt",
    },
    "Keep a program in a terminal": {name: f"treadle.cli.terminal.listed:{name}" for name in TERMINAL},
    "Run many agents": {
        "fleet": "treadle.cli.fleet:fleet",
        "serve": "treadle.cli.serve:serve",
        "top": "treadle.cli.top:top",
    },
    "Share a repository": {"coord": "treadle.cli.coord:coord"},
    "See what there is": {
        "agents": "treadle.cli.agents:agents",
        "completion": "treadle.cli.completion.command:completion",
        "docs": "treadle.cli.docs:docs",
        "doctor": "treadle.cli.doctor:doctor",
        "man": "treadle.cli.man:man",
        "models": "treadle.cli.models:models",
        "ps": "treadle.cli.ps:ps",
        "warm": "treadle.cli.warm_start:warm_start",
    },
}
"""Heading -> command name -> "module:attribute" of a click command."""
COMMANDS = {name: place for group in GROUPS.values() for name, place in group.items()}

HELP = ["-h", "--help"]


class LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        return load(COMMANDS[name]) if name in COMMANDS else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            raise click.UsageError(_meant(args[0]), ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, COMMANDS))
        for heading, group in GROUPS.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), SUMMARIES[name]) for name in group])


def _meant(word: str) -> str:
    """Guess what was meant by a word that is not a command."""
    import shlex
    from difflib import get_close_matches

    if any(letter.isspace() for letter in word):
        quoted = shlex.quote(word)
        return f"a prompt needs -p: treadle -p {quoted} (or `treadle chat {quoted}` to talk about it)"
    near = get_close_matches(word, COMMANDS, n=1)
    return f"there is no command {word!r}" + (f": did you mean `treadle {near[0]}`?" if near else "")


def _piped() -> bool:
    """Whether stdin is a pipe or a file: then it is the prompt."""
    try:
        mode = os.fstat(0).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode)


def load(place: str) -> click.Command:
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
    """Run a command. A known error, or a missing file, becomes one line on stderr and exit code 1."""
    try:
        logs.set_up()
        sys.exit(_run(arguments))
    except (TreadleError, OSError) as error:
        print(f"treadle: {error}", file=sys.stderr)
        sys.exit(1)


def _run(arguments: list[str]) -> int | None:
    """`treadle -p ...` and bare `treadle` are commands of their own; everything else is in the tree."""
    words = arguments[: arguments.index("--")] if "--" in arguments else arguments
    if arguments[:1] == ["help"]:
        arguments = words = [*arguments[1:], "--help"]
    elif arguments == ["version"]:
        arguments = words = ["--version"]
    elif not arguments and _piped():
        arguments = words = ["-p"]
    first = words[0] if words else ""
    once = first not in COMMANDS and not PRINT.isdisjoint(words)
    if once:
        from treadle.cli.given import joined

        if first == "-p":
            arguments = ["--print", *arguments[1:]]  # behind a single letter click looks for similar names first
        arguments = joined(arguments)
        command = load("treadle.cli.oneshot:oneshot")
    elif first.startswith("-") and first not in [*HELP, "--version"] or not arguments and sys.stdin.isatty():
        command = load(COMMANDS["chat"])
    else:
        command, arguments = treadle, arguments or ["--help"]
    try:
        code: int | None = command.main(arguments, "treadle", standalone_mode=False, help_option_names=HELP)
        return code
    except click.ClickException as wrong:
        if once:  # to a script, a wrong option is a failure like any other
            hint = "`treadle -p --help` lists the options"
            raise ConfigError(wrong.format_message().rstrip("."), hint=hint) from None
        wrong.show()
        return wrong.exit_code
    except click.Abort:
        return 130
