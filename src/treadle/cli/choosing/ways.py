"""What this machine could work with right now: keys, a server, fetched models, agents that are installed."""

import asyncio
import os
import tempfile
from collections.abc import Mapping
from typing import Literal

import msgspec

from treadle.agent.providers.endpoint import loopback
from treadle.agent.providers.local.catalog import DEFAULT, KNOWN, fetched
from treadle.agent.providers.names import VENDORS, ModelSettings, endpoint, model_settings
from treadle.cli.choosing.offered import ask
from treadle.errors import TreadleError
from treadle.installation import has
from treadle.io.paths import here
from treadle.settings import config

GREETING = 20.0
"""Seconds that an installed agent has to say whether it is signed in."""
SERVER = 3.0
SHOWN = 20
"""At most so many models of one server are offered; `treadle models` lists all."""


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that can be used now. `name` is what `treadle models use` takes."""

    kind: Literal["key", "server", "local", "agent"]
    name: str
    because: str

    @property
    def agent(self) -> str:
        return self.name if self.kind == "agent" else "native"

    @property
    def model(self) -> str | None:
        return None if self.kind == "agent" else self.name


class Found(msgspec.Struct, frozen=True, kw_only=True):
    ways: tuple[Way, ...] = ()
    not_yet: tuple[str, ...] = ()
    """What is nearly usable, and what is missing, one sentence each."""


async def look(env: Mapping[str, str] | None = None) -> Found:
    """Look at everything at once. Nothing is sent to a model, and no service outside this machine is contacted."""
    env = os.environ if env is None else env
    settings = model_settings(config.load(here(), env).settings.models)
    servers, agents = await asyncio.gather(_servers(env, settings), _agents())
    ways = (*_keys(env, settings), *servers.ways, *_local().ways, *agents.ways)
    return Found(ways=ways, not_yet=(*servers.not_yet, *_local().not_yet, *agents.not_yet))


def _keys(env: Mapping[str, str], settings: ModelSettings) -> list[Way]:
    if env.get("TREADLE_BASE_URL") or settings.base_url:
        return []  # then every model is asked for there
    found = []
    for name, vendor in VENDORS.items():
        variables = [variable for variable in (vendor.key, vendor.base) if variable and env.get(variable)]
        if variables and vendor.default:
            found.append(
                Way(
                    kind="key",
                    name=f"{name}:{vendor.default}",
                    because=f"{' and '.join(variables)} {'is' if len(variables) == 1 else 'are'} set",
                )
            )
    return found


async def _servers(env: Mapping[str, str], settings: ModelSettings) -> Found:
    """The models of a server of the person's own: the one at TREADLE_BASE_URL, else an Ollama on this machine."""
    name = "chat" if env.get("TREADLE_BASE_URL") or settings.base_url else "ollama"
    try:
        where = endpoint(name, env, settings).base_url
        async with asyncio.timeout(SERVER):
            offered = await ask(name, settings)
    except TimeoutError:
        return Found(not_yet=(f"the server at {where} gave no answer within {SERVER:g} s",))
    except TreadleError as error:
        return Found(not_yet=(str(error),))
    if offered is None or offered.error is not None:
        quiet = name == "ollama" and loopback(where) and not env.get("OLLAMA_HOST")  # most machines have none
        return Found(not_yet=() if quiet or offered is None else (f"the server at {where}: {offered.error}",))
    if not offered.models:
        missing = "`ollama pull MODEL` fetches one" if name == "ollama" else "load one there"
        return Found(not_yet=(f"the server at {where} has no model: {missing}",))
    because = f"the server at {where} has it"
    return Found(
        ways=tuple(Way(kind="server", name=f"{name}:{each}", because=because) for each in offered.models[:SHOWN])
    )


def _local() -> Found:
    here_already = [record.name for record in fetched()]
    if here_already and not has("local"):
        from treadle.installation import adding

        missing = f"the model {here_already[0]} is on this machine, but not what runs it: {adding('local')}"
        return Found(not_yet=(missing,))
    because = "on this machine, no key; small: good for short questions, not for long work"
    return Found(
        ways=tuple(
            Way(kind="local", name="local" if name == DEFAULT else f"local:{name}", because=because)
            for name in here_already
        )
    )


async def _agents() -> Found:
    """The agents that are installed, greeted in an empty directory: in the project they might run its hooks."""
    from treadle.cli.agents import greeted

    with tempfile.TemporaryDirectory(prefix="treadle-look-") as empty:
        found = await greeted(empty, GREETING)
    ways, not_yet = [], []
    for each in found:
        if each.answers and each.account != "":
            signed = (
                "installed and signed in" if each.account else "installed; it does not tell whether it is signed in"
            )
            ways.append(Way(kind="agent", name=each.name, because=f"{each.title} {each.version}: {signed}"))
        elif each.account == "":
            not_yet.append(f"{each.name} is installed, but not signed in: run `{each.name}` once and sign in")
        else:
            not_yet.append(f"{each.name} is installed, but does not answer: {each.error}")
    return Found(ways=tuple(ways), not_yet=tuple(not_yet))


def local_words() -> str:
    """What a person should know before fetching the local model."""
    known = KNOWN[DEFAULT]
    size = f"{known.size / 1e9:.1f} GB to fetch, {known.memory / 1e9:.1f} GB of memory"
    return f"{size}; it answers slowly, fixes small things and fails at larger ones"
