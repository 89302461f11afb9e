"""`treadle completion SHELL`."""

import click

from treadle.cli.completion.lists import LISTS, SHELLS, rows
from treadle.errors import TreadleError


@click.command("completion")
@click.argument("shell", required=False, type=click.Choice(SHELLS))
@click.option("--list", "kind", type=click.Choice(list(LISTS)), hidden=True, help="What the scripts ask at run time.")
def completion(shell: str | None, kind: str | None) -> None:
    """Print a completion script for your shell: commands, options, terminals, sessions, agents, orders of a fleet.

    \b
    bash   echo 'source <(treadle completion bash)' >> ~/.bashrc
    zsh    echo 'source <(treadle completion zsh)' >> ~/.zshrc      # after compinit
    fish   treadle completion fish > ~/.config/fish/completions/treadle.fish

    It covers `treadle` and the `heimdall-*` commands. Make it anew after an update.
    """
    if kind is not None:
        try:
            click.echo(rows(kind), nl=False)
        except (TreadleError, OSError):  # offer nothing: a shell must not print an error in the middle of a line
            pass
        return
    if shell is None:
        raise click.UsageError(f"which shell? {', '.join(SHELLS)}")
    from treadle.cli.completion.scripts import script
    from treadle.cli.words import every

    click.echo(script(shell, every()), nl=False)
