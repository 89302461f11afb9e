"""`treadle agents`: which agents can be put to work here, how, what is lost with each; `login`, `new`; and
`treadle extensions`, what other distributions add."""

import asyncio
import math
import os
import re
import shlex
import shutil
import sys
import time
from collections.abc import Mapping
from typing import Any

import click
import msgspec

from treadle import __version__
from treadle.agent.session import CAPABILITIES
from treadle.agents import AGENTS, agent_settings, find_agent, find_card, find_driver
from treadle.cli.as_json import group_or, json_option, show_json
from treadle.cli.render import printable
from treadle.drivers.acp.driver import AcpAgent
from treadle.drivers.acp.options import SignIn
from treadle.drivers.agent import DrivenAgent
from treadle.drivers.card import Level, cards, newer, older
from treadle.drivers.model_wire import sign_ins
from treadle.drivers.session import DrivenSession
from treadle.errors import AuthFailed, ConfigError, TreadleError
from treadle.events import TurnEnded
from treadle.gateway.recording import CallReplay, recordings
from treadle.io.files import read, write_atomic
from treadle.io.paths import here
from treadle.io.process.loop import run_async
from treadle.session import Confinement, Mode, SessionSpec
from treadle.sessions.totals import run_turn
from treadle.settings import extensions as added
from treadle.settings.config import AgentSettings
from treadle.wire.common.losses import NOTHING, WIRES, rows
from treadle.workspace.user_repository import UserRepository

# `treadle agents login` and `new`

GREETING_SECONDS = 90.0
SIGN_IN_SECONDS = 600.0


@click.command("login")
@click.argument("name")
@click.argument("method", required=False)
@json_option
def login(name: str, method: str | None, as_json: bool) -> None:
    """Sign in to an agent. Without METHOD, list the agent's sign-in methods.

    Only for agents that speak the Agent Client Protocol. Sign in to others with their own program.
    """
    settings = agent_settings()
    agent = find_driver(name, settings)
    if not isinstance(agent, AcpAgent):
        hint = "it uses a key, or a model of this machine: `treadle models use`"
        if name != "native":
            hint = f"run `{find_card(name, settings)[0].program}` and sign in there"
        raise ConfigError(f"Treadle cannot sign in to {name}", hint=hint)
    methods = run_async(_sign_in(agent, method))
    if as_json:
        show_json(methods)
    elif method is not None:
        click.echo(f"signed in to {name} by {method}")
    else:
        for each in methods:
            click.echo(printable(_sign_in_line(name, agent, each)))
        if not methods:
            click.echo(f"{name} offers no sign-in method")


def _sign_in_line(name: str, agent: AcpAgent, method: SignIn) -> str:
    how = f"treadle agents login {name} {method.id}"
    if method.kind == "terminal":
        how = f"type: {shlex.join([agent.launch.argv[0], *method.arguments])}"
    elif method.kind == "variable":
        how = f"set {' and '.join(method.variables)}, and name it in agents.{name}.env if it is not passed on"
    return f"{method.id:20} {method.name}: {method.description or '-'}\n{'':20} {how}"


async def _sign_in(agent: AcpAgent, wanted: str | None) -> tuple[SignIn, ...]:
    async with asyncio.timeout(GREETING_SECONDS + (SIGN_IN_SECONDS if wanted else 0)), agent.greeted() as session:
        if wanted is not None:
            method = next((each for each in session.methods if each.id == wanted), None)
            if method is None:
                known = ", ".join(each.id for each in session.methods) or "none"
                raise ConfigError(f"{agent.name} offers no sign-in {wanted!r}", hint=f"it offers {known}")
            if method.kind == "terminal":
                raise ConfigError(f"{wanted} needs a terminal", hint=_sign_in_line(agent.name, agent, method))
            await session.sign_in(wanted)
        return session.methods


@click.command("new")
@click.argument("name")
@click.argument("directory", required=False, type=click.Path())
def new(name: str, directory: str | None) -> None:
    """Create the skeleton of an extension that adds the agent NAME, with a driver and a test.

    The page add-an-agent explains each part.
    """
    place = directory or f"treadle-agent-{name}"
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        raise ConfigError(f"{name!r} is not a valid agent name", hint="use lowercase letters, digits and -")
    if name in AGENTS or name in cards():
        raise ConfigError(f"{name} is a built-in agent", hint="choose another name")
    if os.path.lexists(place):
        raise ConfigError(f"{place} already exists", hint="name another directory")
    for path, text in template(name).items():
        os.makedirs(os.path.dirname(os.path.join(place, path)), exist_ok=True)
        write_atomic(os.path.join(place, path), text.encode(), mode=0o644)
        click.echo(os.path.join(place, path))
    click.echo(f"\nnext: pip install -e {place} && treadle extensions allow treadle-agent-{name}")


def template(name: str) -> dict[str, str]:
    """The files of a distribution, by path: those that the page shows for the agent `loom`, with this name."""
    from treadle.cli.help import pages

    page = next(read(each.path).decode() for each in pages() if each.name == "add-an-agent")
    words = {"treadle_agent_loom": f"treadle_agent_{name.replace('-', '_')}", "loom": name}
    words["Loom"] = "".join(part.capitalize() for part in name.split("-"))
    files = re.findall(r'```\w+ title="([^"]+)"\n(.*?)```', page, re.DOTALL)
    return {_renamed(path, words): _renamed(text, words) for path, text in files}


def _renamed(text: str, words: Mapping[str, str]) -> str:
    return re.sub("|".join(words), lambda found: words[found[0]], text)


# `treadle extensions`: what other distributions add.


class ExtensionRow(msgspec.Struct, frozen=True, kw_only=True):
    kind: str
    name: str
    distribution: str
    version: str
    allowed: bool
    ours: bool
    """Whether an agent or a forge of ours has its name, so that it is never used."""


@click.group("extensions", invoke_without_command=True)
@json_option
@click.pass_context
def extensions(context: click.Context, as_json: bool) -> None:
    """List installed extensions, and allow those that you trust.

    \b
    treadle extensions                          list them, and whether each is allowed
    treadle extensions allow treadle-forges     allow the installed version

    Allowed extensions run with your permissions. The name and version are stored in your settings: an update must be
    allowed again, and a repository cannot allow one.
    """
    if context.invoked_subcommand is not None:
        return
    found = [_listed(each) for kind in added.KINDS for each in added.extensions(kind)]
    if as_json:
        return show_json(found)
    for each in found:
        state = "allowed" if each.allowed else f"not allowed: treadle extensions allow {each.distribution}"
        state = "never used: the name is ours" if each.ours else state
        click.echo(printable(f"{each.kind:7} {each.name:14} {each.distribution} {each.version}, {state}"))
    if not found:
        click.echo("no extensions are installed")


def _listed(found: added.Extension) -> ExtensionRow:
    from treadle.landing.forge.kinds import KINDS

    ours = {"agents": {*AGENTS, *cards()}, "forges": {*KINDS}, "doors": set[str]()}[found.kind]
    about = {name: getattr(found, name) for name in ("kind", "name", "distribution", "version", "allowed")}
    return ExtensionRow(ours=found.name in ours, **about)


@extensions.command("allow")
@click.argument("distribution")
def allow(distribution: str) -> None:
    """Allow the installed version of the extension DISTRIBUTION."""
    from treadle.settings.edit import allow_extension

    found = [each for kind in added.KINDS for each in added.extensions(kind) if each.distribution == distribution]
    if not found:
        raise ConfigError(f"{distribution} adds no extension", hint="treadle extensions lists what is installed")
    path = allow_extension(distribution, found[0].version)
    what = ", ".join(f"{each.kind}: {each.name}" for each in found)
    click.echo(printable(f"{distribution} {found[0].version} may be used ({what}), says {path}"))


SECONDS = 60.0
WHOLE_SECONDS = 45.0
AT_ONCE = 3
QUESTION = "Answer with the single word ok. Use no tools."


class FoundAgent(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    title: str
    how: str
    path: str | None = None
    version: str = ""
    recorded: tuple[str, ...] = ()
    newer: bool = False
    """Whether it is newer than every version that its driver was recorded with."""
    older: bool = False
    """Whether it is older than every one of them."""
    answers: bool | None = None
    """Whether it answered its handshake, or with --ask a prompt. None when it was not asked."""
    account: str | None = None
    """How it is signed in: empty when it is not, None when that cannot be found out."""
    models: tuple[str, ...] = ()
    capabilities: dict[str, Level] = {}
    error: str = ""
    install: str = ""
    notes: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    model_wire: str = ""
    """How its model is reached with what is set here, and where its key is."""
    key: str = ""
    """With which sign-ins its key is outside of its sandbox, and what stays inside."""
    untested: str = ""
    """Why its driver was never tried with the real program."""


@click.group("agents", cls=group_or("look"))
def agents() -> None:
    """List the agents on this machine, or sign in to one.

    \b
    treadle agents                     list them: version, whether each responds, sign-in
    treadle agents claude              show one agent with its capabilities
    treadle agents login qwen          list the ways to sign in to one
    treadle agents new mine            create the skeleton of an extension with your own agent
    """


@agents.command("look")
@click.argument("name", required=False)
@click.option("--losses", metavar="AGENT", help="Show which events this agent's protocol cannot express.")
@click.option("--over", type=click.Choice(list(WIRES)), help="With --losses: when served over this protocol.")
@click.option("--ask", is_flag=True, help="Send each agent a short prompt to test it. This may cost money.")
@json_option
def look_at(name: str | None, losses: str | None, over: str | None, ask: bool, as_json: bool) -> None:
    """List the agents on this machine: version, path, protocol, capabilities.

    Every installed agent is started and asked for its capabilities. Exits with 1 if the named agent does not respond.
    """
    settings = agent_settings()
    if over is not None and losses is None:
        raise ConfigError("--over needs --losses AGENT", hint=f"such as treadle agents --losses claude --over {over}")
    if losses is not None:
        show_losses(losses, over, settings, as_json)
        return
    found = run_async(_look(settings, name, ask))
    if as_json:
        show_json(found)
    else:
        for each in found:
            click.echo(printable(_line(each, whole=name is not None)))
    sys.exit(name is not None and not all(each.answers for each in found))


def installed(settings: Mapping[str, AgentSettings] | None = None, *, greet: bool = False) -> list[FoundAgent]:
    """Look at every agent that is a program: ask for its version, and with `greet` also start and greet it. All of them
    together take at most WHOLE_SECONDS."""
    known = agent_settings() if settings is None else settings
    found = run_async(_look(known, None, False if greet else None, whole=WHOLE_SECONDS))
    return [each for each in found if each.name != "native"]


async def greeted(cwd: str, seconds: float) -> list[FoundAgent]:
    """Start and greet every agent that is installed, in that directory and for at most so long."""
    found = await _look(agent_settings(), None, False, cwd, seconds)
    return [each for each in found if each.name != "native" and each.path is not None]


async def _look(
    settings: Mapping[str, AgentSettings],
    name: str | None,
    ask: bool | None,
    cwd: str | None = None,
    seconds: float = SECONDS,
    whole: float = math.inf,
) -> list[FoundAgent]:
    """With `ask` None the agents are not even greeted. `seconds` is for each of them, `whole` for all."""
    until = time.monotonic() + whole
    names = [card.name for card in cards().values() if not card.prefix]
    names += [each for each in settings if each not in cards()]
    if name is not None:
        find_card(name, settings) if name != "native" else None
        names = [name]
    turns = asyncio.Semaphore(AT_ONCE)

    async def look(each: str) -> FoundAgent:
        async with turns:
            return await _look_at(each, settings, ask, cwd or here(), min(seconds, max(0.0, until - time.monotonic())))

    ours = [] if name not in (None, "native") or ask is None else [_native()]
    return [*ours, *await asyncio.gather(*(look(each) for each in names if each != "native"))]


def _native() -> FoundAgent:
    return FoundAgent(
        name="native",
        title="our own agent",
        how="in this process",
        version=__version__,
        path=sys.executable,
        answers=True,
        capabilities=dict(CAPABILITIES),
    )


async def _look_at(
    name: str, settings: Mapping[str, AgentSettings], ask: bool | None, cwd: str, seconds: float
) -> FoundAgent:
    card, _ = find_card(name, settings)
    about = FoundAgent(
        name=name,
        title=card.title,
        how=card.how,
        recorded=card.recorded,
        capabilities=card.capabilities,
        install=card.install,
        notes=card.notes,
        environment=card.environment,
        key=sign_ins(card),
        untested=card.untested,
    )
    try:
        agent = find_driver(name, settings)
        if not isinstance(agent, DrivenAgent):
            return msgspec.structs.replace(about, error="nothing to look at before it is used")
        path = shutil.which(agent.launch.argv[0])
        if path is None:
            return msgspec.structs.replace(about, error=f"not installed: {card.install}", answers=None)
        about = msgspec.structs.replace(about, path=path, model_wire=agent.wire_in_words(cwd))
        async with asyncio.timeout(seconds):
            version = await agent.version()
            about = msgspec.structs.replace(
                about,
                version=version,
                newer=newer(version, card.recorded),
                older=older(version, card.recorded),
            )
            return about if ask is None else await _greet(agent, about, ask, cwd)
    except TimeoutError:
        return msgspec.structs.replace(about, answers=False, error=f"no answer within {seconds:.0f} s")
    except AuthFailed as error:
        return msgspec.structs.replace(about, answers=False, account="", error=str(error))
    except TreadleError as error:
        return msgspec.structs.replace(about, answers=False, error=str(error))


async def _greet(agent: DrivenAgent, about: FoundAgent, ask: bool, cwd: str) -> FoundAgent:
    session = await agent.open(SessionSpec.of(cwd=cwd, mode="plan", persist=False, routine=("unsaved",)))
    try:
        account = await session.account() if isinstance(session, DrivenSession) else None
        about = msgspec.structs.replace(about, answers=True, models=session.info.models, account=account)
        if ask:
            async for event in run_turn(session, QUESTION):
                if isinstance(event, TurnEnded) and event.outcome != "completed":
                    outcome = event.error.message if event.error else event.outcome
                    about = msgspec.structs.replace(about, answers=False, error=outcome)
        return about
    finally:
        await session.close()


def _line(found: FoundAgent, *, whole: bool) -> str:
    if found.path is None:
        state = found.error
    elif found.answers:
        account = {None: "answers", "": "answers, not signed in"}.get(found.account, f"answers, {found.account}")
        state = f"{account}{'; ' + ', '.join(found.models) if found.models else ''}"
    else:
        state = f"does not answer: {found.error}" if found.error else ""
    newer_than = f" (newer than our recordings: {found.recorded[-1]})" if found.newer else ""
    newer_than = newer_than or (f" (older than our recordings: {found.recorded[0]})" if found.older else "")
    newer_than += " (untested)" if found.untested else ""
    lines = [f"{found.name:10} {found.version or '-':10}{newer_than} {state}"]
    if whole:
        lines += [f"  {found.path or ''}", f"  driven by {found.how}"]
        lines += [f"  {what}: {text}" for what, text in (("model", found.model_wire), ("key", found.key)) if text]
        lines += [f"  sees {', '.join(found.environment)}"] if found.environment else []
        for level in ("native", "emulated", "unsupported"):
            if names := [name for name, each in found.capabilities.items() if each == level]:
                lines.append(f"  {level:12} {', '.join(names)}")
        lines += [f"  {note}" for note in (*found.notes, *filter(None, [found.untested]))]
    return "\n".join(lines)


def show_losses(name: str, over: str | None, settings: Mapping[str, AgentSettings], as_json: bool) -> None:
    found = rows(NOTHING if name == "native" else find_card(name, settings)[0].losses, over)
    if as_json:
        show_json(found)
        return
    for row in found:
        click.echo(f"{row.name:24} {row.level:9} {row.why}".rstrip())


# A recorded run again, without its model service: `treadle replay RUN` and `treadle agents check`.


def replay(run: str, *, in_place: bool, as_json: bool) -> int:
    """The exit code: 1 when the agent does not ask what it asked then. Without a run, the recordings are listed."""
    if not run:
        _list_recordings(as_json)
        return 0
    return int(not _again([run], None, in_place, as_json))


@click.command("check")
@click.argument("name")
@click.option("--against", "runs", multiple=True, required=True, metavar="RUN", help="A recorded run. Repeatable.")
@click.option("--in-place", is_flag=True, help="Replay even if the directory has changed since the run began.")
@json_option
def check(name: str, runs: tuple[str, ...], in_place: bool, as_json: bool) -> None:
    """Replay recorded runs with the installed version of an agent and report changed model requests."""
    sys.exit(not _again(runs, name, in_place, as_json))


def _list_recordings(as_json: bool) -> None:
    found = list(recordings())
    if as_json:
        show_json(found)
        return
    for one in found:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(one.at))
        first = (one.prompts or ("no prompt",))[0].splitlines()[0][:60]
        click.echo(printable(f"{one.id}  {when}  {one.agent} {one.version}  {one.cwd}  {first}"))
    if not found:
        click.echo("no recordings yet; make one: treadle -p --agent NAME --record PROMPT")


def _again(runs: tuple[str, ...] | list[str], name: str | None, in_place: bool, as_json: bool) -> bool:
    """Whether every run was the same."""
    results = []
    for id in runs:
        record = CallReplay(id)
        if name is not None and record.run.agent != name:
            raise ConfigError(f"{id} is a run of {record.run.agent}, not of {name}")
        if not in_place:
            _unchanged(record)
        outcome, version = run_async(_played(record))
        same = not record.differences and not record.unasked and outcome == "completed"
        results.append(same)
        facts: dict[str, Any] = {"run": id, "agent": record.run.agent, "recorded": record.run.version, "now": version}
        facts |= {"outcome": outcome, "same": same, "calls": record.answered, "not_asked": record.unasked}
        facts |= {"differences": record.differences, "normalised": sorted(record.normalised)}
        show_json(facts) if as_json else _show_replay(facts)
    return all(results)


def _show_replay(facts: dict[str, Any]) -> None:
    words = "the same" if facts["same"] else f"not the same ({facts['outcome']})"
    click.echo(f"{facts['run']}: {facts['calls']} calls of {facts['agent']} {facts['now']}: {words}")
    for difference in facts["differences"]:
        click.echo(printable(f"  {difference}"))
    if facts["not_asked"]:
        click.echo(f"  {facts['not_asked']} recorded calls were not made")
    click.echo(f"  not compared: {', '.join(facts['normalised']) or 'nothing'}")


def _unchanged(record: CallReplay) -> None:
    """Refuse to work in a directory that is not as it was."""
    user = UserRepository.around(record.run.cwd) if os.path.isdir(record.run.cwd) else None
    if user is None or not record.run.base:
        raise ConfigError(f"{record.run.cwd} is not a git checkout, so its earlier state is unknown", hint="--in-place")
    head = user.run("rev-parse", "HEAD").stdout.decode().strip()
    changed = user.run(f"--work-tree={user.top}", "status", "--porcelain").stdout
    if head != record.run.base or changed:
        why = "has changes" if changed else f"is at {head[:12]}"
        raise ConfigError(
            f"{user.top} {why}; the run began at {record.run.base[:12]}, unchanged",
            hint=f"git stash -u; git checkout {record.run.base[:12]}; or --in-place",
        )


async def _played(record: CallReplay) -> tuple[str, str]:
    """The outcome of the last turn, and the version of the agent."""
    mode: Mode | None = record.run.mode  # type: ignore[assignment]  # as it was given
    spec = SessionSpec(cwd=record.run.cwd, model=record.run.model, mode=mode, replay=record, confinement=Confinement())
    session = await find_agent(record.run.agent).open(spec)
    outcome = "completed"
    try:
        for prompt in record.run.prompts:
            async for event in run_turn(session, prompt):
                if isinstance(event, TurnEnded):
                    outcome = event.outcome
        return outcome, session.info.version
    finally:
        await session.close()


for _command in (login, new, check):
    agents.add_command(_command)
