"""The models of our own agent, for people who choose one."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress

from treadle.agent.messages import Provider
from treadle.agent.providers.names import VENDORS, model_settings
from treadle.agent.stored_sessions import list_sessions
from treadle.errors import TreadleError
from treadle.session import ModelMenu, OfferedModel
from treadle.settings.config import Settings

MOST = 50
"""How many models are named."""
SECONDS = 5.0


def own_models(settings: Settings, env: Mapping[str, str]) -> tuple[str, ...]:
    """Those of the settings, and of the services whose keys are set."""
    models = model_settings(settings.models)
    chosen = [env.get("TREADLE_MODEL") or settings.model or ""]
    keys = [f"{name}:{vendor.default}" for name, vendor in VENDORS.items() if vendor.key and env.get(vendor.key)]
    return tuple(dict.fromkeys(name for name in (*chosen, *models.aliases, *keys) if name))[:MOST]


def menu_of(current: str, cwd: str, settings: Settings, env: Mapping[str, str]) -> ModelMenu:
    """The same, after those that sessions of this directory have used. Reads the list of sessions."""
    used = [entry.model for entry in list_sessions(cwd)]
    names = dict.fromkeys([current, *used, *own_models(settings, env)])
    return ModelMenu(current=current, offered=tuple(OfferedModel(id=name, name=name) for name in names if name)[:MOST])


async def all_names(menu: ModelMenu, provider: Provider) -> list[str]:
    """Those of a menu, and those that the model's service lists if it answers soon."""
    known, models = [each.id for each in menu.offered], getattr(provider, "models", None)
    with suppress(TreadleError, TimeoutError):
        async with asyncio.timeout(SECONDS):
            known += [f"{provider.name}:{model}" for model in await models()] if models else []
    return [*dict.fromkeys(known)]
