"""`treadle models`: which models can be used right now."""

from __future__ import annotations

import asyncio
import os
import sys

import click
import msgspec

from treadle.agent.providers.names import HOW, VENDORS, resolve
from treadle.cli.as_json import json_option, show_json
from treadle.cli.render import printable
from treadle.errors import ConfigError, TreadleError

SECONDS = 10.0


class Vendor(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    models: list[str] = []
    error: str | None = None


@click.command("models")
@click.argument("vendor", required=False, type=click.Choice(list(VENDORS)))
@json_option
def models(vendor: str | None, as_json: bool) -> None:
    """List the models of every service that is set up, or of one.

    The names are what --model and TREADLE_MODEL take. Exits with 1 when there is none.
    """
    sys.exit(asyncio.run(_list([vendor] if vendor else list(VENDORS), as_json, asked=vendor is not None)))


async def _list(names: list[str], as_json: bool, *, asked: bool) -> int:
    found = [vendor for vendor in await asyncio.gather(*map(_ask, names)) if vendor is not None]
    if as_json:
        show_json(found)
    else:
        _show(found, asked)
    return 0 if any(vendor.models for vendor in found) else 1


def _show(found: list[Vendor], asked: bool) -> None:
    for vendor in found:
        if vendor.error is not None and (asked or vendor.name != "ollama"):
            click.echo(printable(f"{vendor.name}: {vendor.error}"), err=True)
        for model in vendor.models:
            click.echo(printable(f"{vendor.name}:{model}"))
    if not any(vendor.models for vendor in found):
        click.echo(f"no service is set up: {HOW}", err=True)


async def _ask(name: str) -> Vendor | None:
    """What this service offers; None when nothing is set up for it."""
    try:
        provider = resolve(f"{name}:any", os.environ)
    except ConfigError:
        return None
    try:
        async with asyncio.timeout(SECONDS):
            return Vendor(name=name, models=await provider.models())
    except TimeoutError:
        return Vendor(name=name, error=f"no answer within {SECONDS:g} s")
    except TreadleError as error:
        return Vendor(name=name, error=str(error))
    finally:
        await provider.aclose()
