"""`treadle a2a`, `acp`, `app-server`, `door`, `mcp`, `sidecar`, `worker`: an agent offered to another program."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from treadle.cli.as_json import json_option, show_json
from treadle.cli.options import PORT, F, confinement, serving_options
from treadle.cli.serving import serve, serve_http, warner
from treadle.cli.sidecar_entry import serve as serve_sidecar
from treadle.cli.worker_entry import serve as serve_worker
from treadle.errors import ConfigError, MissingExtra

if TYPE_CHECKING:
    from treadle.session import Agent, SessionSpec

HELP = {"help_option_names": ["-h", "--help"]}
MODES = "suggest, auto-edit, full-auto, plan or yolo."


def session_options(model: str, mode: str = MODES) -> Callable[[F], F]:
    """`--model` and `--permission-mode`, with these helps; `offered` makes use of them."""

    def added(command: F) -> F:
        command = click.option("--permission-mode", "mode", metavar="MODE", help=mode)(command)
        return click.option("--model", metavar="NAME", help=model)(command)

    return added


def offered(options: dict[str, Any], *, default: bool = False, **more: Any) -> tuple[Agent, SessionSpec]:
    """The agent, and what its sessions are opened with. `default`: they have a mode, also if none is named."""
    from treadle.agents import find_agent
    from treadle.io.paths import here
    from treadle.session import SessionSpec, parse_mode
    from treadle.settings import config

    mode = parse_mode(options["mode"]) if options["mode"] else None
    if default and mode is None:
        mode = config.load(here()).settings.mode or "suggest"
    confined = confinement(options["sandbox"], options["network"])
    base = SessionSpec(cwd=here(), model=options["model"], mode=mode, confinement=confined, **more)
    return find_agent(options["agent"]), base


# `treadle a2a`: an agent for others that speak the Agent2Agent protocol.


@click.command(context_settings=HELP)
@session_options("The model for its conversations.")
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Where to listen.")
@click.option("--port", type=PORT, default=7475, show_default=True, metavar="N", help="0: any free port.")
@click.option("--name", "names", multiple=True, metavar="NAME", help="A host name that clients use for this server.")
@click.option("--tls-cert", default="", metavar="FILE", help="TLS certificate. Required beyond loopback.")
@click.option("--tls-key", default="", metavar="FILE", help="The certificate's key, if it is in another file.")
@click.option(
    "--behind-proxy", is_flag=True, help="A proxy on this machine terminates TLS; give its host name with --name."
)
@click.option("--no-token", is_flag=True, help="Require no token: every program on this machine may connect.")
@click.option("--token", "client", default="", metavar="CLIENT", help="Print a token for a client and exit.")
@click.option("--clients", is_flag=True, help="List the clients with a token and exit.")
@click.option("--revoke", default="", metavar="CLIENT", help="Revoke a client's token and exit.")
@serving_options
@json_option
def a2a(as_json: bool, client: str, clients: bool, revoke: str, **options: Any) -> None:
    """Serve an agent over HTTP with A2A, the Agent2Agent protocol.

    \b
      treadle a2a --token laptop              print a token for the client `laptop`
      treadle a2a --agent claude              serve Claude Code in this directory
      treadle -p --agent a2a:http://127.0.0.1:7475 "..."   use an A2A agent; its token is in TREADLE_A2A_TOKEN

    The agent's card is at /.well-known/agent-card.json. Each conversation is a session, and each task is one turn of
    it. A question from the agent sets the task to `input-required`; the client replies with the task's id. A client
    sees only its own tasks. More: treadle docs a2a.
    """
    try:
        from treadle.serve.tokens import Tokens, directory
    except ImportError:
        raise MissingExtra("A2A", "fleet") from None
    tokens = Tokens(os.path.join(directory(), "a2a.json"))
    if revoke:
        gone = tokens.revoke(revoke)
        click.echo(f"{gone.name or gone.id} has no access any more", err=True)
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
    from treadle.doors.a2a.door import A2aDoor
    from treadle.policy.network import is_loopback

    try:
        from treadle.serve.agents import A2aServer
        from treadle.serve.listening import Listening
    except ImportError:
        raise MissingExtra("A2A", "fleet") from None

    if options["no_token"] and (options["behind_proxy"] or not is_loopback(options["host"])):
        raise ConfigError("--no-token needs a loopback address", hint="treadle a2a --token NAME makes one")
    agent, base = offered(options, default=True, answers=True)
    where = {name: options[name] for name in ("host", "port", "names", "tls_cert", "tls_key", "behind_proxy")}
    listening = Listening(**where)
    asked = None if options["no_token"] else tokens

    async def server() -> A2aServer:
        door = A2aDoor(agent, await agent.probe(), base=base, warn=warner("treadle a2a"))
        return A2aServer(door, address=listening.address, names=listening.names, tokens=asked)

    serve_http(server, listening, lambda: _announce(listening.address, as_json, token=asked is not None))


def _announce(address: str, as_json: bool, *, token: bool) -> None:
    if as_json:
        show_json({"url": f"{address}/"})
    else:
        click.echo(f"{address}/")
        access = "Clients need a token: treadle a2a --token NAME. " if token else "Every program here may use it. "
        click.echo(f"{access}Ctrl-C ends it.", err=True)


# `treadle acp`: an agent for editors that speak the Agent Client Protocol.


@click.command(context_settings=HELP)
@session_options("The model for new sessions.")
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
def acp(port: int | None, **options: Any) -> None:
    """Serve an agent to an editor over the Agent Client Protocol (stdin and stdout).

    Your editor starts this command. In Zed's settings.json:

    \b
      "agent_servers": {
        "Treadle": { "command": "treadle", "args": ["acp"] },
        "Codex through Treadle": { "command": "treadle", "args": ["acp", "--agent", "codex"] }
      }

    The editor shows permission requests with their diff. It can switch the mode, load earlier sessions and run slash
    commands. Only protocol messages are written to stdout. With --http it serves ws://127.0.0.1:7476/acp instead; get
    a client's token from `treadle serve --token`. More: treadle docs use-treadle-from-an-editor.
    """
    from treadle.doors.acp.door import AcpDoor

    agent, base = offered(options)
    warn = warner("treadle acp")

    def door(stream: Any) -> AcpDoor:
        return AcpDoor(agent, stream, base=base, warn=warn)

    if port is None:
        sys.exit(serve(lambda stream: door(stream).run()))
    _serve_over_http(door, port)


def _serve_over_http(door: Any, port: int) -> None:
    try:
        from treadle.serve.agents import ACP_PATH, AcpServer
        from treadle.serve.listening import Listening
        from treadle.serve.tokens import Tokens
    except ImportError:
        raise MissingExtra("ACP over HTTP", "fleet") from None
    listening = Listening(port=port)

    async def server() -> AcpServer:
        return AcpServer(door, address=listening.address, names=listening.names, tokens=Tokens())

    def announce() -> None:
        click.echo(f"{listening.address.replace('http', 'ws', 1)}{ACP_PATH}")
        click.echo("Clients need a token: treadle serve --token. Ctrl-C ends it.", err=True)

    serve_http(server, listening, announce)


# `treadle app-server`: an agent for programs that drive Codex's app-server.


@click.command("app-server", context_settings=HELP)
@session_options("The model for new threads.")
@click.option("--listen", default="stdio://", metavar="URL", help="Only stdio:// is supported.")
@click.option("--config", "-c", multiple=True, metavar="KEY=VALUE", hidden=True)
@serving_options
def app_server(listen: str, config: tuple[str, ...], **options: Any) -> None:
    """Serve any agent in place of `codex app-server`, for the Codex SDK and editors.

    Programs that drive Codex start this when their Codex path is set to `treadle`:

    \b
      from openai_codex import Codex, CodexConfig
      codex = Codex(CodexConfig(codex_bin="/path/of/treadle"))

    Choose the agent with TREADLE_AGENT or --agent. The client answers approvals. More: treadle docs app-server.
    """
    from treadle.doors.codex.door import AppServerDoor

    if listen != "stdio://":
        raise ConfigError(f"--listen {listen} is not supported", hint="stdio:// is")
    warn = warner("treadle app-server")
    for entry in config:
        warn(f"--config {entry.partition('=')[0]} is not used here")
    agent, base = offered(options, looks_freely=True)
    sys.exit(serve(lambda stream: AppServerDoor(agent, stream, base=base, warn=warn).run()))


# `treadle door`: an agent over a protocol of another distribution.


@click.command(context_settings=HELP)
@click.argument("name")
@session_options("The model for new sessions.")
@serving_options
def door(name: str, **options: Any) -> None:
    """Serve an agent over a protocol that an installed extension adds.

    `treadle extensions` lists them. To write one: treadle docs add-a-door.
    """
    from treadle.settings import extensions

    made = extensions.load("doors", name, type)
    if made is None:
        raise ConfigError(f"no installed extension adds the door {name!r}", hint="treadle extensions lists them")
    agent, base = offered(options)
    sys.exit(serve(lambda stream: made(agent, stream).run(base)))


# `treadle mcp`: agents as tools of an MCP server.


@click.command(context_settings=HELP)
@session_options(
    "The model for runs, unless the client names one.",
    "The highest mode that runs may use. [default: that of the settings, or suggest]",
)
@serving_options
def mcp(**options: Any) -> None:
    """Serve agents as tools of an MCP server (stdin and stdout).

    Any MCP client can then use any agent in this directory with the tools run, start, status, read, answer and cancel.

    \b
      claude mcp add treadle -- treadle mcp --agent codex
      codex mcp add treadle -- treadle mcp --agent claude

    A client cannot exceed --permission-mode or leave this directory. Permission requests go to the person at the client
    if the client supports that, else to its model, which uses `answer`. Only protocol messages are written to stdout.
    More: treadle docs mcp-door.
    """
    from treadle.agents import find_agent
    from treadle.doors.mcp.door import McpDoor

    _, base = offered(options, default=True, answers=True)  # a wrong name is reported now, to the person
    warn = warner("treadle mcp")
    sys.exit(serve(lambda stream: McpDoor(find_agent, options["agent"], stream, base=base, warn=warn).run()))


# `treadle sidecar`: an agent for a control plane that speaks abp.


@click.command(context_settings=HELP)
@serving_options
def sidecar(agent: str, sandbox: bool | None, network: str | None) -> None:
    """Serve an agent to an abp/v0.1 control plane: one JSON object per line on stdin and stdout.

    It sends hello, accepts orders one at a time, and answers each with events and a receipt. After the end of input,
    the current order is finished. To register it with a control plane, add to its backplane.toml:

    \b
      [backends.treadle]
      type = "sidecar"
      command = "treadle-sidecar"
      args = []

    The model and its key come from the order or the environment. Only protocol messages are written to stdout. The
    protocol: treadle docs sidecar-protocol. To run a sidecar: treadle host run.
    """
    sys.exit(serve_sidecar(agent, sandbox=sandbox, network=network))


# `treadle worker`: an agent as a process that another program owns.


@click.command(context_settings=HELP)
@serving_options
def worker(agent: str, sandbox: bool | None, network: str | None) -> None:
    """Serve an agent as a worker: one JSON object per line on stdin and stdout.

    A program starts it, writes requests, and reads events and results. By hand:

    \b
      printf '%s\\n' \\
        '{"type":"init","id":"1","config":{"model":"MODEL","system_prompt":"","tools":[]}}' \\
        '{"type":"send","id":"2","message":"Say hello."}' \\
        '{"type":"shutdown","id":"3"}' | treadle worker

    The API key and base URL come from the environment (OPENROUTER_API_KEY, HEDDLE_BASE_URL, or those of other
    providers). HEDDLE_HEARTBEAT_INTERVAL sets the milliseconds between heartbeats, HEDDLE_APPROVAL_MODE the permission
    mode. Only protocol messages are written to stdout. The protocol: treadle docs worker-protocol.
    """
    sys.exit(serve_worker(agent, sandbox=sandbox, network=network))
