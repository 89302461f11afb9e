"""`treadle models`: which models can be used right now, and `models use`, which keeps a choice."""

import asyncio
import os
import sys
from datetime import date

import click
import msgspec

from treadle.agent.providers.chat import ChatFormat
from treadle.agent.providers.http import Endpoint, HttpProvider
from treadle.agent.providers.known import Refreshed, keep, listed, refreshed_file
from treadle.agent.providers.names import HOW, PREFIXES, VENDORS, is_model, model_settings, resolve
from treadle.agents import find_card, names
from treadle.cli.as_json import group_or, json_option, show_json
from treadle.cli.choice import ListedModels, ask, look, pick, remember, ways_in
from treadle.cli.render import printable
from treadle.errors import ConfigError, NoModel, ProviderError
from treadle.io.paths import here
from treadle.io.process.loop import run_async
from treadle.settings import config

# `treadle models use`: choose a model or an agent, and keep the choice.


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """What `treadle models use` can choose, and whether it was chosen."""

    name: str
    because: str
    chosen: bool = False


@click.command("use")
@click.argument("name", required=False)
@json_option
def use(name: str | None, as_json: bool) -> None:
    """Set the default for `treadle` and `treadle -p`: a model, a service with its default model, or an agent.

    Without NAME, it looks for API keys, signed-in agents and a local server, and lets you choose. The choice is stored
    in your settings; --model, --agent, TREADLE_MODEL and TREADLE_AGENT override it. With --json, or in a pipe, it only
    lists the choices. Exits with 2 if there are none.
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
            card, _ = find_card(name, loaded.agents)
            if card.install and name not in loaded.agents:
                card.found(card.program)
            return False
        if not is_model(name, models):
            known = ", ".join(names(loaded.agents))
            hint = f"the agents are {known}; a model is WHO:MODEL, where WHO is one of {', '.join(PREFIXES)}"
            raise ConfigError(f"there is no agent and no known model {name!r}", hint=hint)
    resolve(name, os.environ, models)
    return True


SECONDS = 10.0


@click.group("models", cls=group_or("list"))
def models() -> None:
    """List the available models, or choose the default model or agent.

    \b
    treadle models                  list available models
    treadle models anthropic        list the models of one service
    treadle models use              choose the default from what is found on this machine
    treadle models use anthropic    set the default: a service, a model, or an agent such as claude
    treadle models refresh          update prices and context windows
    """


@models.command("list")
@click.argument("vendor", required=False, type=click.Choice([*VENDORS]))
@json_option
def list_models(vendor: str | None, as_json: bool) -> None:
    """List the models of all configured services, or of one.

    Use these names with --model and TREADLE_MODEL. Exits with 1 if there are none.
    """
    sys.exit(run_async(_list([vendor] if vendor else [*VENDORS], as_json, asked=vendor is not None)))


async def _list(names: list[str], as_json: bool, *, asked: bool) -> int:
    found = [vendor for vendor in await asyncio.gather(*map(ask, names)) if vendor is not None]
    if as_json:
        show_json(found)
    else:
        _show(found, asked)
    return 0 if any(vendor.models for vendor in found) else 1


def _show(found: list[ListedModels], asked: bool) -> None:
    for vendor in found:
        if vendor.error is not None and (asked or vendor.name != "ollama"):
            click.echo(printable(f"{vendor.name}: {vendor.error}"), err=True)
        for model in vendor.models:
            click.echo(printable(f"{vendor.name}:{model}"))
    if not any(vendor.models for vendor in found):
        click.echo(f"no service is set up: {HOW}", err=True)


models.add_command(use)


@models.command("refresh")
@json_option
def refresh(as_json: bool) -> None:
    """Fetch current prices and context windows. They override the table that ships with Treadle.

    The source is OpenRouter's public list, which needs no key; OPENROUTER_BASE_URL sets another address. Prices in your
    settings override both.
    """
    refreshed = run_async(_refresh())
    if as_json:
        show_json(refreshed)
    else:
        click.echo(f"{len(refreshed.models)} models as of {refreshed.at}, in {refreshed_file()}")


async def _refresh() -> Refreshed:
    base = os.environ.get("OPENROUTER_BASE_URL") or VENDORS["openrouter"].base_url
    provider = HttpProvider(Endpoint(name="openrouter", base_url=base), "any", ChatFormat())
    try:
        async with asyncio.timeout(SECONDS):
            found = listed(await provider.listing())
    except TimeoutError:
        raise ProviderError(f"{base} did not answer within {SECONDS:g} s", provider="openrouter") from None
    except msgspec.MsgspecError as error:
        raise ProviderError(f"{base} sent an invalid list of models: {error}", provider="openrouter") from None
    finally:
        await provider.aclose()
    refreshed = Refreshed(at=date.today().isoformat(), source=base, models=found)
    keep(refreshed)
    return refreshed
