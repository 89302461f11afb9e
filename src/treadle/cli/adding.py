"""`treadle agents add`, `login` and `refresh`: agents by name from the registry of the Agent Client Protocol."""

import asyncio
import shlex
import time
from typing import IO, Any

import click
from msgspec.structs import replace

from treadle.agents import agent_settings, find_agent, find_card
from treadle.cli.as_json import json_option, show_json
from treadle.cli.render import printable
from treadle.drivers import install, registry
from treadle.drivers.acp.driver import AcpAgent
from treadle.drivers.acp.signing import SignIn
from treadle.drivers.card import cards
from treadle.errors import ConfigError, TreadleError
from treadle.io.process.loop import run_async

GREETING_SECONDS = 90.0
SIGN_IN_SECONDS = 600.0


@click.command("add")
@click.argument("name", required=False)
@click.option("--version", "version", metavar="VERSION", help="This release, instead of the one that is listed.")
@json_option
def add(name: str | None, version: str | None, as_json: bool) -> None:
    """Fetch an agent that the registry lists, and make it an agent of yours; without NAME, list what can be added.

    It is fetched by npm or pip at the version that is listed, below our own state directory, without running any
    script of its package. One that is a download and not a package is refused. It then stands in your settings as
    [agents.NAME], and --agent NAME uses it. What it can do is what it says itself.
    """
    listed = registry.registry()
    if name is None:
        _show(listed, as_json)
        return
    own = registry.OWN.get(name, name)
    if own in cards() and not cards()[own].untested:
        raise ConfigError(f"{own} has a card of its own", hint=f"{cards()[own].install}, then --agent {own}")
    wanted = listed.find(name)
    if wanted.source == "download" and own in cards():
        title = f"{wanted.title} is a download, not a package, so it is not fetched"
        raise ConfigError(title, hint=f"install it yourself; --agent {own} then finds {cards()[own].program} on PATH")
    wanted = replace(wanted, version=version) if version else wanted
    if not as_json and wanted.package:
        click.echo(f"fetching {wanted.package} {wanted.version} ({wanted.source})...")
    made = install.install(wanted)
    from treadle.settings.edit import keep_agent

    path = keep_agent(name, _settings(wanted, made.command))
    problem, methods = run_async(_greeted(name))
    if as_json:
        found = {"name": name, "version": made.version, "command": made.command, "settings": path, "error": problem}
        show_json({**found, "sign_in": methods})
    else:
        click.echo(f"{name} {made.version} is in {path}")
        click.echo(printable(f"it does not answer: {problem}" if problem else _answers(name, methods)))
    if problem:
        raise SystemExit(1)


def _settings(agent: registry.ListedAgent, command: str) -> dict[str, Any]:
    """What `[agents.NAME]` says: only the command, if a card of ours has the rest."""
    settings: dict[str, Any] = {"command": shlex.join([command])}
    if agent.name not in cards():
        settings |= {"speaks": "acp", "arguments": [*agent.arguments]}
        settings |= {"writes": [*agent.writes]} if agent.writes else {}
    return {**settings, "set": agent.sets} if agent.sets else settings


def _answers(name: str, methods: tuple[SignIn, ...]) -> str:
    signing = f"; `treadle agents login {name}` shows how to sign in" if methods else ""
    return f"it answers{signing}; try: treadle -p --agent {name} 'hello'"


async def _greeted(name: str) -> tuple[str, tuple[SignIn, ...]]:
    """What is wrong with it, and how one can sign in."""
    agent = find_agent(name, agent_settings())
    assert isinstance(agent, AcpAgent)
    try:
        async with asyncio.timeout(GREETING_SECONDS), agent.greeted() as session:
            return "", session.methods
    except TimeoutError:
        return f"no answer within {GREETING_SECONDS:g} s", ()
    except TreadleError as error:
        return str(error), ()


def _show(listed: registry.AgentRegistry, as_json: bool) -> None:
    if as_json:
        show_json(listed)
        return
    click.echo(f"the registry of {listed.date}:")
    for each in listed.agents:
        how = "a download: not fetched" if each.source == "download" else f"{each.source} {each.package}"
        if each.turned:
            how += f", completed a turn {each.turned}"
        elif each.package:
            seen = f"greeted {each.greeted}" if each.greeted else "not tried"
            how += f", {seen}{': ' if each.untried else ''}{each.untried}"
        click.echo(printable(f"{each.name:16} {each.version:12} {each.title:18} {how}"))


@click.command("login")
@click.argument("name")
@click.argument("method", required=False)
@json_option
def login(name: str, method: str | None, as_json: bool) -> None:
    """Sign in to an agent by one of the methods that it offers; without METHOD, list them.

    Of agents that speak the Agent Client Protocol. Others are signed in to by their own program.
    """
    settings = agent_settings()
    agent = find_agent(name, settings)
    if not isinstance(agent, AcpAgent):
        hint = "it uses a key, or a model of this machine: `treadle models use`"
        if name != "native":
            hint = f"run `{find_card(name, settings)[0].program}` and sign in there"
        raise ConfigError(f"{name} is not signed in to from here", hint=hint)
    methods = run_async(_sign_in(agent, method))
    if as_json:
        show_json(methods)
    elif method is not None:
        click.echo(f"signed in to {name} by {method}")
    else:
        for each in methods:
            click.echo(printable(_line(name, agent, each)))
        if not methods:
            click.echo(f"{name} offers no way to sign in from here")


def _line(name: str, agent: AcpAgent, method: SignIn) -> str:
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
                raise ConfigError(f"{wanted} is done in a terminal", hint=_line(agent.name, agent, method))
            await session.sign_in(wanted)
        return session.methods


@click.command("refresh")
@click.argument("file", type=click.File("rb"))
@json_option
def refresh(file: IO[bytes], as_json: bool) -> None:
    """Read the registry anew from FILE, its `registry.json` as it is published; - reads stdin.

    What this release came with is a copy of one day. Agents that were added before stay as they are.
    """
    made = registry.refresh(file.read(), time.strftime("%Y-%m-%d"))
    show_json(made) if as_json else click.echo(f"{len(made.agents)} agents, of {made.date}")


COMMANDS = (add, login, refresh)
