"""`treadle models`: which models can be used right now."""

import asyncio
import os
import sys
from importlib.util import find_spec

import click
import msgspec

from treadle.agent.providers.local.catalog import DEFAULT, KNOWN, KnownModel, ModelRecord, fetched
from treadle.agent.providers.names import HOW, VENDORS, ModelSettings, resolve
from treadle.cli.as_json import json_option, show_json
from treadle.cli.render import printable
from treadle.errors import ConfigError, TreadleError

SECONDS = 10.0


class ListedModels(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    models: list[str] = []
    error: str | None = None


class Models(click.Group):
    """`treadle models` lists, and so does any word after it that is not a command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or args[0] not in (*self.commands, "-h", "--help"):
            args = ["list", *args]
        return super().parse_args(ctx, args)


@click.group("models", cls=Models)
def models() -> None:
    """List the models of every service that is set up, or fetch one that runs on this machine.

    \b
    treadle models                  what can be used right now
    treadle models anthropic        of one service alone
    treadle models pull             fetch a small coding model that needs no key
    """


@models.command("list")
@click.argument("vendor", required=False, type=click.Choice([*VENDORS, "local"]))
@json_option
def list_models(vendor: str | None, as_json: bool) -> None:
    """List the models of every service that is set up, or of one.

    The names are what --model and TREADLE_MODEL take. Exits with 1 when there is none.
    """
    sys.exit(asyncio.run(_list([vendor] if vendor else [*VENDORS, "local"], as_json, asked=vendor is not None)))


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


async def ask(name: str, settings: ModelSettings | None = None) -> ListedModels | None:
    """The models that this service offers; None when the service is not set up."""
    if name == "local":
        here = [record.name for record in fetched()]
        return ListedModels(name=name, models=here) if here else None
    try:
        provider = resolve(f"{name}:any", os.environ, settings)
    except ConfigError:
        return None
    try:
        async with asyncio.timeout(SECONDS):
            return ListedModels(name=name, models=await provider.models())
    except TimeoutError:
        return ListedModels(name=name, error=f"no answer within {SECONDS:g} s")
    except TreadleError as error:
        return ListedModels(name=name, error=str(error))
    finally:
        await provider.aclose()


@models.command("pull")
@click.argument("model", default=DEFAULT, metavar="[NAME|URL]")
@click.option("--sha256", default="", metavar="HEX", help="What the file at a URL must hash to.")
@click.option("--name", default="", metavar="NAME", help="What to call a model from a URL; else as the file is called.")
@json_option
def pull(model: str, sha256: str, name: str, as_json: bool) -> None:
    """Fetch a model that runs on this machine, and check its hash.

    Without a name, the default: a small coding model that needs no key. Interrupted, the same command goes on where it
    stopped. Then use it: treadle --model local:NAME, or --model local for the default.
    """
    record = asyncio.run(_pull(model, sha256, name))
    if as_json:
        show_json(record)
    else:
        click.echo(f"{record.name} is here; use it with --model local:{record.name}")


async def _pull(model: str, sha256: str, name: str) -> ModelRecord:
    from treadle.agent.providers.local import fetch

    progress = DownloadBar()
    try:
        if "://" in model:
            click.echo(f"{model}: it needs at least as much memory as its file is large", err=True)
            return await fetch.pull_address(model, sha256, progress.show, name)
        known = KNOWN.get(model)
        if known is None:
            raise ConfigError(f"there is no model {model!r} to fetch", hint=f"a URL, or {', '.join(KNOWN)}")
        for record in fetched():
            if record.name == known.name and record.sha256 == known.sha256:
                return record
        click.echo(_before(known), err=True)
        return await fetch.pull_known(known, progress.show)
    finally:
        progress.close()


def _before(known: KnownModel) -> str:
    """What a person wants to know before fetching a gigabyte."""
    extra = "" if find_spec("xllamacpp") else "; to run it: pip install 'treadle[local]'"
    return (
        f"{known.title}: {known.size / 1e9:.1f} GB to fetch, {known.memory / 1e9:.1f} GB of memory while it runs;"
        f" {known.speed}{extra}"
    )


class DownloadBar:
    """Shows how far a download is on a terminal; silent in a pipe."""

    def __init__(self) -> None:
        self._shown = sys.stderr.isatty()
        self._last = ""

    def show(self, size: int, total: int | None) -> None:
        text = (
            f"{size / 1e6:,.0f} of {total / 1e6:,.0f} MB ({100 * size // total} %)"
            if total
            else f"{size / 1e6:,.0f} MB"
        )
        if self._shown and text != self._last:
            self._last = text
            sys.stderr.write(f"\r{text}\033[K")
            sys.stderr.flush()

    def close(self) -> None:
        if self._last:
            sys.stderr.write("\n")
