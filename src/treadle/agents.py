"""Name -> Agent. Knows them all, imports each when it is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping

import msgspec

from treadle.errors import ConfigError
from treadle.session import Agent, Guards, SessionSpec

AGENTS = {"native": "treadle.agent.native:NativeAgent"}
"""Agents of our own, by name; each takes `bind`, which hands the guards in."""

COMMANDS = {
    "sidecar": "treadle.drivers.sidecar.driver:SidecarAgent",
    "worker": "treadle.drivers.worker.driver:WorkerAgent",
}
"""Agents that are any program speaking a wire: `PREFIX:COMMAND ARGS`."""


def find_agent(name: str = "native") -> Agent:
    """`native`, or another name of AGENTS, or `PREFIX:COMMAND` for a program that speaks one of our wires."""
    prefix, colon, command = name.partition(":")
    if colon and prefix in COMMANDS:
        if not command.strip():
            raise ConfigError(f"--agent {name} names no command", hint=f"such as --agent '{prefix}:my-agent --flag'")
        made = _load(COMMANDS[prefix])(command)
    elif name in AGENTS:
        made = _load(AGENTS[name])(bind=bound_by_claims)
    else:
        known = ", ".join([*AGENTS, *(f"{prefix}:COMMAND" for prefix in COMMANDS)])
        raise ConfigError(f"there is no agent {name!r}", hint=f"the agents are {known}")
    assert isinstance(made, Agent)
    return made


def bound_by_claims(spec: SessionSpec, environ: Mapping[str, str]) -> SessionSpec:
    """When `HEIMDALL_HAID` says who acts here, what others have claimed in this repository is theirs."""
    haid = environ.get("HEIMDALL_HAID")
    if not haid:
        return spec
    from treadle.coordination.guard import Guarded
    from treadle.coordination.planning import Planning

    guarded = Guarded(Planning(project=spec.cwd), haid)

    def watching() -> Callable[[], None]:
        before = guarded.watch()
        return lambda: guarded.check(before)

    guards = Guards(judge=guarded.judge, writing=guarded.writing, watching=watching)
    return msgspec.structs.replace(spec, guards=guards)


def _load(place: str) -> type:
    module, attribute = place.split(":")
    found: type = getattr(importlib.import_module(module), attribute)
    return found
