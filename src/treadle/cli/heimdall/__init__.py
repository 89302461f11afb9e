"""The `heimdall-*` commands: `claim_command` is `heimdall-claim`.

This module holds what they share and imports nothing heavy.
"""

import os
import sys
from collections.abc import Callable

from treadle.cli.arguments import COMPLETE, Small, exit_code, found
from treadle.cli.arguments import Arguments as Arguments
from treadle.cli.arguments import UsageError as UsageError
from treadle.cli.arguments import small as small
from treadle.errors import NotFound, TreadleError

COMMANDS = {
    "validate": "check a typed message",
    "resolve": "short ids for artifacts",
    "capsule": "what was done, in at most ten lines",
    "brief": "what a spawned agent is told",
    "blackboard": "facts that are found out once",
    "ledger": "what every message and spawn cost",
    "gate": "a gate's report as a message",
    "claim": "who may change what",
    "haid": "who is who",
    "protocol": "set up, read the trail, measure the savings",
    "ledger-mcp": "all of it for any MCP client",
}

OF_TREADLE = {
    "setup": "have Claude Code, Codex, Gemini CLI, opencode or Cursor claim, and be bound by claims",
    "who": "who is here, on what, since when, who waits for whom",
    "hook": "what their hooks run before a tool call",
    "message": "typed messages between agents and people",
    "allow": "let an agent act against another's claim, once",
}
"""Commands that exist only under `treadle coord`."""


MODULES = {
    "resolve": "context",
    "capsule": "context",
    "blackboard": "context",
    "brief": "context",
    "validate": "messages",
    "message": "messages",
    "gate": "messages",
    "protocol": "ledger",
    "allow": "claim",
}
"""Commands that are in a module of another name."""


def out(text: str) -> None:
    """Print to standard output in UTF-8, whatever the locale. Input bytes that are not UTF-8 come out unchanged."""
    put(text + "\n")


def put(text: str) -> None:
    sys.stdout.buffer.write(_bytes(text))


def err(text: str) -> None:
    sys.stderr.buffer.write(_bytes(text) + b"\n")
    sys.stderr.buffer.flush()


def _bytes(text: str) -> bytes:
    try:
        return text.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return text.encode(errors="backslashreplace")


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
            inside = __import__("treadle.cli.heimdall.inside", fromlist=["relay"])  # it imports this module
            return int(inside.relay(name, arguments, top))
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


def find(name: str) -> Small:
    name = name.replace("-", "_")
    return found(f"treadle.cli.heimdall.{MODULES.get(name, name)}", name)


_ALWAYS = ("haid", "ledger-mcp", "hook")
"""Commands that check identities themselves, because other agents can act through them."""


def _refuse_revoked() -> None:
    """Refuse a revoked identity. Finding out who acts here starts git, so it is done only if anybody was revoked."""
    from treadle.coordination.planning import Planning, read_text

    planning = Planning()
    if '"revoked"' in (read_text(planning.live_path("ledger", "agents.json")) or ""):
        from treadle.coordination.bindings import acting
        from treadle.coordination.identity import Agents

        Agents(planning).require(acting(planning))


def _entry(name: str) -> Callable[[], None]:
    """The executable `heimdall-NAME`. It exits without Python's own cleanup, which takes a tenth of the time."""

    def main() -> None:
        from treadle.io.process import lifetime

        if COMPLETE in os.environ:
            help_ = __import__("treadle.cli.help", fromlist=["complete"])  # it imports this module
            lifetime.leave(exit_code(f"heimdall-{name}", lambda: help_.complete(f"heimdall-{name}") or 0))
        lifetime.leave(run(name, sys.argv[1:]))

    return main


validate, resolve, capsule, brief, blackboard, ledger, gate, claim, haid, protocol, ledger_mcp = map(_entry, COMMANDS)
