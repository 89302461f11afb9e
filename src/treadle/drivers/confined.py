"""The sandbox of a driven agent. The whole program runs in it, so the kernel also limits what it never asks about. With
it, the hosts and MCP servers that the agent gets, and the variables that it does not.
"""

import asyncio
import hashlib
import logging
import os
import re
import tomllib
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from treadle.agent.tools.base import HostQuestions, host_granted, host_question
from treadle.confinement import Mount
from treadle.drivers.card import Card, cards
from treadle.errors import ConfigError, Denied, TreadleError
from treadle.events import Event, Warned
from treadle.io import files
from treadle.io.files import read_at_most, read_if_there
from treadle.io.paths import DISK, config_file, private_dir, state_dir
from treadle.io.peer import Peer
from treadle.io.process.child import Child
from treadle.io.records import FileRecord
from treadle.io.sandbox import methods, places
from treadle.io.sandbox.proxy import Reaching
from treadle.io.sandbox.start import RunningSandbox
from treadle.io.tasks import finished, looked
from treadle.policy.network import host_of, is_host, permitted, refusal, shown
from treadle.policy.rules import RuleSet
from treadle.sandboxed.confining import Confining, settled
from treadle.session import Confinement, Mode, PortGrant, SessionSpec
from treadle.sessions.session import BaseSession
from treadle.settings import config, trust
from treadle.settings.config import McpServer, given_servers
from treadle.wire.acp.connection import transport

# The sandbox of a driven agent follows the claims: what others take while it runs becomes read-only, what they
# release is given back.

SECONDS = 0.25
"""Between two looks at the claims."""
log = logging.getLogger(__name__)


class FollowedClaims:
    def __init__(self, confining: Confining, child: Child, begun: Confinement) -> None:
        """`begun`: the confinement that `child` was started with."""
        self._confining = confining
        self._held = dict(begun.held)
        self._sandbox = RunningSandbox(child, begun.write)
        self._news: list[str] = []
        self._looking = asyncio.Lock()
        """Held from reading the claims until the sandbox has them: what `_held` says is what the program meets."""
        self._task: asyncio.Task[None] | None = None
        if methods.available().method == "bubblewrap":
            self._task = asyncio.create_task(self._follow(), name="claims of others")

    async def news(self) -> list[str]:
        """What a person should know since the last time."""
        async with self._looking:  # what the program has already noticed is reported, too
            news, self._news = self._news, []
        return news

    async def _follow(self) -> None:
        try:
            while True:
                await asyncio.sleep(SECONDS)
                await self.look()
        except (TreadleError, OSError) as error:
            log.info("claims are not followed any more: %s", error)
            self._news.append(f"what others claim from now on is not protected from this agent: {error}")

    async def look(self) -> None:
        async with self._looking:
            held = await asyncio.to_thread(self._confining.held)
            if held.keys() == self._held.keys():
                return
            new = [path for path in held if path not in self._held]
            failed = await self._sandbox.change(new, [path for path in self._held if path not in held])
            self._news += [f"read-only for this agent from now on: {held[path]}" for path in new if path not in failed]
            self._news += [f"{path} is not protected from this agent: {why}" for path, why in failed.items()]
            self._held = dict(held)

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
        self._sandbox.close()


# The MCP servers that a session's owner gives to a driven agent, besides those of the agent's own settings.


def settled_servers(spec: SessionSpec, environ: Mapping[str, str]) -> SessionSpec:
    """The spec with each server as the agent will start it: checked, and with every `${NAME}` filled in.

    The agent gets only the variables on its card, so it could not fill them in itself. Servers inside the process of
    the program that opened the session are left to that program.
    """
    if not spec.tools.servers:
        return spec
    wrong: list[str] = []
    found = given_servers(spec.tools.servers, {**environ, **spec.env}, wrong)
    wrong += [
        f"mcpServers.{name} has neither a command nor a url" for name, one in found.items() if not one.command + one.url
    ]
    if wrong:
        raise ConfigError("; ".join(wrong), hint='a server is {"command": ..., "args": [...]} or {"url": ...}')
    servers = {name: _entry(server) for name, server in found.items()}
    return msgspec.structs.replace(spec, tools=msgspec.structs.replace(spec.tools, servers=servers))


def _entry(server: McpServer) -> dict[str, Any]:
    entry = msgspec.to_builtins(server)
    return {name: value for name, value in entry.items() if value}


@contextmanager
def in_a_file(spec: SessionSpec, option: str) -> Iterator[tuple[SessionSpec, list[str]]]:
    """Write the servers to a private file, which exists while the agent starts, and return the words of the command
    line that name it. The servers' variables may hold keys, which must not be on the command line.
    """
    if not option or not spec.tools.servers:
        yield spec, []
        return
    path = os.path.join(private_dir(os.path.join(state_dir(), "driven", "servers")), f"{os.urandom(8).hex()}.json")
    entries = {name: {**entry, "type": transport(entry)} for name, entry in spec.tools.servers.items()}
    files.write_atomic(path, msgspec.json.encode({"mcpServers": entries}), sync=False)
    seen = msgspec.structs.replace(spec.confinement, read_only=(*spec.confinement.read_only, path))
    try:
        yield msgspec.structs.replace(spec, confinement=seen), [option.format(file=path)]
    finally:
        os.remove(path)


def programs(spec: SessionSpec) -> list[list[str]]:
    """The command lines of servers that the agent will start, which must be visible in its sandbox."""
    servers = [server for server in spec.tools.servers.values() if server.get("command")]
    return [[server["command"], *server.get("args", ())] for server in servers]


def addresses(spec: SessionSpec) -> list[str]:
    """Those of servers that the agent will connect to."""
    return [str(server["url"]) for server in spec.tools.servers.values() if server.get("url")]


# The hosts that a driven agent reaches beside those in its list: what a person allows while it works.
#
# The program and its commands are one to us, so who wants to reach a host is not known: it may be a command of the
# model, or the program itself, for a service of its own.


class HostGate:
    """Asked by the proxy about each host that is not in `hosts`. During a turn a person is asked, if there is one."""

    def __init__(self, who: str, hosts: tuple[str, ...]) -> None:
        self._who = who
        self.quiet: tuple[str, ...] = ()
        """What it is refused without a word, because it works without."""
        self._hosts = hosts
        self._granted: set[str] = set()
        self._questions = HostQuestions(None)
        self._emit: Callable[[Event], None] | None = None
        self.refused: dict[str, str] = {}
        """Each host that was not reached, with what allows it."""

    async def reach(self, host: str, port: int) -> bool:
        name = shown(host, port)
        if name in self._granted:
            return True
        if not permitted(self.quiet, host, port) and await self._questions.reach(host, port):
            self.refused.pop(name, None)
            return True
        if self._emit is None or permitted(self.quiet, host, port):
            # Programs look for updates and the like when they start: that is no one's question.
            log.info("%s was refused %s", self._who, name)
        elif name not in self.refused:
            self._emit(Warned(message=refusal(self._hosts, name), code="network"))
        self.refused[name] = refusal(self._hosts, name)
        return False

    @contextmanager
    def turn(self, emit: Callable[[Event], None], session: BaseSession | None) -> Iterator[None]:
        """Within this, refusals are reported, and asked about where `session` has a person."""

        async def ask(host: str, port: int) -> bool:
            if session is None or not is_host(host):
                return False
            answer = await session.ask(host_question(self._who, host, port, call=None, deadline=session.deadline()))
            if answer.decision == "allow" and answer.scope != "once":
                self._granted.add(shown(host, port))
                emit(host_granted(host, port))
            return answer.decision == "allow" and answer.changed_args is None

        self.refused.clear()
        self._emit, self._questions = emit, HostQuestions(ask)
        try:
            yield
        finally:
            self._questions.close()
            self._emit, self._questions = None, HostQuestions(None)


# Where an outside agent's model is: the base URLs in its environment, and in its own settings as a person left them.
#
# In its sandbox an agent can write its own settings. So what they name counts from the first time that it runs
# confined; a host that appears there later counts only after a person has named it, with `--network` or
# `agents.NAME.hosts`.

VARIABLES = ("_BASE_URL", "_API_BASE", "_ENDPOINT")
"""How the names of variables end that say where a model is."""
_KEY = re.compile(r"base_?url$", re.I)
MOST = 1 << 20


class NamedHosts(NamedTuple):
    counted: tuple[str, ...]
    new: tuple[str, ...]
    """Those that its settings did not name before, so that it may have written them."""


def in_environment(env: Mapping[str, str]) -> list[str]:
    return _hosts(value for variable, value in env.items() if variable.endswith(VARIABLES))


KNOWN_HOSTS = FileRecord(list[str])


def in_settings(files: Sequence[str], chosen: Sequence[str]) -> NamedHosts:
    """`chosen`: what a person lists now."""
    counted: list[str] = []
    new: list[str] = []
    for path in files:
        there = _hosts(_urls(read_settings(path)))
        record = os.path.join(private_dir(os.path.join(state_dir(), "driven", "base-urls")), _key(path))
        before = KNOWN_HOSTS.load(record)
        known = there if before is None else before
        known = [*known, *(host for host in there if host not in known and permitted(tuple(chosen), *_pair(host)))]
        KNOWN_HOSTS.save(record, known)
        counted += [host for host in there if host in known]
        new += [host for host in there if host not in known]
    return NamedHosts(tuple(dict.fromkeys(counted)), tuple(dict.fromkeys(new)))


def _pair(host: str) -> tuple[str, int]:
    name, _, port = host.partition(":")
    return name, int(port or 443)


def _hosts(addresses: Iterable[str]) -> list[str]:
    return [*dict.fromkeys(filter(None, map(host_of, addresses)))]


def _key(path: str) -> str:
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:16] + ".json"


def read_settings(path: str) -> Any:
    """What the file says; nothing when it cannot be read, since then it does not count."""
    try:
        data = read_at_most(path, MOST)
        return tomllib.loads(data.decode()) if path.endswith(".toml") else msgspec.json.decode(data)
    except (OSError, ValueError, RecursionError):
        return None


def _urls(settings: Any, depth: int = 0) -> Iterator[str]:
    if isinstance(settings, dict) and depth < 10:
        for key, value in settings.items():
            if isinstance(value, str) and _KEY.search(str(key)):
                yield value
            else:
                yield from _urls(value, depth + 1)


P = TypeVar("P", bound=Peer[Any, Any])
Started = TypeVar("Started", bound=Peer[Any, Any], covariant=True)
XDG = {
    "~/.cache/": "XDG_CACHE_HOME",
    "~/.config/": "XDG_CONFIG_HOME",
    "~/.local/share/": "XDG_DATA_HOME",
    "~/.local/state/": "XDG_STATE_HOME",
}
UNLIMITED = (
    "{0} reaches every host: where its model is, is not known. To limit it, list its hosts with --network, or as hosts "
    "of [agents.NAME] in the settings"
)
NEW = (
    "the settings of {1} name {0}, which they did not when it first ran in a sandbox, so it is not reached. If that is "
    "yours, allow it once with --network {0}"
)


class Enclosure(Confining):
    """Like the confinement of our own agent's commands, plus what the program needs to run at all."""

    def __init__(
        self, spec: SessionSpec, name: str, argv: Sequence[str], env: Mapping[str, str], writes: Sequence[str]
    ) -> None:
        self._followed: FollowedClaims | None = None
        self.gate = HostGate(name, spec.confinement.hosts) if spec.confinement.network == "off" else None
        self.warning: Warned | None = None
        """What a person should know about its network, shown with the first turn."""
        behind = known(argv)
        own = _own_places((*writes, *(behind.writes if behind is not None else ())), env)
        shown = [place for words in (argv, *programs(spec)) for place in places.shown(words, env)]
        # The directories of the sandbox's own /tmp are new ones, so a link above a program is not among them.
        asked, writable = spec.confinement, (spec.cwd, *spec.add_dirs, *spec.confinement.write, *own)
        linked = [Mount(real, place) for place in shown if (real := os.path.realpath(place)) != place]
        linked = [mount for mount in linked if not places.is_under(mount.target, *writable)]
        asked = replace(asked, use="on", write=(*asked.write, *own), mounts=(*asked.mounts, *linked))
        if is_ours(argv):
            # Its sessions are kept where only this agent finds them; it reads what a person has set and trusted.
            asked = replace(asked, state=_state(name))
            shown += [place for place in (config_file(), trust.register()) if os.path.exists(place)]
        # A directory and a branch are named by it, and the name of an agent can be a command with slashes and colons.
        plain = re.sub(r"[^A-Za-z0-9]+", "-", spec.start.id or name).strip("-") or "agent"
        super().__init__(
            spec.cwd,
            spec.add_dirs,
            replace(asked, read_only=(*asked.read_only, *shown, *spec.instructions.plugins)),
            session=plain[-100:],
            holding=spec.guards.holding,
            seconds=spec.limits.max_seconds,
        )
        self.lasting = True
        self.obey(RuleSet(spec.rules, DISK.real(spec.cwd), DISK), spec.mode)
        self.own = "".join(f", {place}" for place in own)

    def follow(self, child: Child, begun: Confinement) -> None:
        """From now on, what others take and release changes what the program can write."""
        self._followed = FollowedClaims(self, child, begun)

    @property
    def reaches(self) -> tuple[str, ...] | None:
        """The hosts that it can reach; None: every one."""
        return self.hosts if self.asked.network == "off" else None

    async def news(self) -> list[str]:
        return await self._followed.news() if self._followed is not None else []

    def close(self) -> None:
        super().close()
        if self._followed is not None:
            self._followed.close()
        if self.asked.state is not None:  # a workspace below our state directory was mounted into the given one
            base = os.path.realpath(state_dir())
            for place in self._write:
                inside = os.path.relpath(place, base) if places.is_under(place, base) else ""
                with suppress(OSError):
                    while inside:
                        os.rmdir(os.path.join(self.asked.state, inside))
                        inside = os.path.dirname(inside)


def settings_of(spec: SessionSpec, environ: Mapping[str, str]) -> config.Settings:
    trusted, sources = True if spec.trusted else None, spec.instructions.sources
    return config.load(spec.cwd, {**environ, **spec.env}, trusted=trusted, sources=sources).settings


def decided(spec: SessionSpec, environ: Mapping[str, str]) -> SessionSpec:
    """The spec with `confinement.use` "on" where a person, the settings or the mode want the agent confined."""
    asked = settled(spec.confinement, settings_of(spec, environ))
    if methods.wanted(asked, spec.mode):
        asked = replace(asked, use="on")
    return replace(spec, confinement=asked)


def enclosure(
    spec: SessionSpec,
    name: str,
    argv: Sequence[str],
    env: Mapping[str, str],
    writes: Sequence[str] = (),
    hosts: Sequence[str] = (),
    *,
    wired: bool = False,
) -> Enclosure | None:
    """The sandbox; None when neither the mode nor a person asks for one. `writes` and `hosts` are as on its card.
    `wired`: its model is reached through our gateway, so that it needs no host for that.

    Raises ConfigError when this machine cannot make a sandbox that is required.
    """
    if not (methods.wanted(spec.confinement, spec.mode) or _begun_confined(spec, name, argv)):
        return None
    spec, warning = networked(spec, name, argv, env, hosts, wired=wired)
    made = Enclosure(spec, name, argv, env, writes)
    card = cards().get(name)
    if made.gate is not None and wired and card is not None:
        made.gate.quiet = card.hosts
    made.warning = warning
    return made


def networked(
    spec: SessionSpec,
    name: str,
    argv: Sequence[str],
    env: Mapping[str, str],
    hosts: Sequence[str],
    *,
    wired: bool = False,
) -> tuple[SessionSpec, Warned | None]:
    """With the network of the program, and what a person should know about it. Where few of its acts are seen before
    they happen it reaches its model alone, unless a person chose. For that it must be known where its model is."""
    asked, warning = spec.confinement, None
    card = cards().get(name) or known(argv)
    model = [*(card.hosts if card is not None and not wired else ()), *hosts]
    if asked.network == "auto":
        unseen = spec.mode is None or spec.mode in methods.CONFINED_MODES
        limited = unseen and methods.available().network
        found = wired or bool(model)
        warning = Warned(message=UNLIMITED.format(name), code="not_enforced") if limited and not found else None
        asked = replace(asked, network="off" if limited and found else "on")
    if asked.network == "off" and wired:
        given = tuple(filter(None, map(host_of, addresses(spec))))
        asked = replace(asked, hosts=tuple(dict.fromkeys((*asked.hosts, *model, *given))))
    elif asked.network == "off":
        own = in_settings(placed(card.settings if card is not None else (), env), (*asked.hosts, *hosts))
        named = (*in_environment(env), *filter(None, map(host_of, addresses(spec))))
        reached = tuple(dict.fromkeys((*asked.hosts, *model, *named, *own.counted)))
        new = "; ".join(NEW.format(host, name) for host in own.new if host not in reached)
        warning = Warned(message=new, code="network") if new else None
        asked = replace(asked, hosts=reached)
    return replace(spec, confinement=asked), warning


def unchanged(spec: SessionSpec, mode: Mode) -> str:
    """The warning when a session changes to `mode`: a running program can be neither confined nor released.

    Empty when its sandbox already is what that mode wants.
    """
    if spec.confinement.use == "on":
        return "it stays in the sandbox that it was started in" if mode == "yolo" else ""
    if not methods.asked_for(spec.confinement, mode) or methods.available().method is None:
        return ""
    return f"it continues without a sandbox, as it was started; resume the session in {mode} to have it sandboxed"


class ConfinedStart(Protocol[Started]):
    """`Peer.start`, with all that it needs but the sandbox."""

    def __call__(self, *, confinement: Confinement | None, reaching: Reaching | None) -> Awaitable[Started]: ...


async def started(made: Enclosure | None, start: ConfinedStart[P], ports: tuple[PortGrant, ...] = ()) -> P:
    """Start a program in its enclosure, which lasts as long as the process; `watched` then checks its turns."""
    if made is None:
        return await start(confinement=None, reaching=None)
    try:
        begun = made.now()
        begun = replace(begun, ports=ports) if begun is not None else None
        peer = await start(confinement=begun, reaching=made.gate.reach if made.gate is not None else None)
    except BaseException:
        made.close()
        raise
    peer.child.beside.append(made.close)
    if begun is not None:
        made.follow(peer.child, begun)
    peer.watching = made.watching(None)
    peer.enclosed = made
    peer.hint = "it runs in a sandbox and can write its workspace" + made.own
    peer.hint += "; more with agents.NAME.writes in the settings, in -p and the chat with --add-dir, or --no-sandbox"
    if made.gate is not None:
        peer.hint += f". It reaches only {', '.join(made.hosts) or 'nothing'}; more with --network HOSTS, or on"
    return peer


def is_sealed(peer: Peer[Any, Any]) -> bool:
    """Whether the whole program is confined, and not only what it has us run."""
    return isinstance(peer.enclosed, Enclosure)


@asynccontextmanager
async def watched(
    peer: Peer[Any, Any], emit: Callable[[Event], None], session: BaseSession | None = None
) -> AsyncIterator[None]:
    """Around a turn: its commits are taken over, and protected files that it made are moved out, with a warning. A
    person of the `session` is asked about hosts that are not in its list."""
    enclosed = peer.enclosed
    gate = enclosed.gate if isinstance(enclosed, Enclosure) else None

    def say(message: str) -> None:
        emit(Warned(message=message, code="git"))

    if enclosed is not None:
        enclosed.begin_turn()
        await enclosed.ready(say)
    if isinstance(enclosed, Enclosure) and enclosed.warning is not None:
        emit(enclosed.warning)
        enclosed.warning = None
    check = await looked(peer.watching) if peer.watching is not None else None
    try:
        with gate.turn(emit, session) if gate is not None else nullcontext():
            yield
    finally:
        try:
            if check is not None:
                await finished(asyncio.to_thread(check))
        except Denied as error:
            emit(Warned(message=str(error), code="taken_out"))
        if enclosed is not None:
            await enclosed.finish(say)
        for note in await enclosed.news() if isinstance(enclosed, Enclosure) else ():
            emit(Warned(message=note, code="claims"))
        if exceeded := peer.child.exceeded(""):
            emit(Warned(message=f"{peer.name}: {exceeded} (limits of [sandbox] in the settings)", code="sandbox"))


def expanded(place: str, env: Mapping[str, str]) -> str:
    """`~/x` and `$VARIABLE/x` as the agent sees them; of `$VARIABLE|~/x` the first that it has; nothing without one."""
    for one in place.split("|"):
        if one.startswith("$"):
            name, _, inside = one[1:].partition("/")
            base = env.get(name, "")
        else:
            base, inside = env.get("HOME", ""), one.removeprefix("~/")
        if base:
            return os.path.join(base, inside) if inside else base
    return ""


def placed(given: Sequence[str], env: Mapping[str, str]) -> list[str]:
    """Places as they stand on a card, where this agent has them; of `~/.cache/x` also where that was moved to."""
    found = [place for each in given for place in (expanded(each, env), _moved(each, env))]
    return [*dict.fromkeys(place for place in found if os.path.isabs(place))]


def _own_places(writes: Sequence[str], env: Mapping[str, str]) -> list[str]:
    """Make missing directories, since only existing ones can be writable."""
    for place in (found := placed(writes, env)):
        os.makedirs(place, mode=0o700, exist_ok=True)
    return found


def _moved(place: str, env: Mapping[str, str]) -> str:
    """Where a program keeps `~/.cache/x` and the like if its user has moved these: an old one may be used, too."""
    for usual, variable in XDG.items():
        if place.startswith(usual) and (base := env.get(variable)):
            return os.path.join(base, place.removeprefix(usual))
    return ""


def known(argv: Sequence[str]) -> Card | None:
    """A command typed in full may be that of a known agent, or an adapter or a program of ours in front of one."""
    if is_ours(argv) and "--agent" in argv[:-1]:
        return cards().get(argv[argv.index("--agent") + 1])
    name = os.path.basename(argv[0]) if argv else ""
    return next((card for card in cards().values() if name and name in (card.program, *card.adapters)), None)


def is_ours(argv: Sequence[str]) -> bool:
    return any(os.path.basename(word).startswith("treadle") for word in argv[:3])


def _begun_confined(spec: SessionSpec, name: str, argv: Sequence[str]) -> bool:
    """Whether a session of our own program began in its sandbox: it is kept there, and continues there.

    Outside it would not be found, and what could be written from inside must not be trusted outside.
    """
    wanted = spec.start.resume
    if wanted is None or spec.confinement.use == "off" or not is_ours(argv):
        return False
    from treadle.agent.stored_sessions import latest
    from treadle.agent.transcript import is_id

    inside = _state(name)
    if wanted:
        return is_id(wanted) and os.path.isdir(os.path.join(inside, "sessions", wanted))
    last, ours = latest(spec.cwd, inside), latest(spec.cwd)
    return last is not None and (ours is None or ours.updated < last.updated)


def _state(name: str) -> str:
    shown = re.sub(r"[^\w.-]+", "-", name)[:40]
    key = hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:8]
    return private_dir(os.path.join(state_dir(), "driven", f"{shown}-{key}"))


# Variables that an outside agent's own settings name and that it does not get: so that a person is told which.
#
# An agent sees an allow-list of our environment. A key under a name that a person made up is not on it, and is not
# passed on because the agent's files name it: the agent can write these files, and could name any other secret there.

_NAME = re.compile(r"\b[A-Za-z_][A-Za-z0-9_]{2,}\b")


class Withheld:
    def __init__(self, card: Card, argv: Sequence[str], environ: Mapping[str, str], given: Mapping[str, str]) -> None:
        self._agent = card.name
        self._names = {name for name, value in environ.items() if value and name not in given}
        behind = known(argv)  # an adapter's command may be typed in full
        files = card.settings or (behind.settings if behind is not None else ())
        self._settings = _named_in(files, given, self._names)

    def warning(self) -> str:
        """What to tell a person when a session begins; empty when its settings name nothing that is withheld."""
        names = self._settings
        return f"the settings of {self._agent} name {', '.join(names)}: {self._advice(names)}" if names else ""

    def hint(self, message: str, *, signing_in: bool) -> str:
        """What to do about an error with this message: it names a variable, or is about a key."""
        named = [name for name in dict.fromkeys(_NAME.findall(message)) if name in self._names]
        named = named or (self._settings if signing_in else [])
        return f"{', '.join(named)}: {self._advice(named)}" if named else ""

    def advise(self, error: TreadleError, *, signing_in: bool) -> None:
        """Put it in front of what the error advises."""
        if advice := self.hint(error.message, signing_in=signing_in):
            error.hint = advice if error.hint is None else f"{advice}; {error.hint}"

    def _advice(self, names: Sequence[str]) -> str:
        words = ", ".join(f'"{name}"' for name in names)
        return f"set here but not passed to it; agents.{self._agent}.env = [{words}] in the settings does"


def _named_in(files: Sequence[str], env: Mapping[str, str], names: Collection[str]) -> list[str]:
    """Those of the names that stand in one of the agent's settings files, whatever their form."""
    found: dict[str, None] = {}
    for place in placed(files, env):
        text = (read_if_there(place) or b"").decode("utf-8", "replace") if os.path.isfile(place) else ""
        found.update(dict.fromkeys(name for name in _NAME.findall(text) if name in names))
    return [*found]
