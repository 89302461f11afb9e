"""`treadle share`."""

import sys

from treadle.cli.arguments import Arguments, UsageError
from treadle.cli.terminal import duration, show
from treadle.errors import ConfigError, NotFound

SHARE_HELP = """Make a link with which others watch one terminal in a browser, and nothing else, until it expires.

    treadle share ID [--for 1h] [--json]
    treadle share --list [--json]
    treadle share --revoke SHARE

Who has the link sees the screen and can type nothing. It works until it expires (at most 7 days), the program ends, or
it is taken back. The page must be served: `treadle serve`, and for others than this machine with --host and TLS.

  --for TIME      how long it works: 90s, 5m, 2h30m, 1d (1h)
  --list          the links that have not expired
  --revoke SHARE  take one back; who watches with it sees nothing more
"""


def share_command(arguments: list[str]) -> int:
    given = Arguments(arguments, "--for --revoke", "--list --json")
    from treadle.serve.tokens import SHARE_MAX, SHARE_SECONDS, Tokens

    tokens = Tokens()
    if share := given.get("--revoke"):
        gone = tokens.unshare(share)
        sys.stdout.write(f"{gone.terminal} is no longer shared by {gone.id}\n")
        return 0
    if "--list" in given.flags:
        return _list(tokens.shares(), "--json" in given.flags)
    if len(given.rest) != 1:
        raise UsageError("expected one id")
    seconds = duration(given.values["--for"]) if "--for" in given.values else SHARE_SECONDS
    if seconds > SHARE_MAX:
        raise ConfigError("a link to a terminal works for at most 7 days", hint="make a new one then")
    return _make(given.rest[0], seconds, "--json" in given.flags)


def _make(name: str, seconds: float, as_json: bool) -> int:
    from treadle.serve import running
    from treadle.serve.tokens import SHARE_PAGE, Tokens
    from treadle.terminal.client import Client
    from treadle.terminal.places import default_directory, find

    server = running.find()
    if server is None:
        raise NotFound("no page is served here", hint="`treadle serve` serves it")
    place = find(server.terminals or default_directory(), name)
    with Client(place.sock) as client:
        started = str(client.detail()["started"])
    made, code = Tokens().share(place.id, started, seconds)
    url = f"{server.address}{SHARE_PAGE}#{code}"
    if as_json:
        show({"id": made.id, "url": url, "expires": made.expires})
    else:
        sys.stdout.write(f"{url}\n")
    return 0


def _list(found: "tuple[object, ...]", as_json: bool) -> int:
    import time

    from treadle.cli.terminal.ls import span

    rows = [{key: getattr(each, key) for key in ("id", "terminal", "created", "expires")} for each in found]
    if as_json:
        show(rows)
        return 0
    if not rows:
        sys.stdout.write("No terminal is shared\n")
    for row in rows:
        left = span(int((row["expires"] - time.time()) * 1000))
        sys.stdout.write(f"{row['id']}  {row['terminal']}  {left} left\n")
    return 0
