"""The native agent: opens sessions of its own kind, new ones and saved ones."""

import os
from collections.abc import Callable, Mapping

import msgspec

from treadle import __version__
from treadle.agent.configuration import Configuration
from treadle.agent.records import Record
from treadle.agent.session import CAPABILITIES, NAME, NativeSession
from treadle.agent.tools import BUILTIN
from treadle.agent.transcript import Transcript
from treadle.errors import ConfigError, NotFound
from treadle.session import (
    AgentInfo,
    SessionSpec,
    StoredSession,
)


class NativeAgent:
    name = NAME

    def __init__(
        self,
        env: Mapping[str, str] | None = None,
        bind: Callable[[SessionSpec, Mapping[str, str]], SessionSpec] | None = None,
    ) -> None:
        """`bind` adds guards to every session, such as claims, as the one who makes the agent wants."""
        self._env = os.environ if env is None else env
        self._bind = bind

    async def probe(self) -> AgentInfo:
        return AgentInfo(name=self.name, version=__version__, tools=BUILTIN, capabilities=dict(CAPABILITIES))

    async def stored_sessions(self, cwd: str | None = None) -> list[StoredSession]:
        from treadle.agent.session_list import list_sessions

        return [
            StoredSession(id=entry.id, cwd=entry.cwd, title=entry.name or entry.prompt, updated=entry.updated)
            for entry in list_sessions(cwd)
        ]

    async def open(self, spec: SessionSpec) -> NativeSession:
        if not os.path.isdir(spec.cwd):
            raise ConfigError(f"the working directory {spec.cwd} is not there", hint="make it, or name another")
        spec = msgspec.structs.replace(spec, cwd=os.path.abspath(spec.cwd))
        if self._bind is not None:
            spec = self._bind(spec, {**self._env, **spec.env})
        old = _session_to_resume(spec)
        if old is not None and old.header.denied:
            spec = _still_denied(spec, old.header.denied)
        configuration = _as_agent(await Configuration.load(spec, self._env))
        spec = configuration.spec
        model = spec.model or (old.model if old else None) or configuration.settings.model
        provider = configuration.provider(model)
        again = _from_the_middle(old, spec.start.at) if old is not None and spec.start.at else []
        transcript = _transcript(spec, old, model or provider.model)
        try:
            if again:
                transcript.append(*again, sync=True)
            session = NativeSession(configuration, transcript, provider)
            session.model = model
            await session.begin()
            return session
        except BaseException:
            transcript.close()
            raise


def _as_agent(configuration: Configuration) -> Configuration:
    """With the definition of the agent that the conversation itself shall be, if one is named."""
    spec = configuration.spec
    asked = spec.extra.get("as_agent")
    name = asked or spec.extra.get("main_agent") or configuration.settings.main_agent
    if not name:
        return configuration
    from treadle.agent.project import agents
    from treadle.agent.subagents import as_main, kinds

    broken: list[str] = []
    known = kinds((*agents(spec.cwd, spec.instructions, broken), *spec.subagents))
    if (kind := known.get(name.lower())) is not None:
        return msgspec.structs.replace(configuration, spec=as_main(spec, kind))
    names = ", ".join(kind.name for kind in known.values())
    if asked:
        hint = "; ".join((*broken, f"defined here are {names}", *spec.extra.get("agent_hints", ())))
        raise NotFound(f"there is no agent {name!r}", hint=hint)
    missing = f"there is no agent {name!r}, which the settings name: this is the usual one; defined here are {names}"
    return msgspec.structs.replace(configuration, notes=(*configuration.notes, missing))


def _session_to_resume(spec: SessionSpec) -> Transcript | None:
    """The session to resume, if any."""
    if spec.start.resume is None:
        return None
    from treadle.agent.session_list import find_session

    return Transcript.read(find_session(spec.start.resume, spec.cwd))


def _from_the_middle(old: Transcript, at: str) -> list[Record]:
    from treadle.agent.resuming import cut_after  # imported here because few resume so

    return cut_after(old, at)


def _still_denied(spec: SessionSpec, rules: tuple[str, ...]) -> SessionSpec:
    deny = tuple(dict.fromkeys((*rules, *spec.rules.deny)))
    return msgspec.structs.replace(spec, rules=msgspec.structs.replace(spec.rules, deny=deny))


def _transcript(spec: SessionSpec, old: Transcript | None, model: str) -> Transcript:
    if old is not None and not spec.start.fork:
        return Transcript.open(old.header.id)
    return Transcript.create(
        cwd=spec.cwd,
        model=model,
        session_id=spec.start.id,
        name=spec.start.name,
        persist=spec.start.persist,
        forked=old,
        denied=spec.rules.deny,
    )
