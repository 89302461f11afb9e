"""Which models a service offers right now."""

import asyncio
import os

import msgspec

from treadle.agent.providers.local.catalog import fetched
from treadle.agent.providers.names import ModelSettings, resolve
from treadle.errors import ConfigError, TreadleError

SECONDS = 10.0


class ListedModels(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    models: list[str] = []
    error: str | None = None


async def ask(name: str, settings: ModelSettings | None = None) -> ListedModels | None:
    """The models that this service offers; None when the service is not set up."""
    if name == "local":
        names = [record.name for record in fetched()]
        return ListedModels(name=name, models=names) if names else None
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
