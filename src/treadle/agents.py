"""Name -> Agent. Knows them all, imports each when it is asked for."""

from __future__ import annotations

import importlib

from treadle.errors import ConfigError
from treadle.session import Agent

AGENTS = {"native": "treadle.agent.native:NativeAgent"}
"""Agents by name."""

COMMANDS = {"sidecar": "treadle.drivers.sidecar:SidecarAgent", "worker": "treadle.drivers.worker:WorkerAgent"}
"""Agents that are any program speaking a wire: `PREFIX:COMMAND ARGS`."""


def find_agent(name: str = "native") -> Agent:
    """`native`, or another name of AGENTS, or `PREFIX:COMMAND` for a program that speaks one of our wires."""
    prefix, colon, command = name.partition(":")
    if colon and prefix in COMMANDS:
        if not command.strip():
            raise ConfigError(f"--agent {name} names no command", hint=f"such as --agent '{prefix}:my-agent --flag'")
        made = _load(COMMANDS[prefix])(command)
    elif name in AGENTS:
        made = _load(AGENTS[name])()
    else:
        known = ", ".join([*AGENTS, *(f"{prefix}:COMMAND" for prefix in COMMANDS)])
        raise ConfigError(f"there is no agent {name!r}", hint=f"the agents are {known}")
    assert isinstance(made, Agent)
    return made


def _load(place: str) -> type:
    module, attribute = place.split(":")
    found: type = getattr(importlib.import_module(module), attribute)
    return found
