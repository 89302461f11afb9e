"""Runs a command by its name, in a sandbox through our process outside, and refuses an identity that was revoked."""

from treadle.cli.arguments import exit_code
from treadle.cli.heimdall.table import UsageError, err, find, out
from treadle.errors import NotFound, TreadleError

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
            from treadle.cli.heimdall.inside import relay

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
