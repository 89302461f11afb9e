"""`treadle coord NAME`: the `heimdall-*` commands under the one program."""

import click

from treadle.cli.heimdall import COMMANDS, OF_TREADLE, run


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False, "help_option_names": []}
)
@click.argument("name", required=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def coord(ctx: click.Context, name: str | None, arguments: tuple[str, ...]) -> None:
    """Coordinate agents that share a repository: claims, identities, messages, capsules, the token ledger."""
    if name in COMMANDS or name in OF_TREADLE:
        ctx.exit(run(name, list(arguments)))
    if name not in (None, "-h", "--help", "help"):
        raise click.UsageError(f"there is no {name!r}; there are {', '.join({**OF_TREADLE, **COMMANDS})}")
    click.echo("Usage: treadle coord NAME ...\n")
    for known, what in OF_TREADLE.items():
        click.echo(f"  {known:11} {what}")
    click.echo("\nThe same as heimdall-NAME:\n")
    for known, what in COMMANDS.items():
        click.echo(f"  {known:11} {what}")
    click.echo("\n`treadle coord NAME --help` says more.")
