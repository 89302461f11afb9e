"""`treadle man`: a manual page for each command, made from its help."""

import os

import click

from treadle import __version__
from treadle.cli.words import CommandWords, every
from treadle.errors import NotFound
from treadle.io.files import write_atomic


@click.command("man")
@click.argument("words", nargs=-1, metavar="[COMMAND]...")
@click.option("--write", "directory", type=click.Path(file_okay=False), help="Write all pages to DIRECTORY/man1.")
def man(words: tuple[str, ...], directory: str | None) -> None:
    """Print the manual page of a command, or write all of them.

    \b
    treadle man fleet submit | man -l -
    treadle man --write ~/.local/share/man      # from then on: man treadle-fleet-submit
    """
    commands = every()
    if directory is not None:
        written = {
            "-".join(command.path): command  # `treadle worker` and `treadle-worker` have one page
            for command in commands
            if command.path[:2] != ("treadle", "coord") or len(command.path) == 2
        }
        folder = os.path.join(os.path.abspath(os.path.expanduser(directory)), "man1")
        os.makedirs(folder, exist_ok=True)
        for name, command in written.items():
            write_atomic(os.path.join(folder, f"{name}.1"), page(command, commands).encode(), mode=0o644)
        click.echo(f"{len(written)} pages in {folder}")
        return
    path = words if words[:1] and words[0].startswith(("treadle", "heimdall-")) else ("treadle", *words)
    for command in commands:
        if command.path == path:
            click.echo(page(command, commands), nl=False)
            return
    raise NotFound(f"there is no command {' '.join(path)!r}", hint="`treadle --help` lists them")


def page(command: CommandWords, commands: list[CommandWords]) -> str:
    """A page in the language of man(7)."""
    name = "-".join(command.path)
    parts = [f'.TH {_quoted(name.upper())} 1 "" {_quoted(f"treadle {__version__}")}\n.SH NAME\n']
    parts.append(f"{_text(name)} \\- {_text(command.summary)}\n.SH SYNOPSIS\n.B {_text(command.name)}\n")
    parts.append("[\\fIOPTIONS\\fR]" + (" \\fICOMMAND\\fR ..." if command.commands else "") + "\n")
    if command.text:
        parts.append(f".SH DESCRIPTION\n.nf\n{_text(command.text)}\n.fi\n")
    described = [option for option in command.options if option.help]
    if described:
        parts.append(".SH OPTIONS\n")
        for option in described:
            value = f" \\fI{_text(option.value)}\\fR" if option.value else ""
            names = ", ".join(f"\\fB{_text(one)}\\fR" for one in option.names)
            parts.append(f".TP\n{names}{value}\n{_text(option.help)}\n")
    below = [one for one in commands if one.path[:-1] == command.path]
    if below:
        parts.append(".SH COMMANDS\n")
        parts += [f".TP\n.B {_text(one.path[-1])}\n{_text(one.summary)}\n" for one in below]
    above = "-".join(command.path[:-1])
    also = [f".BR {_text(above)} (1)"] if above else []
    parts.append("\n".join([".SH SEE ALSO", *also, ".PP", "The pages that `treadle docs` lists.", ""]))
    return "".join(parts)


def _quoted(text: str) -> str:
    return '"' + _text(text).replace('"', "\\(dq") + '"'


def _text(text: str) -> str:
    """Text escaped for a manual page: nothing in it is read as a request, and dashes stay plain dashes."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join(f"\\&{line}" if line[:1] in (".", "'") else line for line in escaped.split("\n"))
