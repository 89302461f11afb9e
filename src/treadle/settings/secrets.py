"""The keys that this machine's user has in their settings, so that they are removed from what is sent and kept."""

import os
from collections.abc import Mapping
from typing import Any

from treadle.errors import TreadleError
from treadle.redact import is_secret_name
from treadle.settings.config import load


def known(environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """The values of all settings of the user whose names say that they are secrets.

    A file that cannot be read gives none: then nothing here can use its keys either.
    """
    try:
        settings = load("/", os.environ if environ is None else environ).settings
    except TreadleError:
        return ()
    tables: list[Mapping[str, Any]] = [settings.models, settings.models.get("headers") or {}]
    for server in settings.mcp_servers.values():
        tables += [server.env, server.headers]
    tables += [agent.set for agent in settings.agents.values()]
    return tuple(value for table in tables for value in _secrets(table))


def _secrets(table: Mapping[str, Any]) -> list[str]:
    """Of `Bearer KEY` only the key: the word before it is in many texts."""
    found = {name: value for name, value in table.items() if isinstance(value, str) and value.strip()}
    return [value.split()[-1] for name, value in found.items() if is_secret_name(name) or "AUTH" in name.upper()]
