"""What every driven agent has in common: preparing a session, and finding out about the program."""

import asyncio
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from treadle.drivers.card import Card, Launch, version_of
from treadle.drivers.confined import Withheld, decided, enclosure, is_ours, settings_of, settled_servers, started
from treadle.drivers.model_wire import WirePlan, for_replay, planned, wired
from treadle.drivers.session import DrivenSession
from treadle.errors import AuthFailed, ConfigError, PeerStalled, TreadleError
from treadle.io.link import WireConnection
from treadle.io.peer import Patience, Peer
from treadle.io.process.programs import run_program
from treadle.io.tasks import heeding, stretched
from treadle.policy.network import host_of
from treadle.sandboxed.confining import settled
from treadle.session import AgentInfo, Limits, Rules, SessionSpec
from treadle.sessions.session import BaseSession
from treadle.settings import config

PATIENCE = Patience(cancel=2.0, shutdown=2.0, grace=1.0)
VERSION_SECONDS = 30.0


class DrivenAgent(ABC):
    def __init__(
        self,
        card: Card,
        launch: Launch,
        *,
        environ: Mapping[str, str] | None = None,
        patience: Patience = PATIENCE,
    ) -> None:
        self.card = card
        self.launch = launch
        self.patience = patience
        self.environ = os.environ if environ is None else environ

    @property
    def name(self) -> str:
        return self.card.name

    @abstractmethod
    async def _open(self, spec: SessionSpec, env: dict[str, str]) -> BaseSession:
        """Start the program for this session, and do the handshake."""

    async def open(self, spec: SessionSpec) -> BaseSession:
        env = self.env(spec.env)
        withheld = Withheld(self.card, self.launch.argv, {**self.environ, **spec.env}, env)
        try:
            session = await self._open(spec, env)
        except TreadleError as error:
            withheld.advise(error, signing_in=isinstance(error, AuthFailed))
            if isinstance(error, PeerStalled):
                longer = "timeouts.agent_start in the settings gives it longer"
                error.hint = longer if error.hint is None else f"{longer}; {error.hint}"
            raise
        if isinstance(session, DrivenSession):
            session.lacks(withheld)
        return session

    async def start(
        self, argv: Sequence[str], wire: WireConnection[Any, Any], spec: SessionSpec, env: dict[str, str]
    ) -> Peer[Any, Any]:
        """Start the program, in a sandbox where its mode or a person wants one."""
        if self.card.install:
            self.card.found(argv[0], env.get("PATH"))
        writes = (*self.card.writes, *self.launch.writes)
        settings = settings_of(spec, self.environ)
        env = for_replay(self.card, env) if spec.replay is not None else env
        plan = planned(self.card, spec, settings, env)
        behind = isinstance(plan, WirePlan)
        made = enclosure(spec, self.name, argv, env, writes, self.launch.hosts, wired=behind)
        begun = await wired(self.name, plan, spec, settings, env, argv, made)
        patience = self._patience(spec)
        start = partial(Peer.start, begun.argv, wire, name=self.name, env=begun.env, cwd=spec.cwd, patience=patience)
        try:
            peer = await started(made, start, begun.ports)
        except BaseException:
            begun.close()
            raise
        peer.child.beside.append(begun.close)
        peer.wired = begun
        return peer

    def wire_in_words(self, cwd: str) -> str:
        """How its model would be reached from here, and where its key would be."""
        spec = SessionSpec(cwd=cwd)
        try:
            plan = planned(self.card, spec, settings_of(spec, self.environ), self.env({}))
        except ConfigError as error:
            return error.message
        if isinstance(plan, WirePlan):
            return f"through the gateway to {host_of(plan.base_url)}, key outside where it is confined"
        return f"key inside: {plan.why}"

    def _patience(self, spec: SessionSpec) -> Patience:
        """With the limit that the settings give for opening a session, longer on a busy machine."""
        seconds = settings_of(spec, self.environ).timeouts.agent_start
        return msgspec.structs.replace(self.patience, handshake=stretched(seconds))

    def env(self, added: Mapping[str, str]) -> dict[str, str]:
        return self.launch.env(self.environ, added)

    async def probe(self) -> AgentInfo:
        """What is known without opening a session: that it runs, and its version."""
        return AgentInfo(
            name=self.name,
            version=await self.version(),
            capabilities=dict(self.card.capabilities),
            losses=self.card.losses,
        )

    async def version(self) -> str:
        """The version that the program reports; NotFound when there is no such program."""
        argv = [self.launch.program(), *self.card.version_arguments]
        halt = threading.Event()  # who gives up waiting for it has ended it too
        try:
            with heeding(halt):
                done = await asyncio.to_thread(run_program, argv, env=self.env({}), timeout=VERSION_SECONDS)
        finally:
            halt.set()
        return version_of((done.stdout + b" " + done.stderr).decode("utf-8", "replace"))


def prepared(spec: SessionSpec, launch: Launch, environ: Mapping[str, str]) -> SessionSpec:
    """What a session asks for together with what the settings say, before it is checked and anything is started."""
    mode = spec.mode or launch.mode
    spec = msgspec.structs.replace(spec, model=launch.model_name(spec.model), mode=mode)
    return settled_servers(decided(_with_settings(spec, environ), environ), environ)


def unheeded(name: str, spec: SessionSpec, launch: Launch, environ: Mapping[str, str]) -> list[str]:
    """What the settings say and only our own agent does, for warnings."""
    if not spec.instructions.project or is_ours(launch.argv):
        return []
    hooks = settings_of(spec, environ).hooks != config.HookSettings()
    return [f"{name} does not run the hooks of the settings: only our own agent does"] if hooks else []


def _with_settings(spec: SessionSpec, environ: Mapping[str, str]) -> SessionSpec:
    """Apply the rules, limits and directories of the settings files, as for our own agent."""
    loaded = settings_of(spec, environ)
    files, asked = loaded.permissions, spec.rules
    defaults = Limits()
    limits: dict[str, Any] = {
        name: _first(getattr(spec.limits, name), getattr(loaded.limits, name), getattr(defaults, name))
        for name in Limits.__struct_fields__
    }
    same_for_all = {
        "iterations": spec.limits.max_iterations is None,
        "repeats": spec.limits.repeats == defaults.repeats,
        "add_dirs": not spec.add_dirs,
        "rules": spec.mode != "plan" and not (asked.deny or asked.ask),
        "sandbox": settled(spec.confinement, loaded).use != "on",
    }
    return msgspec.structs.replace(
        spec,
        routine=(*spec.routine, *(ability for ability, only_there in same_for_all.items() if only_there)),
        rules=Rules(allow=files.allow + asked.allow, ask=files.ask + asked.ask, deny=files.deny + asked.deny),
        limits=Limits(**limits),
        add_dirs=tuple(os.path.join(spec.cwd, place) for place in (*loaded.add_dirs, *spec.add_dirs)),
    )


def _first(asked: object, file: object, default: object) -> object:
    return asked if asked != default else file
