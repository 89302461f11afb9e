"""The `heimdall-*` commands. Each is one module here; this one is all that they share, and it imports nothing heavy."""

from __future__ import annotations

import os
import sys

from treadle.cli.arguments import Arguments as Arguments
from treadle.cli.arguments import Usage as Usage
from treadle.cli.arguments import exit_code
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


def out(text: str) -> None:
    """Print to standard output, in UTF-8 whatever the locale is; bytes that came in as they are go out so."""
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
    """Run one command and give its exit code: 0 done, 1 not found or not valid, 2 wrongly used, 3 somebody else's."""
    return exit_code(lambda: _run(name, arguments))


def _run(name: str, arguments: list[str]) -> int:
    import importlib

    module = importlib.import_module(f"treadle.cli.heimdall.{name.replace('-', '_')}")
    help_text = (module.__doc__ or "").strip()
    if arguments and arguments[0] in ("-h", "--help", "help"):
        out(help_text)
        return 0
    try:
        if name != "haid" and "HEIMDALL_HAID" in os.environ:
            _refuse_revoked()
        code = module.main(arguments)
        assert isinstance(code, int)
        return code
    except Usage as error:
        err(f"heimdall-{name}: {error}\n\n{help_text}")
        return 2
    except BrokenPipeError:
        raise
    except OSError as error:
        err(f"heimdall-{name}: {error}")
        return 2
    except TreadleError as error:
        err(error.message if error.message.startswith("COLLISION") else f"heimdall-{name}: {error.message}")
        if error.hint:
            err(f"  {error.hint}")
        return 1 if isinstance(error, NotFound) else 2


def _refuse_revoked() -> None:
    from treadle.coordination.identity import Agents, checked
    from treadle.coordination.planning import Planning

    Agents(Planning()).require(checked(os.environ["HEIMDALL_HAID"]))


def validate() -> None:
    sys.exit(run("validate", sys.argv[1:]))


def resolve() -> None:
    sys.exit(run("resolve", sys.argv[1:]))


def capsule() -> None:
    sys.exit(run("capsule", sys.argv[1:]))


def brief() -> None:
    sys.exit(run("brief", sys.argv[1:]))


def blackboard() -> None:
    sys.exit(run("blackboard", sys.argv[1:]))


def ledger() -> None:
    sys.exit(run("ledger", sys.argv[1:]))


def gate() -> None:
    sys.exit(run("gate", sys.argv[1:]))


def claim() -> None:
    sys.exit(run("claim", sys.argv[1:]))


def haid() -> None:
    sys.exit(run("haid", sys.argv[1:]))


def protocol() -> None:
    sys.exit(run("protocol", sys.argv[1:]))


def ledger_mcp() -> None:
    sys.exit(run("ledger-mcp", sys.argv[1:]))
