"""`treadle serve`: the page and the HTTP interface."""

import os
import signal
import sys
from typing import Any

import click

from treadle.cli.as_json import json_option, show_json
from treadle.cli.options import PORT
from treadle.errors import MissingExtra
from treadle.io.process.loop import run_async


@click.command("serve")
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Where to listen.")
@click.option("--port", type=PORT, default=7474, show_default=True, metavar="N", help="0: any free port.")
@click.option("--unix", default="", metavar="SOCKET", help="Listen on a Unix socket instead.")
@click.option("--name", "names", multiple=True, metavar="NAME", help="A host name that browsers use for this server.")
@click.option("--tls-cert", default="", metavar="FILE", help="TLS certificate. Required beyond loopback.")
@click.option("--tls-key", default="", metavar="FILE", help="The certificate's key, if it is in another file.")
@click.option(
    "--behind-proxy", is_flag=True, help="A proxy on this machine terminates TLS; give its host name with --name."
)
@click.option(
    "--terminals", default="", metavar="DIR", help="Directory of the terminals. Default: that of `treadle ls`."
)
@click.option(
    "--notify",
    multiple=True,
    metavar="TARGET",
    help="Send a notification when something needs you: URL, command:PROGRAM, env:NAME.",
)
@click.option("--right", type=click.Choice(["watch", "answer", "all"]), default="all", help="Permissions of the link.")
@click.option("--link", is_flag=True, help="Print a new link to the running server and exit.")
@click.option("--token", is_flag=True, help="Print a token for scripts and exit.")
@click.option("--devices", is_flag=True, help="List the devices with a token and exit.")
@click.option("--revoke", default="", metavar="DEVICE", help="Revoke a device's token and exit.")
@json_option
def serve(as_json: bool, link: bool, token: bool, devices: bool, revoke: str, right: Any, **options: Any) -> None:
    """Serve the web page and HTTP API for the fleet and the terminals.

    \b
    treadle serve                        print a single-use link to open
    treadle serve --link --right watch   print a link for read-only access
    treadle serve --host 0.0.0.0 --tls-cert fleet.pem --name fleet.example
    treadle serve --link --right answer  print a link for a phone
    treadle serve --devices; treadle serve --revoke NAME

    \b
    --notify accepts https://..., command:PROGRAM, or env:NAME to read a secret target from a variable.

    Without a fleet it shows only the terminals; it finds a fleet that starts later.
    """
    from treadle.serve import background
    from treadle.serve.tokens import Tokens

    tokens = Tokens()
    if revoke:
        gone = tokens.revoke(revoke)
        click.echo(f"{gone.name or gone.id} has no access any more", err=True)
    elif devices:
        _devices(tokens, as_json)
    elif token:
        made, secret = tokens.make("script", right)
        show_json({"device": made.id, "right": right, "token": secret}) if as_json else click.echo(secret)
    elif link:
        url = background.link(tokens, right)
        show_json({"url": url}) if as_json else click.echo(url)
    else:
        _serve(tokens, right, as_json, options)


def _devices(tokens: Any, as_json: bool) -> None:
    from treadle.cli.fleet.common import age, table

    found = tokens.read().devices
    if as_json:
        fields = ("id", "name", "right", "created", "used")
        return show_json([{name: getattr(each, name) for name in fields} for each in found])
    rows = [["DEVICE", "RIGHT", "SEEN", "NAME"]]
    for each in found:
        rows.append([each.id, each.right, f"{age(each.used)} ago" if each.used else "never", each.name or "-"])
    table(rows)


def _serve(tokens: Any, right: Any, as_json: bool, options: dict[str, Any]) -> None:
    try:
        from treadle.fleet import keeper
        from treadle.serve import server as _  # noqa: F401
    except ImportError:
        raise MissingExtra("the page and the HTTP interface", "fleet") from None
    with keeper.left_alone("page"):
        ended_by = _serve_here(tokens, right, as_json, options)
    sys.exit(128 + ended_by if ended_by == signal.SIGINT else 0)


def _serve_here(tokens: Any, right: Any, as_json: bool, options: dict[str, Any]) -> int:
    from treadle.serve import background
    from treadle.serve.listening import Listening
    from treadle.serve.server import WebServer, served

    terminals, notify = options.pop("terminals"), options.pop("notify")
    found = background.find()
    if found is not None and found.background:
        click.echo("Stopping the page that `treadle fleet up` started.", err=True)
        background.end(found)
    listening = Listening(**options)

    async def work() -> int:
        server = WebServer(
            address=listening.address,
            names=listening.names,
            terminals=terminals,
            tokens=tokens,
            notify=notify,
        )
        async with served(server, listening) as serving:
            with background.noted(listening.address, listening.unix, terminals=os.path.abspath(server.site.terminals)):
                _announce(tokens, listening, right, as_json)
                return await serving

    return run_async(work())


def _announce(tokens: Any, listening: Any, right: Any, as_json: bool) -> None:
    url = f"{listening.address}/#{tokens.link('', right)}"
    if as_json:
        show_json({"url": url, "port": listening.port, "unix": listening.unix})
    else:
        click.echo(f"Open this link, once, within ten minutes:\n  {url}")
        if listening.unix:
            click.echo(f"It listens on {listening.unix}", err=True)
        click.echo("Ctrl-C ends it.", err=True)
    sys.stdout.flush()
