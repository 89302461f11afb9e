"""The models of our own agent, for people who choose one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from treadle.agent.providers.names import VENDORS, model_settings
from treadle.agent.stored_sessions import list_sessions
from treadle.errors import TreadleError
from treadle.session import ModelMenu, OfferedModel
from treadle.settings.config import Settings

if TYPE_CHECKING:
    from treadle.agent.configuration import Configuration
    from treadle.agent.messages import Provider

MOST = 50
"""How many models are named."""
SECONDS = 5.0


def own_models(settings: Settings, env: Mapping[str, str]) -> tuple[str, ...]:
    """Those of the settings, and of the services whose keys are set."""
    models = model_settings(settings.models)
    chosen = [env.get("TREADLE_MODEL") or settings.model or ""]
    keys = [f"{name}:{vendor.default}" for name, vendor in VENDORS.items() if vendor.key and env.get(vendor.key)]
    return tuple(dict.fromkeys(name for name in (*chosen, *models.aliases, *keys) if name))[:MOST]


async def menu_of(current: str, cwd: str, configuration: Configuration, provider: Provider | None) -> ModelMenu:
    """The same, after those that sessions of this directory have used, and before what the provider lists soon."""
    used = [entry.model for entry in await asyncio.to_thread(list_sessions, cwd)]
    names = [current, *used, *own_models(configuration.settings, configuration.env)][:MOST]
    with suppress(TreadleError, TimeoutError):
        if provider and (models := getattr(provider, "models", None)):
            async with asyncio.timeout(SECONDS):
                names += [f"{provider.name}:{model}" for model in await models()]
    return ModelMenu(
        current=current, offered=tuple(OfferedModel(id=name, name=name) for name in dict.fromkeys(names) if name)
    )
