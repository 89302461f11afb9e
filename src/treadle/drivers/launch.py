"""How an outside agent is started: its command, which variables it may see, and what the settings say about it."""

import shutil
from collections.abc import Mapping
from typing import Any

import msgspec

from treadle.drivers.card import Card
from treadle.errors import ConfigError, NotFound
from treadle.io.process.programs import command_words
from treadle.policy.environment import reduced
from treadle.session import Mode
from treadle.settings.config import AgentSettings


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about a command that does not depend on the session."""

    argv: tuple[str, ...]
    environment: tuple[str, ...] = ()
    """The variables that it may see besides what every program gets."""
    sets: dict[str, str] = {}
    model: str | None = None
    models: dict[str, str] = {}
    """Names that a person uses -> names that the agent knows."""
    mode: Mode | None = None
    options: dict[str, Any] = {}
    """Options for the driver that only this agent understands."""
    writes: tuple[str, ...] = ()
    """Further directories of its own, besides those on its card, that it must be able to write in a sandbox."""
    hosts: tuple[str, ...] = ()
    """Further hosts of its service, besides those on its card."""

    def program(self) -> str:
        """The path of its command."""
        found = shutil.which(self.argv[0])
        if found is None:
            raise NotFound(f"the program {self.argv[0]!r} is not installed", hint="install it, or put it on PATH")
        return found

    def env(self, environ: Mapping[str, str], added: Mapping[str, str]) -> dict[str, str]:
        """An allow-list: variables of an agent around us would make this one believe that it runs inside that agent."""
        given = reduced(environ, self.environment)
        given.pop(
            "TREADLE_AGENT", None
        )  # it was meant for us: an agent of ours that inherits it would start another, without end
        return {**{name: text for name, text in self.sets.items() if name not in given}, **given, **added}

    def model_name(self, asked: str | None) -> str | None:
        chosen = asked or self.model
        return self.models.get(chosen, chosen) if chosen else None


def launch_of(card: Card, settings: AgentSettings | None = None, command: str = "") -> Launch:
    """Made from the card, `[agents.NAME]` in the settings, and the command that was typed after `PREFIX:`."""
    settings = settings or AgentSettings()
    words = command_words(command or settings.command) or ([card.program] if card.program else [])
    if not words:
        raise ConfigError(f"the agent {card.name} has no command", hint=f"set agents.{card.name}.command")
    arguments = () if command else (*card.arguments, *settings.arguments)
    return Launch(
        argv=(*words, *arguments),
        environment=(*card.environment, *settings.env, *_homes(settings.writes)),
        sets={**card.sets, **settings.set},
        model=settings.model,
        models=settings.models,
        mode=settings.mode,
        options=settings.options,
        writes=settings.writes,
        hosts=settings.hosts,
    )


def _homes(writes: tuple[str, ...]) -> list[str]:
    """The variables that say where its own directories are: without them it would use others than the person's."""
    return [place[1:].partition("|")[0].partition("/")[0] for place in writes if place.startswith("$")]
