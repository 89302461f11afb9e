"""treadle coord allow: let an agent act against another's claim, once"""

from treadle.cli.heimdall import Arguments, UsageError, err, out
from treadle.coordination import allowing
from treadle.coordination.planning import Planning

ALLOW_HELP = """treadle coord allow: let an agent act against another's claim, once

treadle coord allow [--minutes N]
    for a person: prints a code for the agent to have as HEIMDALL_ALLOW. With it, one `release --force`, one commit or
    push with HEIMDALL_GUARD_BYPASS, or one command under another session's identity is not refused; N is 10 by default
"""


def allow_command(arguments: list[str]) -> int:
    args = Arguments(arguments, "--minutes")
    minutes = args.get("--minutes") or "10"
    if args.rest or not (minutes.isascii() and minutes.isdecimal() and 1 <= int(minutes) <= 1440):
        raise UsageError("expected [--minutes N], 1 to 1440")
    out(allowing.grant(Planning(), int(minutes)))
    err(f"valid once, for {minutes} minutes: {allowing.VARIABLE}=CODE in the agent's command")
    err("  an agent that runs without a sandbox could have made this itself: without one, claims are advice")
    return 0
