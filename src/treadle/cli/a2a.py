"""`treadle a2a`: an agent for others that speak the Agent2Agent protocol."""

import os
import signal
import sys
from typing import Any

import click

from treadle.cli.as_json import json_option, show_json
from treadle.cli.options import confinement, serving_options
from treadle.cli.serving import warner
from treadle.errors import ConfigError, MissingExtra
from treadle.io.process.loop import run_async


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--model", metavar="NAME", help="The model that its conversations use.")
@click.option("--permission-mode", "mode", metavar="MODE", help="suggest, auto-edit, full-auto, plan or yolo.")
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Where to listen.")
@click.option("--port", default=7475, show_default=True, metavar="N", help="0 takes any that is free.")
@click.option("--name", "names", multiple=True, metavar="NAME", help="A name that clients reach this server by.")
@click.option("--tls-cert", default="", metavar="FILE", help="A certificate, for other addresses than loopback.")
@click.option("--tls-key", default="", metavar="FILE", help="Its key, when that is in another file.")
@click.option("--behind-proxy", is_flag=True, help="A proxy on this machine does TLS; give its name with --name.")
@click.option("--webhook-host", "webhooks", multiple=True, metavar="HOST", help="A host that tasks may call back.")
@click.option("--no-token", is_flag=True, help="Let every program on this machine use it, without a token.")
@click.option("--token", "client", default="", metavar="CLIENT", help="Print a token for a client, and end.")
@click.option("--clients", is_flag=True, help="List the clients that hold a token, and end.")
@click.option("--revoke", default="", metavar="CLIENT", help="Take a client's token back, and end.")
@serving_options
@json_option
def a2a(as_json: bool, client: str, clients: bool, revoke: str, **options: Any) -> None:
    """Serve an agent over HTTP to others that speak A2A, the Agent2Agent protocol (1.0 and 0.3).

    \b
      treadle a2a --token laptop              a token for a client of that name
      treadle a2a --agent claude              serve Claude Code in this directory
      treadle a2a --webhook-host ci.example   tasks may tell ci.example of their changes
      treadle -p --agent a2a:http://127.0.0.1:7475 "..."   drive one, with its token in TREADLE_A2A_TOKEN

    The agent's card is at /.well-known/agent-card.json. A conversation of a client is a session here, and a task is
    one turn of it. What the agent asks makes the task `input-required`: the client replies with the task's id. Each
    client sees its own tasks only. More: treadle docs serve-an-agent-over-a2a.
    """
    try:
        from treadle.serve.tokens import Tokens, directory
    except ImportError:
        raise MissingExtra("A2A", "fleet") from None
    tokens = Tokens(os.path.join(directory(), "a2a.json"))
    if revoke:
        gone = tokens.revoke(revoke)
        click.echo(f"{gone.name or gone.id} may do nothing any more", err=True)
    elif clients:
        _list(tokens, as_json)
    elif client:
        made, secret = tokens.make(client, "all")
        show_json({"client": made.name, "token": secret}) if as_json else click.echo(secret)
    else:
        _serve(tokens, as_json, options)


def _list(tokens: Any, as_json: bool) -> None:
    from treadle.cli.fleet.common import age

    found = tokens.read().devices
    if as_json:
        return show_json([{name: getattr(each, name) for name in ("id", "name", "created", "used")} for each in found])
    for each in found:
        click.echo(f"{each.name}  {f'seen {age(each.used)} ago' if each.used else 'never seen'}")


def _serve(tokens: Any, as_json: bool, options: dict[str, Any]) -> None:
    from treadle.agents import find_agent
    from treadle.doors.a2a.door import A2aDoor
    from treadle.doors.a2a.push import Allowed
    from treadle.io.paths import here
    from treadle.policy.addresses import is_loopback
    from treadle.session import SessionSpec, parse_mode
    from treadle.settings import config

    try:
        from treadle.serve.a2a import A2aServer
        from treadle.serve.listening import Listening
        from treadle.serve.server import served
    except ImportError:
        raise MissingExtra("A2A", "fleet") from None

    if options["no_token"] and (options["behind_proxy"] or not is_loopback(options["host"])):
        raise ConfigError("--no-token goes with a loopback address only", hint="treadle a2a --token NAME makes one")
    mode = parse_mode(options["mode"]) if options["mode"] else config.load(here()).settings.mode or "suggest"
    base = SessionSpec(
        cwd=here(),
        model=options["model"],
        mode=mode,
        answers=True,
        confinement=confinement(options["sandbox"], options["network"]),
    )
    agent = find_agent(options["agent"])
    where = {name: options[name] for name in ("host", "port", "names", "tls_cert", "tls_key", "behind_proxy")}
    listening = Listening(**where)

    async def work() -> int:
        door = A2aDoor(
            agent, await agent.probe(), base=base, webhooks=Allowed(options["webhooks"]), warn=warner("treadle a2a")
        )
        server = A2aServer(
            door,
            address=listening.address,
            names=listening.names,
            tokens=None if options["no_token"] else tokens,
        )
        async with served(server, listening) as serving:
            _announce(listening.address, as_json, token=not options["no_token"])
            return await serving

    ended_by = run_async(work())
    sys.exit(128 + ended_by if ended_by == signal.SIGINT else 0)


def _announce(address: str, as_json: bool, *, token: bool) -> None:
    if as_json:
        show_json({"url": f"{address}/"})
    else:
        click.echo(f"{address}/")
        access = "Clients need a token: treadle a2a --token NAME. " if token else "Every program here may use it. "
        click.echo(f"{access}Ctrl-C ends it.", err=True)
    sys.stdout.flush()
