"""Finds an agent by its name. Each is imported only when it is asked for.

Our own agents are in AGENTS. Outside agents have a card (a description) in a folder of `drivers`: adding an agent is
adding a folder. A person can add one in the settings, `[agents.NAME]`, by naming the driver to use, and another
distribution by an entry point of the group `treadle.agents`, which is a card.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from treadle.errors import ConfigError, NotFound, TreadleError, Unsupported
from treadle.io.paths import here
from treadle.session import (
    Access,
    Agent,
    AgentInfo,
    Confinement,
    Decision,
    Guards,
    Keeping,
    RelayGrant,
    Remembering,
    Session,
    SessionSpec,
    Start,
    StoredSession,
)
from treadle.sessions import abilities
from treadle.settings.config import AgentSettings

if TYPE_CHECKING:
    from treadle.coordination.planning import Planning
    from treadle.drivers.card import Card, Launch
    from treadle.events import Event

AGENTS = {"native": "treadle.agent.native:NativeAgent"}
"""Our own agents, by name."""
TRAJECTORY = "atif:"
"""Before the file that a session begins with, where another session could be named."""


class AgentWrapper:
    """Around every agent that is found by its name. What a session asks for is checked against the card, and what binds
    a session is added to it, here and nowhere else: a driver only translates, and cannot forget any of it."""

    def __init__(
        self,
        agent: Agent,
        card: Card | None = None,
        launch: Launch | None = None,
        *,
        confinement: Confinement | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """Without a card it is an agent of ours, which reads the settings itself."""
        self.name = agent.name
        self.agent = agent
        self._card = card
        self._launch = launch
        self._confinement = confinement
        self._environ = os.environ if environ is None else environ

    async def probe(self) -> AgentInfo:
        return await self.agent.probe()

    async def open(self, spec: SessionSpec) -> Session:
        if not os.path.isdir(spec.cwd):
            raise ConfigError(f"the working directory {spec.cwd} does not exist", hint="make it, or name another")
        spec = msgspec.structs.replace(
            spec, cwd=os.path.abspath(spec.cwd), confinement=self._confined(spec.confinement)
        )
        if spec.start.resume:
            spec = await taking_over(spec, self.name, prefix=self._card is not None and self._card.prefix)
        session = await self._opened(spec)
        if spec.start.handover:
            from treadle.sessions.session import BaseSession

            assert isinstance(session, BaseSession)
            session.handover = spec.start.handover
        return session

    async def _opened(self, spec: SessionSpec) -> Session:
        if self._card is None or self._launch is None:
            return await self.agent.open(self._bound(spec))
        from treadle.drivers.agent import prepared, unheeded
        from treadle.events import Warned
        from treadle.sessions.session import BaseSession

        spec = prepared(spec, self._launch, self._environ)
        abilities.check(self.name, self._card.capabilities, spec)
        bound = self._bound(spec)
        session = await self.agent.open(bound)
        assert isinstance(session, BaseSession)
        session.limits = spec.limits
        gaps = abilities.gaps(self.name, self._card.capabilities, spec)
        if bound.guards.judge is not None and not abilities.can(self._card.capabilities, "rules"):
            gaps.append(f"{self.name} is not kept from what others have claimed")
        for message in (*gaps, *unheeded(self.name, spec, self._launch, self._environ)):
            session.emit(Warned(message=message, code="not_enforced"))
        return session

    def _confined(self, asked: Confinement) -> Confinement:
        """The confinement that a person asks for; where they leave it open, the one who opens the session decides."""
        own = self._confinement
        if own is None:
            return asked
        return msgspec.structs.replace(own, use=asked.use) if own.use == "auto" else own

    def _bound(self, spec: SessionSpec) -> SessionSpec:
        return bound_by_claims(spec, {**self._environ, **spec.env})

    def __getattr__(self, name: str) -> Any:
        """Abilities of some agents beyond the contract."""
        return getattr(self.agent, name)


class KeepingAgent(AgentWrapper):
    """Around an agent that can list its sessions."""

    async def stored_sessions(self, cwd: str | None = None) -> list[StoredSession]:
        assert isinstance(self.agent, Keeping)
        return await self.agent.stored_sessions(cwd)


def wrapped(agent: Agent, *details: Any, **more: Any) -> AgentWrapper:
    return (KeepingAgent if isinstance(agent, Keeping) else AgentWrapper)(agent, *details, **more)


def find_agent(
    name: str = "native",
    settings: Mapping[str, AgentSettings] | None = None,
    confinement: Confinement | None = None,
) -> Agent:
    """`native`, an outside agent by name, `PREFIX:COMMAND`, or a name of `settings` (None: the person's `[agents]`)."""
    found = (_load(AGENTS[name])(),) if name in AGENTS else _driver(name, settings)
    return wrapped(*found, confinement=confinement)


def find_driver(name: str, settings: Mapping[str, AgentSettings] | None = None) -> Agent:
    """The agent without its wrapper, to look at its program; sessions are opened by what `find_agent` gives."""
    found: Agent = _load(AGENTS[name])() if name in AGENTS else _driver(name, settings)[0]
    return found


def _driver(name: str, settings: Mapping[str, AgentSettings] | None) -> tuple[Agent, Card, Launch]:
    from treadle.drivers.card import launch_of
    from treadle.io.process import tree

    settings = agent_settings() if settings is None else settings
    card, command = find_card(name, settings)
    launch = launch_of(card, settings.get(card.name), command)
    tree.own.begin()  # it starts while the driver is being imported
    made = _load(card.driver)(card, launch)
    assert isinstance(made, Agent)
    return made, card, launch


async def taking_over(spec: SessionSpec, agent: str, *, prefix: bool = False) -> SessionSpec:
    """The same for an agent that is to go on with another's session (`AGENT:ID` or one of ours) or with `atif:FILE`: it
    gets what is known of that as a handover. The session must have ended, unless a copy of it is wanted."""
    wanted = spec.start.resume or ""
    past: Iterable[Event]
    if wanted.startswith(TRAJECTORY):
        owner, past = _trajectory(wanted.removeprefix(TRAJECTORY))
    else:
        owner, wanted = _owner(wanted, agent, prefix=prefix)
        if owner in ("", agent):
            return spec if owner == "" else _starting(spec, resume=wanted)
        if owner == "native":
            past, denied = _own_past(wanted, fork=spec.start.fork)
            rules = msgspec.structs.replace(spec.rules, deny=(*spec.rules.deny, *denied))
            spec = msgspec.structs.replace(spec, rules=rules)
        else:
            past = await _past(owner, wanted, spec)
    from treadle.redact import Redactor
    from treadle.sessions.handover import gathered

    handover = gathered(past, owner, Redactor.of_environment(os.environ), spec.cwd).prompt()
    return _starting(spec, resume=None, fork=False, at="", handover=handover)


def _trajectory(path: str) -> tuple[str, Iterator[Event]]:
    from treadle.io.files import read
    from treadle.sessions import atif

    found = atif.read_trajectory(read(os.path.join(here(), os.path.expanduser(path))), path)
    return found.agent.name, atif.events_of(found)


def _starting(spec: SessionSpec, **how: Any) -> SessionSpec:
    return msgspec.structs.replace(spec, start=msgspec.structs.replace(spec.start, **how))


def _owner(wanted: str, agent: str, *, prefix: bool) -> tuple[str, str]:
    """Whose session this is, and its id there; no one's when it is left to the agent to find it."""
    owner, colon, rest = wanted.rpartition(":")
    if colon and rest and (owner == agent or declared(owner) is not None):
        return owner, rest
    if agent == "native" or prefix or not wanted:  # a program behind a prefix may be ours, and have the session itself
        return "", wanted
    from treadle.agent.stored_sessions import find_session

    try:
        return "native", find_session(wanted)
    except NotFound:
        return "", wanted


def _own_past(wanted: str, *, fork: bool) -> tuple[list[Event], tuple[str, ...]]:
    from treadle.agent.session import replay
    from treadle.agent.stored_sessions import find_session
    from treadle.agent.transcript import Transcript

    found = (Transcript.read if fork else Transcript.open)(find_session(wanted))
    try:
        return replay(found.records, found.image_file, steered=True), found.header.denied
    finally:
        found.close()


async def _past(owner: str, wanted: str, spec: SessionSpec) -> list[Event]:
    """What an outside agent has stored of one of its sessions. It is started for it, and asks no model."""
    start = Start(resume=f"{owner}:{wanted}")
    asked = SessionSpec(cwd=spec.cwd, start=start, env=spec.env, inherit_env=spec.inherit_env, mode="suggest")
    session = await find_agent(owner).open(asked)
    try:
        past = session.history() if isinstance(session, Remembering) else []
    finally:
        await session.close()
    if not past:
        raise Unsupported(f"{owner} cannot show the conversation of its session {wanted}", hint="begin a new session")
    return past


def takes_programs(name: str, settings: Mapping[str, AgentSettings] | None = None) -> bool:
    """Whether its sessions can use the hooks and tools of the program that opens them (`SessionSpec.program`)."""
    if name in AGENTS:
        return True
    card, _ = find_card(name, agent_settings() if settings is None else settings)
    return all(abilities.can(card.capabilities, ability) for ability in ("hooks", "own_tools"))


def declared(name: str, settings: Mapping[str, AgentSettings] | None = None) -> Mapping[str, str] | None:
    """The level of each ability of the agent with this name; None when no such agent is known here."""
    if name in AGENTS:
        from treadle.agent.session import CAPABILITIES

        return CAPABILITIES
    try:
        card, _ = find_card(name, agent_settings() if settings is None else settings)
    except ConfigError:
        return None
    return card.capabilities


def find_card(name: str, settings: Mapping[str, AgentSettings]) -> tuple[Card, str]:
    """The card of the agent with this name, and the command that is part of the name."""
    from treadle.drivers.card import cards

    known = cards()
    prefix, colon, command = name.partition(":")
    if prefix not in known and prefix not in settings and (added := _added(prefix)) is not None:
        known = {**known, prefix: added}
    if colon and prefix in known and known[prefix].prefix:
        if not command.strip():
            takes = known[prefix].takes
            such = "my-agent --flag" if takes == "COMMAND" else "https://agent.example"
            raise ConfigError(f"--agent {name} lacks its {takes.lower()}", hint=f"such as --agent '{prefix}:{such}'")
        return known[prefix], command
    if name in known and not known[name].prefix:
        return known[name], ""
    if name in settings:
        speaks = settings[name].speaks
        if speaks not in known:
            hint = f"set agents.{name}.speaks to one of {', '.join(known)}"
            raise ConfigError(f"the settings do not define the agent {name}", hint=hint)
        return msgspec.structs.replace(known[speaks], name=name, title=name, prefix=False, recorded=(), install=""), ""
    raise ConfigError(f"there is no agent {name!r}", hint=f"the agents are {', '.join(names(settings))}")


def _added(name: str) -> Card | None:
    """The card of an agent of another distribution."""
    from treadle.drivers.card import Card
    from treadle.settings import extensions

    card: Card | None = extensions.load("agents", name, Card)
    if card is not None and card.name != name:
        raise ConfigError(f"the entry point {name!r} leads to a card named {card.name!r}", hint="give both one name")
    return card


def names(settings: Mapping[str, AgentSettings]) -> list[str]:
    """The names of all agents, as typed on the command line."""
    from treadle.drivers.card import cards

    known = [f"{card.name}:{card.takes}" if card.prefix else card.name for card in cards().values()]
    return [*AGENTS, *known, *(name for name in settings if name not in cards())]


def agent_settings() -> Mapping[str, AgentSettings]:
    from treadle.settings import config

    return config.load(here()).settings.agents


def bound_by_claims(spec: SessionSpec, environ: Mapping[str, str]) -> SessionSpec:
    """Add guards that protect what others have claimed, in a repository where claims are used.

    The session acts under the identity in `HEIMDALL_HAID`. Without one it gets an identity of its own, which its
    commands see too.
    """
    from treadle.coordination.repository import find, sealed_top

    if (top := sealed_top(spec.cwd)) is not None:
        return _bound_from_inside(spec, top)
    haid = environ.get("HEIMDALL_HAID")
    if not haid and find(spec.cwd) is None and not environ.get("HEIMDALL_PLANNING_DIR"):
        return spec
    from treadle.coordination.identity import PROCESS_VARIABLE, this_process
    from treadle.coordination.planning import Planning

    planning = Planning(project=spec.cwd)
    named = bool(haid)
    haid = haid or own_identity(spec)
    if not named:
        spec = msgspec.structs.replace(spec, env={**spec.env, "HEIMDALL_HAID": haid, **this_process()})
    spec = _relayed(spec, planning, haid, {**environ, **spec.env}.get(PROCESS_VARIABLE, ""))
    from treadle.coordination.guard import Guarded
    from treadle.io.sandbox import methods

    guarded = Guarded(planning, haid, confined=methods.wanted(spec.confinement, spec.mode))

    def watching() -> Callable[[], None]:
        guarded.watch()
        return guarded.check

    # Before the first claim there is nothing to judge, but one may be made at any time.
    judge = guarded.judge if named or planning.claimed() or planning.blind() else None
    guards = Guards(judge=judge, writing=guarded.writing, watching=watching, holding=guarded.holding)
    return msgspec.structs.replace(spec, guards=_both(spec.guards, guards))


def _bound_from_inside(spec: SessionSpec, top: str) -> SessionSpec:
    """The same for a session in the sandbox of another, such as that of a driven worker: it asks by the other's relay,
    acts under the other's identity, and passes the relay on."""
    from treadle.coordination.relay import RelayRequest, ask
    from treadle.coordination.repository import RELAY
    from treadle.policy.guess import written_by

    def judge(access: Access) -> Decision:
        named = (os.path.relpath(os.path.join(spec.cwd, one), top) for one in written_by(access))
        surfaces = [path for path in named if path.split("/")[0] != ".."]
        if not surfaces:
            return Decision(verdict="allow", by="claim")
        try:
            code, _, err = ask(RelayRequest(top, "claim", ["check", "--", *surfaces]))
        except TreadleError as error:
            code, err = 2, f"others' claims cannot be read: {error.message}".encode()
        reason = err.decode(errors="replace").strip()
        return Decision(verdict="deny", reason=reason, by="claim") if code else Decision(verdict="allow", by="claim")

    confinement = msgspec.structs.replace(spec.confinement, sockets=(*spec.confinement.sockets, RELAY))
    return msgspec.structs.replace(spec, guards=_both(spec.guards, Guards(judge=judge)), confinement=confinement)


def _relayed(spec: SessionSpec, planning: Planning, haid: str, process: str) -> SessionSpec:
    """Let confined programs claim, and check commits, through a program of ours outside that acts as `haid`."""
    from treadle.coordination.identity import PROCESS_VARIABLE
    from treadle.coordination.repository import RELAY, find
    from treadle.io.sandbox.places import is_under

    found = find(spec.cwd)
    live = os.path.realpath(planning.live)
    writable = [os.path.realpath(os.path.join(spec.cwd, place)) for place in (spec.cwd, *spec.add_dirs)]
    if found is None or (is_under(live, *writable) and not is_under(live, os.path.realpath(found.common))):
        return spec  # a confined program could change the live state itself, and nothing outside may trust it
    env = {"HEIMDALL_HAID": haid, "HEIMDALL_PLANNING_DIR": live, PROCESS_VARIABLE: process}
    grant = RelayGrant(
        place=RELAY,
        argv=(sys.executable, "-P", "-m", "treadle.cli.heimdall.outside"),
        cwd=found.top,
        env=tuple(env.items()),
    )
    return msgspec.structs.replace(spec, confinement=msgspec.structs.replace(spec.confinement, relay=grant))


def _both(one: Guards, other: Guards) -> Guards:
    """Guards that combine both; for calls of the model, the first one's is used."""
    from treadle.policy.rules import strictest

    judges = [judge for judge in (one.judge, other.judge) if judge is not None]
    writers = [writing for writing in (one.writing, other.writing) if writing is not None]
    watchers = [watching for watching in (one.watching, other.watching) if watching is not None]
    holders = [holding for holding in (one.holding, other.holding) if holding is not None]

    @contextmanager
    def writing(paths: tuple[str, ...]) -> Iterator[None]:
        with ExitStack() as stack:
            for each in writers:
                stack.enter_context(each(paths))
            yield

    def watching() -> Callable[[], None]:
        checks = [each() for each in watchers]

        def check() -> None:
            for each in checks:
                each()

        return check

    return Guards(
        judge=(lambda access: strictest(*(judge(access) for judge in judges))) if judges else None,
        writing=writing,
        watching=watching,
        holding=lambda: {path: why for holding in holders for path, why in holding().items()},
        calling=one.calling,
    )


def own_identity(spec: SessionSpec) -> str:
    """An identity in this checkout that no other session has."""
    from treadle.coordination.identity import root

    return f"{root(spec.cwd)}/treadle-{os.urandom(4).hex()}"


def _load(place: str) -> Callable[..., Any]:
    module, attribute = place.split(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
    return found
