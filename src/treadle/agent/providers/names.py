"""From a model's name to a provider for it."""

from __future__ import annotations

from collections.abc import Mapping

from treadle.agent.providers.base import Provider
from treadle.errors import ConfigError


def resolve(name: str | None, env: Mapping[str, str]) -> Provider:
    name = name or env.get("TREADLE_MODEL") or ""
    kind, _, rest = name.partition(":")
    if kind == "scripted" and rest:
        from treadle.agent.providers.script import load
        from treadle.agent.providers.scripted import ScriptedProvider

        return ScriptedProvider(load(rest))
    raise ConfigError(f"unknown model {name!r}")
