"""`treadle agents`: which agents can be put to work here, how, and what is lost with each."""

import asyncio
import math
import shutil
import sys
import time
from collections.abc import Mapping

import click
import msgspec

from treadle import __version__
from treadle.agent.session import CAPABILITIES
from treadle.agents import agent_settings, find_agent, find_card
from treadle.cli.adding import COMMANDS
from treadle.cli.as_json import json_option, show_json
from treadle.cli.render import printable
from treadle.drivers.agent import DrivenAgent
from treadle.drivers.card import Level, cards, newer, older
from treadle.drivers.session import DrivenSession
from treadle.errors import AuthFailed, ConfigError, TreadleError
from treadle.events import TurnEnded
from treadle.io.paths import here
from treadle.io.process.loop import run_async
from treadle.session import SessionSpec
from treadle.sessions.session import run_turn
from treadle.settings.config import AgentSettings
from treadle.wire.common.losses import NOTHING, WIRES, Row, rows

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
    untested: str = ""
    """Why its driver was never tried with the real program."""


class AgentsGroup(click.Group):
    """`treadle agents` looks, and so does any word after it that is not a command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or args[0] not in (*self.commands, "-h", "--help"):
            args = ["look", *args]
        return super().parse_args(ctx, args)


@click.group("agents", cls=AgentsGroup)
def agents() -> None:
    """List the agents that can be put to work here, add one by name, or sign in to one.

    \b
    treadle agents                     which are here: version, whether each answers, how it is signed in
    treadle agents claude              one of them, with all that it can do
    treadle agents add                 which can be added by name
    treadle agents add auggie          fetch one that is a package, at the version that is listed
    treadle agents login auggie        how to sign in to it
    """


@agents.command("look")
@click.argument("name", required=False)
@click.option("--losses", metavar="AGENT", help="Show what is lost with this agent, event by event.")
@click.option("--over", type=click.Choice(list(WIRES)), help="With --losses: over this wire.")
@click.option("--ask", is_flag=True, help="Give each a short prompt, which may cost money, and see whether it answers.")
@json_option
def look_at(name: str | None, losses: str | None, over: str | None, ask: bool, as_json: bool) -> None:
    """Look at the agents that can be put to work here: version, path, how each is driven, what it can do.

    Each one that is installed is started and greeted, so what is shown is what it says itself. Exits with 1 when the
    agent that was named does not answer.
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
        untested=card.untested,
    )
    try:
        agent = find_agent(name, settings)
        if not isinstance(agent, DrivenAgent):
            return msgspec.structs.replace(about, error="nothing to look at before it is used")
        path = shutil.which(agent.launch.argv[0])
        if path is None:
            return msgspec.structs.replace(about, error=f"not installed: {card.install}", answers=None)
        async with asyncio.timeout(seconds):
            version = await agent.version()
            about = msgspec.structs.replace(
                about,
                path=path,
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
        click.echo(_row(row))


def _row(row: Row) -> str:
    return f"{row.name:24} {row.level:9} {row.why}".rstrip()


for _command in COMMANDS:
    agents.add_command(_command)
