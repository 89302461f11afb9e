"""`treadle blame FILE:LINE`: which order a line came from, why, and for how much."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from treadle.cli.as_json import json_option, show_json
from treadle.cli.fleet.common import money
from treadle.cli.render import one_line, printable
from treadle.io.process.loop import run_async

if TYPE_CHECKING:
    from treadle.landing.blame import LineOrigin


@click.command("blame")
@click.argument("place", metavar="FILE:LINE")
@click.option("--at", "revision", default="", metavar="COMMIT", help="As of this commit or branch, not as it is now.")
@json_option
def blame(place: str, revision: str, as_json: bool) -> None:
    """Say which order a line came from, why, and for how much: FILE:LINE.

    The commit that landed it says which order it was, wherever the repository is cloned to; what was asked for and the
    cost are known where the fleet still has the order. A line that no order brought is shown with its commit.
    """
    from treadle.landing.blame import origin, place_of

    path, line = place_of(place)
    found, asked = origin(path, line, revision), ""
    if found.order:
        found, asked = run_async(_with_fleet(found))
    if as_json:
        return show_json(found)
    click.echo(f"{found.file}:{found.line}  {printable(found.text)}")
    day = time.strftime("%Y-%m-%d %H:%M", time.localtime(found.at))
    if not found.order:
        return click.echo(f"no order: commit {found.commit[:12]} of {day} by {found.author}: {one_line(found.subject)}")
    for name, value in _facts(found, day).items():
        if value:
            click.echo(f"{name:9} {value}")
    if asked:
        click.echo(f"          {asked}")


def _facts(found: LineOrigin, day: str) -> dict[str, str]:
    landed = f"{found.commit[:12]} of {day}"
    if found.proved is False:
        landed += ", which the fleet did not record: someone else made this commit"
    cost = "not known here" if found.used is None else "nothing was measured" if not found.used.tokens else ""
    return {
        "order": found.order + (f", for {found.first}, which had been sent back" if found.first else ""),
        "goal": one_line(found.goal),
        "why": one_line(found.task or found.title)[:400],
        "agent": one_line(found.agent),
        "cost": cost or money(found.used),
        "landed": landed,
        "checked": f"{one_line(found.verify) or 'yes'}, tree {found.tree[:12]}" if found.tree else "",
        "receipt": f"sha256 {found.receipt}" if found.receipt else "",
    }


async def _with_fleet(found: LineOrigin) -> tuple[LineOrigin, str]:
    """With what the fleet knows, and why it could not be asked, if so."""
    from treadle.errors import TreadleError
    from treadle.fleet.client import connected
    from treadle.landing.blame import with_fleet_records

    try:
        async with connected() as bus:
            return await with_fleet_records(bus, found), ""
    except TreadleError as error:
        return found, f"the fleet was not asked: {error}"
