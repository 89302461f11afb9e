"""`treadle doctor`: what works on this machine, tried, and what to do about what does not."""

import sys
from collections.abc import Iterator

import click

from treadle.cli.as_json import json_option, show_json
from treadle.cli.checks import AREAS, SLOW, Finding
from treadle.cli.render import printable


@click.command("doctor")
@click.option("--offline", is_flag=True, help="Contact no service and start no agent.")
@json_option
def doctor(offline: bool, as_json: bool) -> None:
    """Say what works on this machine: state, settings, models, agents, optional parts, sandbox, fleet.

    What it reports it has tried: settings are read as every run reads them, services that are set up are asked for
    their models, agents that are installed are started and greeted. Nothing is sent to a model. Exits with 1 when
    something needed is broken; the last lines say what to do next.
    """
    found: list[Finding] = []
    for check in _all(offline):
        found.append(check)
        if not as_json:
            mark = "ok " if check.ok else "NO " if check.needed else "-  "
            click.echo(printable(f"{mark} {check.area:10} {check.name:22} {check.says}"))
    if as_json:
        show_json(found)
    else:
        _next(found)
    sys.exit(any(check.needed and not check.ok for check in found))


def _all(offline: bool) -> Iterator[Finding]:
    """Yield each check as soon as it is done, and say meanwhile what is being tried; in a pipe, only what may take
    long."""
    for name, area in AREAS.items():
        if sys.stderr.isatty():
            click.echo(f"trying {name}...", err=True, nl=False)
        elif name in SLOW and not offline:
            click.echo(f"trying {name}: {SLOW[name]}", err=True)
        try:
            checks = list(area(offline))
        finally:
            if sys.stderr.isatty():
                click.echo("\r\x1b[K", err=True, nl=False)
        yield from checks


def _next(found: list[Finding]) -> None:
    """One line for each thing to do, required things first."""
    todo = [check for check in found if not check.ok and check.fix]
    if not todo:
        click.echo("\nNothing to do. `treadle` opens a chat, `treadle -p PROMPT` runs one prompt.")
        return
    click.echo("\nNext:")
    for check in sorted(todo, key=lambda check: not check.needed):
        click.echo(printable(f"  {check.fix}"))
