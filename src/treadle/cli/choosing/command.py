"""`treadle models use`: choose a model or an agent, and keep the choice."""

import asyncio
import os
import sys

import click
import msgspec

from treadle.agent.providers.names import PREFIXES, model_settings, resolve
from treadle.agents import agent_settings, find_card
from treadle.cli.as_json import json_option, show_json
from treadle.cli.choosing.choose import pick
from treadle.cli.choosing.fetch import ways_in
from treadle.cli.choosing.kept import remember
from treadle.cli.choosing.ways import look
from treadle.cli.render import printable
from treadle.errors import NoModel
from treadle.io.paths import here
from treadle.settings import config


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """What `treadle models use` can choose, and whether it was chosen."""

    name: str
    because: str
    chosen: bool = False


@click.command("use")
@click.argument("name", required=False)
@json_option
def use(name: str | None, as_json: bool) -> None:
    """Choose what `treadle` and `treadle -p` use from now on: a model, a service with its default model, or an agent.

    Without NAME this looks for keys, agents that are installed and signed in, a server and local models, and lets you
    choose. The choice is kept in your settings; --model, --agent, TREADLE_MODEL and TREADLE_AGENT override it. With
    --json, or in a pipe, it only lists what was found. Exits with 2 when there is nothing to choose.
    """
    sys.exit(asyncio.run(_use(name, as_json)))


async def _use(name: str | None, as_json: bool) -> int:
    if name is not None:
        ours = name.partition(":")[0] in PREFIXES
        if ours:
            resolve(name, os.environ, model_settings(config.load(here()).settings.models))
        else:
            find_card(name, agent_settings())
        told = remember(name, "native" if ours else name, name if ours else None)
        if as_json:
            show_json([Choice(name=name, because="named", chosen=True)])
        else:
            click.echo(printable(told))
        return 0
    found = await look()
    if as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        choices = [Choice(name=way.name, because=way.because) for way in found.ways]
        if as_json:
            show_json(choices)
        else:
            for each in choices:
                click.echo(printable(f"{each.name}\t{each.because}"))
        return 0 if choices else NoModel.ends_with
    if not found.ways:
        click.echo(printable(ways_in(found.not_yet)))
        return NoModel.ends_with
    await pick(found, plain=False)
    return 0
