"""`treadle fleet land`: the same as `treadle land`, for who looks for it among the fleet's commands."""

import click


@click.command("land", context_settings={"ignore_unknown_options": True}, add_help_option=False)
@click.argument("arguments", metavar="[ORDER]...", nargs=-1, type=click.UNPROCESSED)
def land(arguments: tuple[str, ...]) -> None:
    """Land the work of finished orders on a branch: the same as `treadle land`."""
    from treadle.cli.land import land as command

    command.main(args=list(arguments), prog_name="treadle fleet land", standalone_mode=False)


COMMANDS = (land,)
