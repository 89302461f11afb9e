"""`treadle a2a`, `acp`, `app-server`, `door`, `mcp`, `sidecar`, `worker`: an agent offered to another program."""

import os
import signal
import sys
from typing import Any

import click

from treadle.cli.as_json import json_option, show_json
from treadle.cli.options import PORT, confinement, serving_options
from treadle.cli.serving import serve, warner
from treadle.cli.sidecar_entry import serve as serve_sidecar
from treadle.cli.worker_entry import serve as serve_worker
from treadle.errors import ConfigError, MissingExtra
from treadle.io.process.loop import run_async

# `treadle a2a`: an agent for others that speak the Agent2Agent protocol.


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--model", metavar="NAME", help="The model that its conversations use.")
@click.option("--permission-mode", "mode", metavar="MODE", help="suggest, auto-edit, full-auto, plan or yolo.")
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Where to listen.")
@click.option("--port", type=PORT, default=7475, show_default=True, metavar="N", help="0 takes any that is free.")
@click.option("--name", "names", multiple=True, metavar="NAME", help="A name that clients reach this server by.")
@click.option("--tls-cert", default="", metavar="FILE", help="A certificate, for other addresses than loopback.")
@click.option("--tls-key", default="", metavar="FILE", help="Its key, when that is in another file.")
@click.option("--behind-proxy", is_flag=True, help="A proxy on this machine does TLS; give its name with --name.")
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
      treadle -p --agent a2a:http://127.0.0.1:7475 "..."   drive one, with its token in TREADLE_A2A_TOKEN

    The agent's card is at /.well-known/agent-card.json. A conversation of a client is a session here, and a task is
    one turn of it. What the agent asks makes the task `input-required`: the client replies with the task's id. Each
    client sees its own tasks only. More: treadle docs a2a.
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
    from treadle.io.paths import here
    from treadle.policy.network import is_loopback
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
        door = A2aDoor(agent, await agent.probe(), base=base, warn=warner("treadle a2a"))
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


# `treadle acp`: an agent for editors that speak the Agent Client Protocol.


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--model", metavar="NAME", help="The model that new sessions use.")
@click.option("--permission-mode", "mode", metavar="MODE", help="suggest, auto-edit, full-auto, plan or yolo.")
@click.option(
    "--http",
    "port",
    is_flag=False,
    flag_value=7476,
    type=PORT,
    metavar="[PORT]",
    help="Serve over WebSockets on this machine, for clients with a token. [default port: 7476]",
)
@serving_options
def acp(
    agent: str, sandbox: bool | None, network: str | None, model: str | None, mode: str | None, port: int | None
) -> None:
    """Serve an agent on stdin and stdout to an editor that speaks the Agent Client Protocol.

    Your editor starts this; tell it the command. In Zed's settings.json:

    \b
      "agent_servers": {
        "Treadle": { "command": "treadle", "args": ["acp"] },
        "Codex through Treadle": { "command": "treadle", "args": ["acp", "--agent", "codex"] }
      }

    The editor is asked for permissions, with the diff, and can switch the mode, load earlier sessions and run slash
    commands. Nothing but the protocol is ever written to stdout. With --http it is ws://127.0.0.1:7476/acp instead;
    `treadle serve --token` prints a client's token. More: treadle docs use-treadle-from-an-editor.
    """
    from treadle.agents import find_agent
    from treadle.doors.acp.door import AcpDoor
    from treadle.io.paths import here
    from treadle.session import SessionSpec, parse_mode

    confined = confinement(sandbox, network)
    given = parse_mode(mode) if mode else None
    base = SessionSpec(cwd=here(), model=model, mode=given, confinement=confined)
    found = find_agent(agent)

    warn = warner("treadle acp")

    def door(stream: Any) -> AcpDoor:
        return AcpDoor(found, stream, base=base, warn=warn)

    if port is None:
        sys.exit(serve(lambda stream: door(stream).run()))
    _serve_over_http(door, port)


def _serve_over_http(door: Any, port: int) -> None:
    try:
        from treadle.serve.acp import PATH, AcpServer
        from treadle.serve.listening import Listening
        from treadle.serve.server import served
        from treadle.serve.tokens import Tokens
    except ImportError:
        raise MissingExtra("ACP over HTTP", "fleet") from None
    listening = Listening(port=port)

    async def work() -> int:
        server = AcpServer(door, address=listening.address, names=listening.names, tokens=Tokens())
        async with served(server, listening) as serving:
            click.echo(f"{listening.address.replace('http', 'ws', 1)}{PATH}")
            click.echo("Clients need a token: treadle serve --token. Ctrl-C ends it.", err=True)
            sys.stdout.flush()
            return await serving

    ended_by = run_async(work())
    sys.exit(128 + ended_by if ended_by == signal.SIGINT else 0)


# `treadle app-server`: an agent for programs that drive Codex's app-server.


@click.command("app-server", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--model", metavar="NAME", help="The model that new threads use.")
@click.option("--permission-mode", "mode", metavar="MODE", help="suggest, auto-edit, full-auto, plan or yolo.")
@click.option("--listen", default="stdio://", metavar="URL", help="stdio:// is all that there is.")
@click.option("--config", "-c", multiple=True, metavar="KEY=VALUE", hidden=True)
@serving_options
def app_server(
    agent: str,
    sandbox: bool | None,
    network: str | None,
    model: str | None,
    mode: str | None,
    listen: str,
    config: tuple[str, ...],
) -> None:
    """Serve an agent on stdin and stdout as `codex app-server` serves Codex, for its SDK and editors.

    Programs that drive Codex start this when they are told that `treadle` is the program of Codex:

    \b
      from openai_codex import Codex, CodexConfig
      codex = Codex(CodexConfig(codex_bin="/path/of/treadle"))

    TREADLE_AGENT or --agent names the agent. The client decides about approvals. More: treadle docs app-server.
    """
    from treadle.agents import find_agent
    from treadle.doors.codex.door import AppServerDoor
    from treadle.io.paths import here
    from treadle.session import SessionSpec, parse_mode

    if listen != "stdio://":
        raise ConfigError(f"--listen {listen} is not offered here", hint="stdio:// is")
    warn = warner("treadle app-server")
    for entry in config:
        warn(f"--config {entry.partition('=')[0]} is not used here")
    given = parse_mode(mode) if mode else None
    confined = confinement(sandbox, network)
    base = SessionSpec(cwd=here(), model=model, mode=given, looks_freely=True, confinement=confined)
    found = find_agent(agent)
    sys.exit(serve(lambda stream: AppServerDoor(found, stream, base=base, warn=warn).run()))


# `treadle door`: an agent over a protocol of another distribution.


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("name")
@click.option("--model", metavar="NAME", help="The model that new sessions use.")
@click.option("--permission-mode", "mode", metavar="MODE", help="suggest, auto-edit, full-auto, plan or yolo.")
@serving_options
def door(name: str, agent: str, sandbox: bool | None, network: str | None, model: str | None, mode: str | None) -> None:
    """Serve an agent on stdin and stdout over a door that another distribution adds.

    `treadle extensions` lists them. To write one: treadle docs add-a-door.
    """
    from treadle.agents import find_agent
    from treadle.io.paths import here
    from treadle.session import SessionSpec, parse_mode
    from treadle.settings import extensions

    made = extensions.load("doors", name, type)
    if made is None:
        raise ConfigError(f"no distribution here has a door {name!r}", hint="treadle extensions lists them")
    given = parse_mode(mode) if mode else None
    base = SessionSpec(cwd=here(), model=model, mode=given, confinement=confinement(sandbox, network))
    found = find_agent(agent)
    sys.exit(serve(lambda stream: made(found, stream).run(base)))


# `treadle mcp`: agents as tools of an MCP server.


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--model", metavar="NAME", help="The model of runs, unless the client names one.")
@click.option(
    "--permission-mode",
    "mode",
    metavar="MODE",
    help="The most that runs may do without asking. [default: that of the settings, or suggest]",
)
@serving_options
def mcp(agent: str, sandbox: bool | None, network: str | None, model: str | None, mode: str | None) -> None:
    """Serve agents on stdin and stdout as tools of an MCP server.

    Any MCP client can then put any agent to work in this directory: run, start, status, read, answer, cancel.

    \b
      claude mcp add treadle -- treadle mcp --agent codex
      codex mcp add treadle -- treadle mcp --agent claude

    A client cannot ask for more than --permission-mode allows, nor for a directory outside of this one. What needs a
    permission is asked: of the person at the client where the client can ask them, else of its model, with `answer`.
    Nothing but the protocol is ever written to stdout. More: treadle docs mcp-door.
    """
    from treadle.agents import find_agent
    from treadle.doors.mcp.door import McpDoor
    from treadle.io.paths import here
    from treadle.session import SessionSpec, parse_mode
    from treadle.settings import config

    most = parse_mode(mode) if mode else config.load(here()).settings.mode or "suggest"
    confined = confinement(sandbox, network)
    base = SessionSpec(cwd=here(), model=model, mode=most, answers=True, confinement=confined)
    find_agent(agent)  # report a wrong name now, to the person, and not later to the client's model
    warn = warner("treadle mcp")
    sys.exit(serve(lambda stream: McpDoor(find_agent, agent, stream, base=base, warn=warn).run()))


# `treadle sidecar`: an agent for a control plane that speaks abp.


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@serving_options
def sidecar(agent: str, sandbox: bool | None, network: str | None) -> None:
    """Serve an agent on stdin and stdout to a control plane that speaks abp/v0.1, one JSON object per line.

    It says hello, takes orders one after the other, and answers each with events and a receipt. The end of input means
    that no more orders come; the one under way is finished. To let a control plane start it, name it in its
    backplane.toml:

    \b
      [backends.treadle]
      type = "sidecar"
      command = "treadle-sidecar"
      args = []

    The model and its key come from the order or from the environment. Nothing but the protocol is ever written to
    stdout. The protocol: treadle docs sidecar-protocol. To be the control plane yourself: treadle host run.
    """
    sys.exit(serve_sidecar(agent, sandbox=sandbox, network=network))


# `treadle worker`: an agent as a process that another program owns.


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@serving_options
def worker(agent: str, sandbox: bool | None, network: str | None) -> None:
    """Serve an agent on stdin and stdout, one JSON object per line.

    A program starts this, writes requests, and reads events and results. Try it by hand:

    \b
      printf '%s\\n' \\
        '{"type":"init","id":"1","config":{"model":"MODEL","system_prompt":"","tools":[]}}' \\
        '{"type":"send","id":"2","message":"Say hello."}' \\
        '{"type":"shutdown","id":"3"}' | treadle worker

    The key and the model's address come from the environment (OPENROUTER_API_KEY, HEDDLE_BASE_URL, or those of other
    providers). HEDDLE_HEARTBEAT_INTERVAL sets the milliseconds between heartbeats, HEDDLE_APPROVAL_MODE what runs
    unasked. Nothing but the protocol is ever written to stdout. The protocol: treadle docs worker-protocol.
    """
    sys.exit(serve_worker(agent, sandbox=sandbox, network=network))
