"""Runs a command by its name, and refuses an identity that was revoked.

In a sandbox each command is sent to our process outside, which does it there (`outside.py`). Only what the agent's own
repository says, such as what is staged there, is found out here. What that takes is loaded on use.
"""

from __future__ import annotations

import sys

from treadle.cli.arguments import exit_code
from treadle.cli.heimdall.table import UsageError, err, find, out
from treadle.errors import ConfigError, NotFound, TreadleError
from treadle.light import TYPE_CHECKING

_ALWAYS = ("haid", "ledger-mcp", "hook")
"""Commands that check identities themselves, because other agents can act through them."""


def run(name: str, arguments: list[str]) -> int:
    """Run one command and return its exit code: 0 done, 1 not found or not valid, 2 wrong usage, 3 held by another."""
    return exit_code(f"heimdall-{name}", lambda: _run(name, arguments))


def _run(name: str, arguments: list[str]) -> int:
    if name == "who":
        return run("claim", ["who", *arguments])
    command = find(name)
    if arguments and arguments[0] in ("-h", "--help", "help"):
        out(command.help)
        return 0
    try:
        from treadle.coordination.repository import sealed_top

        if name != "protocol" and (top := sealed_top()) is not None:
            return relay(name, arguments, top)
        if (arguments[0] if name == "protocol" and arguments else name) not in _ALWAYS:
            _refuse_revoked()
        return command(arguments)
    except UsageError as error:
        if "-h" in arguments or "--help" in arguments:  # after a subcommand, which has no help of its own
            out(command.help)
            return 0
        err(f"heimdall-{name}: {error}\n\n{command.help}")
        return 2
    except TreadleError as error:
        err(error.message if error.message.startswith("COLLISION") else f"heimdall-{name}: {error.message}")
        if error.hint:
            err(f"  {error.hint}")
        return 1 if isinstance(error, NotFound) else 2


def _refuse_revoked() -> None:
    """Refuse a revoked identity. Finding out who acts here starts git, so it is done only if anybody was revoked."""
    from treadle.coordination.planning import Planning, read_text

    planning = Planning()
    if '"revoked"' in (read_text(planning.live_path("ledger", "agents.json")) or ""):
        from treadle.coordination.bindings import acting
        from treadle.coordination.identity import Agents

        Agents(planning).require(acting(planning))


if TYPE_CHECKING:
    import socket

    from treadle.coordination.changes import Made

# Inside a sandbox.

READ_STDIN = ("validate", "hook")


def relay(name: str, arguments: list[str], top: str) -> int:
    """Have a command done outside; returns its exit code. Raises TreadleError when there is no one to do it."""
    if name == "ledger-mcp":
        return _serve(arguments, top)
    from treadle.coordination.relay import RelayRequest, ask

    stdin = _read() if name in READ_STDIN else b""
    try:
        code, out, err = ask(RelayRequest(top, name, arguments, stdin, _changed(name, arguments, stdin)))
    except TreadleError as error:
        if name == "hook":  # a program lets the call go on when its hook only fails
            return _refuse_call(arguments, stdin, failed=error.message)
        raise
    if name == "hook" and code:
        return _refuse_call(arguments, stdin, failed=err.decode(errors="replace").strip())
    sys.stdout.buffer.write(out)
    sys.stdout.buffer.flush()
    sys.stderr.buffer.write(err)
    sys.stderr.buffer.flush()
    return code


def _read() -> bytes:
    from treadle.coordination.relay import LARGEST

    data = sys.stdin.buffer.read(LARGEST)
    if len(data) == LARGEST:
        raise ConfigError(f"standard input has more than {LARGEST >> 20} MiB, the limit for requests from a sandbox")
    return data


def _refuse_call(arguments: list[str], stdin: bytes, *, failed: str) -> int:
    from treadle.cli.heimdall.hook import run_hook

    return run_hook(arguments, stdin, failed=failed)


def _changed(name: str, arguments: list[str], stdin: bytes) -> list[Made] | None:
    from treadle.io.paths import here

    if name == "claim" and arguments[:1] == ["guard"] and len(arguments) > 1:
        from treadle.coordination import hooks

        if arguments[1] in hooks.HOOKS:
            lines = sys.stdin.read().splitlines() if arguments[1] == "pre-push" else []
            return hooks.changed(here(), arguments[1], lines)
    if name == "hook" and b"commit" in stdin:
        from treadle.coordination import changes

        return [("", changes.staged_changes(here()))]
    return None


def _serve(arguments: list[str], top: str) -> int:
    """The ledger server: from its answer on, both directions are passed through."""
    from treadle.coordination.relay import LISTENING, RelayRequest, connect, line_from, parse_answer
    from treadle.coordination.repository import sealed_top

    args = find("ledger-mcp").read(arguments)
    asked = sealed_top(args.get("--project") or None) or top
    with connect(RelayRequest(asked, "ledger-mcp", ["--extended"] if "--extended" in args.flags else [])) as there:
        if (line := line_from(there)) != LISTENING:
            code, _, err = parse_answer(line)
            sys.stderr.buffer.write(err)
            return code
        there.settimeout(None)
        return _pass_on(there)


def _pass_on(there: socket.socket) -> int:
    import os
    import select
    import socket

    sources = [0, there.fileno()]
    while there.fileno() in sources:
        for ready in select.select(sources, [], [])[0]:
            data = os.read(0, 1 << 16) if ready == 0 else there.recv(1 << 16)
            if not data:
                sources.remove(ready)
                if ready == 0:
                    there.shutdown(socket.SHUT_WR)
            elif ready == 0:
                there.sendall(data)
            else:
                sys.stdout.buffer.write(data)
                sys.stdout.buffer.flush()
    return 0 if 0 not in sources else 2
