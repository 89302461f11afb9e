"""`treadle fleet backup`, `restore`, `clean`: what is kept, where, and for how long."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import click

from treadle.cli.as_json import json_option, show_json
from treadle.cli.fleet.common import with_bus
from treadle.errors import ConfigError
from treadle.io.process.loop import run_async

if TYPE_CHECKING:
    from treadle.fleet.engine.bus import Bus


@click.command("backup")
@click.argument("directory", metavar="DIR")
@json_option
def backup(directory: str, as_json: bool) -> None:
    """Save all streams of the fleet in a new directory, while it works. The directory holds credentials: keep it safe.

    They are the server's own snapshots, taken through its API.
    """
    from treadle.fleet.engine import backups

    size = with_bus(lambda bus: backups.backup(bus, directory, say=_say))
    show_json({"bytes": size}) if as_json else click.echo(f"{size / 1e6:.1f} MB in {directory}")


@click.command("restore")
@click.argument("directory", metavar="DIR")
@json_option
def restore(directory: str, as_json: bool) -> None:
    """Bring a backup into this machine's fleet, which must have no orders; then `treadle fleet up`.

    Without a fleet here, one is made with the credentials of the backup, so that machines that had joined come back.
    """
    from treadle.fleet.engine import backups

    run_async(backups.restore(directory, say=_say))
    if as_json:
        return show_json({"restored": directory})
    click.echo("restored; `treadle fleet up` goes on from there")


def _say(text: str) -> None:
    if sys.stderr.isatty():
        click.echo(text, err=True)


@click.command("clean")
@click.option("--older-than", metavar="TIME", help="Remove orders that ended longer ago, such as 30d.")
@click.option(
    "--archive", metavar="FILE", help="First append everything stored about them to this file, one line each."
)
@click.option("--keep", metavar="TIME", help="From now on, remove by itself after this time: 90d, or `forever`.")
@click.option("--keep-size", metavar="GB", type=float, help="Remove the oldest earlier while the state is larger.")
@click.option("--dry-run", is_flag=True, help="Say what would be removed.")
@json_option
def clean(
    older_than: str | None,
    archive: str | None,
    keep: str | None,
    keep_size: float | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Remove what is stored of orders that ended long ago, or say for how long it is kept. Their --key stays used.

    Without an option, it shows the setting. Events and results of runs are always removed after 30 days or at 8 GB.
    """
    from treadle.cli.terminal import duration
    from treadle.fleet import client

    if archive and not older_than:
        raise ConfigError("--archive needs --older-than", hint="treadle fleet clean --older-than 30d --archive FILE")
    seconds = None if keep is None else 0.0 if keep == "forever" else duration(keep)
    age = duration(older_than) if older_than else None

    async def work(bus: Bus) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if seconds is not None or keep_size is not None:
            size = None if keep_size is None else int(keep_size * 1024**3)
            await client.keep(bus, seconds=seconds, size=size)
        if age is not None:
            names = await _old(bus, age, None if dry_run else archive)
            found["orders"] = names
            if not dry_run:
                await client.clean(bus, names)
        if not found:
            held = await client.control(bus)
            found["keep_seconds"] = held.keep_seconds if seconds is None else seconds
            found["keep_bytes"] = held.keep_bytes if keep_size is None else int(keep_size * 1024**3)
        return found

    found = with_bus(work)
    if as_json:
        show_json(found)
    elif "orders" in found:
        click.echo(
            f"{len(found['orders'])} orders {'would be' if dry_run else 'are'} removed; what others wait for stays"
        )
    else:
        days, size = found["keep_seconds"] / 86400, found["keep_bytes"] / 1024**3
        text = f"for {days:g} days after they ended" if days else "for ever"
        click.echo(f"orders are kept {text}" + (f", or until they take {size:g} GB" if size else ""))


async def _old(bus: Bus, age: float, archive: str | None) -> list[str]:
    import msgspec

    from treadle.fleet.schedule.cleaning import ended_before, records
    from treadle.io.files import append_lines

    names = []
    async for order, _ in ended_before(bus, time.time() - age):
        names.append(order.id)
        if archive:
            append_lines(archive, [msgspec.json.encode(await records(bus, order.id))], sync=True)
    return names


COMMANDS = (backup, restore, clean)
