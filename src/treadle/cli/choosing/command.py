"""`treadle models use`: choose a model or an agent, and keep the choice."""

import os
import sys

import click
import msgspec

from treadle.agent.providers.names import PREFIXES, is_model, model_settings, resolve
from treadle.agents import find_card, names
from treadle.cli.as_json import json_option, show_json
from treadle.cli.choosing.choose import pick
from treadle.cli.choosing.fetch import ways_in
from treadle.cli.choosing.remembering import remember
from treadle.cli.choosing.ways import look
from treadle.cli.render import printable
from treadle.errors import ConfigError, NoModel
from treadle.io.paths import here
from treadle.io.process.loop import run_async
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
    sys.exit(run_async(_use(name, as_json)))


async def _use(name: str | None, as_json: bool) -> int:
    if name is not None:
        ours = _is_model(name)
        confirmed = remember(name, "native" if ours else name, name if ours else None)
        if as_json:
            show_json([Choice(name=name, because="named", chosen=True)])
        else:
            click.echo(printable(confirmed))
        return 0
    found = await look()
    if as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        choices = [Choice(name=way.name, because=way.because) for way in found.ways]
        if as_json:
            show_json(choices)
        else:
            for each in choices:
                click.echo(printable(f"{each.name}\t{each.because}"))
            if not choices:
                click.echo(printable(ways_in(found.not_yet)), err=True)
        return 0 if choices else NoModel.ends_with
    if not found.ways:
        click.echo(printable(ways_in(found.not_yet)))
        return NoModel.ends_with
    await pick(found, plain=False)
    return 0


def _is_model(name: str) -> bool:
    """Whether this names a model, and not an agent. Raises ConfigError when it is neither, or cannot be used."""
    loaded = config.load(here()).settings
    models = model_settings(loaded.models)
    if name.partition(":")[0] not in PREFIXES:
        if name == "native":
            raise ConfigError("our own agent needs a model", hint="name one, such as anthropic, or leave the name out")
        if name in names(loaded.agents) or name in loaded.agents or ":" in name:
            find_card(name, loaded.agents)
            return False
        if not is_model(name, models):
            known = ", ".join(names(loaded.agents))
            hint = f"the agents are {known}; a model is WHO:MODEL, where WHO is one of {', '.join(PREFIXES)}"
            raise ConfigError(f"there is no agent and no known model {name!r}", hint=hint)
    resolve(name, os.environ, models)
    return True
