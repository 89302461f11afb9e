"""What a node can put to work: the agents that are installed on its machine, and the models of each that are known
without asking any service. For people who choose; whether an order really fits is decided when it is placed.
"""

import os
import shutil
from collections.abc import Mapping

from treadle import agents
from treadle.agent.offering import MOST, own_models
from treadle.drivers.card import cards
from treadle.drivers.launch import launch_of
from treadle.errors import TreadleError
from treadle.settings import config
from treadle.settings.config import AgentSettings


def of_machine(env: Mapping[str, str] | None = None) -> dict[str, tuple[str, ...]]:
    """Agent -> models that it takes here. Settings that cannot be read leave our own agent."""
    env = os.environ if env is None else env
    try:
        settings = config.load(os.path.expanduser("~"), env).settings
        return {"native": own_models(settings, env), **_outside(settings.agents)}
    except TreadleError:
        return {"native": ()}


def _outside(settings: Mapping[str, AgentSettings]) -> dict[str, tuple[str, ...]]:
    found = {}
    for name in (*(card.name for card in cards().values() if not card.prefix), *settings):
        try:
            card, _ = agents.find_card(name, settings)
            launch = launch_of(card, settings.get(name))
        except TreadleError:
            continue
        if shutil.which(launch.argv[0]) is not None:
            found[name] = tuple(dict.fromkeys(each for each in (launch.model, *launch.models) if each))[:MOST]
    return found
