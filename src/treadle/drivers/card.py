"""How a driver describes itself, one card per agent; where agents keep their sessions; how their programs are started.

`treadle agents`, `doctor`, the docs and the driver read a card. A folder of `drivers` registers by having `CARDS`
in its `__init__.py`. A card is plain data; the driver that it names is imported when someone uses it.
"""

import glob
import importlib
import os
import pkgutil
import re
import shutil
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, TypeAlias

import msgspec

from treadle.errors import ConfigError, NotFound
from treadle.events import Loss as Loss
from treadle.io.process.programs import command_words
from treadle.policy.environment import reduced
from treadle.session import Mode
from treadle.sessions.abilities import ABILITIES
from treadle.settings.config import AgentSettings
from treadle.wire.common.losses import dropped as dropped
from treadle.wire.common.losses import emulated as emulated

Level: TypeAlias = Literal["native", "emulated", "unsupported"]
"""The agent does it itself, we do it for the agent, or it is refused."""


class WireVariables(msgspec.Struct, frozen=True, kw_only=True):
    """How an agent is told where its model is and with which key: what a gateway needs to stand between."""

    keys: tuple[str, ...]
    """Variables of keys."""
    base: str
    """The variable of its base URL."""
    usual: str = ""
    """The base URL without that variable; empty: it has none."""
    unless: tuple[str, ...] = ()
    """Variables that make it use another service, such as a cloud's: a gateway cannot stand between."""
    instead: tuple[str, ...] = ()
    """Variables of other credentials, such as a token: ignored when there is a key."""
    form: Literal["", "codex", "opencode", "pi"] = ""
    """Whose settings say it, where its variables do not."""


class Card(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    """As it is typed: `--agent NAME`, or `--agent NAME:COMMAND` where `prefix` is set."""
    title: str
    driver: str
    """`module:Class`, called with this card and a Launch."""
    how: str
    """How it is driven, in a few words."""
    prefix: bool = False
    takes: str = "COMMAND"
    """What follows the name and a colon, where `prefix` is set."""
    program: str = ""
    """The name of its command, looked up on PATH."""
    arguments: tuple[str, ...] = ()
    version_arguments: tuple[str, ...] = ("--version",)
    install: str = ""
    """The command that installs it."""
    untested: str = ""
    """Why no recording of it could be made. What such a card declares is what the agent says of itself."""
    recorded: tuple[str, ...] = ()
    """The versions that our recordings were made with, oldest first."""
    environment: tuple[str, ...] = ()
    """Variables that it may see besides what every program gets. `PREFIX_*` passes no secret, a full name does."""
    servers_file: str = ""
    """The option that names a file of MCP servers (`{file}`), for agents that do not take all of them over the wire."""
    directory: str = ""
    """The option that names a further directory to work in (`{path}`), for agents that are not told of it otherwise."""
    sets: dict[str, str] = {}
    """Variables that are set for it, unless the person sets them."""
    writes: tuple[str, ...] = ()
    """Directories of its own that it must be able to write in a sandbox: `~/.x`, `$VARIABLE`, or `$VARIABLE|~/.x`."""
    adapters: tuple[str, ...] = ()
    """Programs of other names that start it, such as one that has it speak another protocol."""
    settings: tuple[str, ...] = ()
    """Files of its own in which a person may name the variable of a key, and a base URL, in the form of `writes`."""
    hosts: tuple[str, ...] = ()
    """The hosts of its service, which it reaches also where the network is limited."""
    wire: WireVariables | None = None
    """None: its model cannot be reached through our gateway, so that its key is inside with it."""
    transcripts: tuple[str, ...] = ()
    """Where it keeps the session `{id}` of the directory `{cwd}`; the first pattern whose variable is set counts.
    With these files the session continues on another machine. `{cwd}` has - for all but letters and digits.
    """
    capabilities: dict[str, Level] = {}
    """The level of every ability. What is unsupported is refused (`sessions/abilities.py`)."""
    losses: dict[str, Loss] = {}
    """By event (`ToolOutput`) or field (`Usage.cost_usd`)."""
    notes: tuple[str, ...] = ()
    """What a person who drives it should know, one sentence each."""

    def found(self, program: str, path: str | None = None) -> None:
        """NotFound, with how to install it, when there is no such program on PATH."""
        if shutil.which(program, path=path) is None:
            raise NotFound(f"{self.title} is not installed: there is no {program} on PATH", hint=self.install)


def levels(*, native: str, emulated: str = "") -> dict[str, Level]:
    """The level of every ability; those that are not named are unsupported."""
    found: dict[str, Level] = dict.fromkeys(ABILITIES, "unsupported")
    declared: tuple[tuple[Level, str], ...] = (("native", native), ("emulated", emulated))
    for level, names in declared:
        for name in names.split():
            if name not in ABILITIES:
                raise ValueError(f"there is no ability {name!r}")
            found[name] = level
    return found


@cache
def cards() -> dict[str, Card]:
    """Every agent that can be driven, by name; found by listing the folders."""
    import treadle.drivers

    found: dict[str, Card] = {}
    for entry in pkgutil.iter_modules(treadle.drivers.__path__, "treadle.drivers."):
        if entry.ispkg:
            module = importlib.import_module(entry.name)
            found.update({card.name: card for card in getattr(module, "CARDS", ())})
    return dict(sorted(found.items()))


def version_of(text: str) -> str:
    """The version number in a program's version output; empty when there is none."""
    found = re.search(r"\d+\.\d+(?:\.\d+)*(?:-[\w.]+)?", text)
    return found.group() if found else ""


def newer(version: str, recorded: tuple[str, ...]) -> bool:
    """Whether this version is newer than every recording, so that its messages are untested."""
    return bool(version and recorded) and all(_numbers(version) > _numbers(known) for known in recorded)


def older(version: str, recorded: tuple[str, ...]) -> bool:
    """Whether this version is older than every recording, so that it may lack abilities that its card declares."""
    return bool(version and recorded) and all(_numbers(version) < _numbers(known) for known in recorded)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("-")[0]))


# Where agents keep their sessions, as their cards say (`Card.transcripts`).


def place_of(card: Card, environ: Mapping[str, str]) -> str:
    """The pattern of its files that counts with these variables; empty when its card names none."""
    for place in card.transcripts:
        first, _, rest = place.partition("/")
        if first == "~":
            return os.path.join(environ.get("HOME", "/"), rest)
        if environ.get(first[1:]):
            return os.path.join(environ[first[1:]], rest)
    return ""


def filled(pattern: str, session: str, cwd: str) -> str:
    """The files of this session of this directory, as a pattern for `glob`."""
    return pattern.replace("{id}", glob.escape(session)).replace("{cwd}", slug(cwd))


def slug(cwd: str) -> str:
    return re.sub(r"[^A-Za-z0-9]", "-", os.path.realpath(cwd))


# How an outside agent is started: its command, which variables it may see, and what the settings say about it.


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
