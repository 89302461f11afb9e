"""heimdall-haid: agent identities of a repository"""

import os

from treadle.cli.heimdall.table import Arguments, UsageError, err, out, small
from treadle.coordination.bindings import acting
from treadle.coordination.identity import Agents, checked, spawn
from treadle.coordination.planning import Planning
from treadle.errors import NotFound
from treadle.wire.common.jsontext import dumps

HAID_HELP = """heimdall-haid: agent identities of a repository

heimdall-haid [current]                     print the current identity
heimdall-haid spawn ROLE                    print a new identity with that role, without registering it
heimdall-haid register [--role R] [--haid H] [--tool T]      register or renew an identity and print it
heimdall-haid heartbeat [HAID]              report that it is alive
heimdall-haid revoke HAID                   revoke its rights
heimdall-haid reinstate HAID                restore its rights
heimdall-haid check [HAID]                  exit 0 if registered and not revoked, else 3
heimdall-haid list [--json]                 all identities
heimdall-haid get [HAID]                    its entry as JSON; null when there is none
heimdall-haid trailer                       the trailer line for commits
"""


@small(
    HAID_HELP,
    "--role --haid --tool --tool-version",
    "--json",
    commands="current spawn register heartbeat revoke reinstate check list get trailer",
)
def haid_command(args: Arguments) -> int:
    planning = Planning()
    agents = Agents(planning)
    command, *rest = args.rest or ["current"]
    if command in _CHANGES and (acting := os.environ.get("HEIMDALL_HAID")):
        agents.require(acting)
    if command == "spawn":
        if len(rest) != 1:
            raise UsageError("expected spawn ROLE")
        haid = spawn(planning.project, rest[0])
        planning.note("haid", "spawn", haid)
        out(haid)
        return 0
    if command == "list" and not rest:
        return _list(agents, "--json" in args.flags)
    if len(rest) > 1 or command not in _ACTIONS:
        raise UsageError(f"unknown command {' '.join(args.rest)}")
    haid = checked(rest[0] if rest else args.get("--haid") or _own(planning, command))
    try:
        return _act(agents, command, haid, args)
    except NotFound as error:
        err(f"heimdall-haid: {error}")
        return 2


_CHANGES = {"spawn", "register", "revoke", "reinstate"}
"""What a revoked identity may not do, even to others."""
_ACTIONS = {"current", "register", "heartbeat", "revoke", "reinstate", "check", "get", "trailer"}


def _own(planning: Planning, command: str) -> str:
    if command in ("revoke", "reinstate"):
        raise UsageError(f"expected {command} HAID")
    return acting(planning)


def _act(agents: Agents, command: str, haid: str, args: Arguments) -> int:
    if command in ("current", "trailer", "get", "check"):
        agents.planning.note("haid", command, haid)
    if command == "current":
        out(haid)
    elif command == "register":
        agents.register(haid, args.get("--role"), args.get("--tool"), args.get("--tool-version"))
        out(haid)
    elif command == "trailer":
        out(f"Heimdall-Agent: {haid}")
    elif command == "get":
        out(dumps(agents.get(haid), 2))
    elif command == "check":
        known = agents.get(haid) is not None and not agents.revoked(haid)
        out(f"{haid} {'active' if known else 'revoked' if agents.revoked(haid) else 'unknown'}")
        return 0 if known else 3
    else:
        {"heartbeat": agents.heartbeat, "revoke": agents.revoke, "reinstate": agents.reinstate}[command](haid)
        out(f"{command} {haid}")
    return 0


def _list(agents: Agents, as_json: bool) -> int:
    known = agents.all()
    agents.planning.note("haid", "list", str(len(known)))
    if as_json:
        out(dumps([{"haid": haid, **entry} for haid, entry in known.items()], 2))
        return 0
    for haid, entry in known.items():
        out(f"{haid}\t{entry['status']}\t{entry.get('role', '')}\t{entry.get('last_heartbeat', '')}")
    return 0
