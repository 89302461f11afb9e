"""`heimdall-ledger` and `heimdall-protocol`: token use of messages and spawns, the trail, and the savings."""

import os
import sys

from treadle.cli.heimdall.dispatch import run
from treadle.cli.heimdall.table import COMMANDS, Arguments, UsageError, err, out, small
from treadle.coordination.ledger import Ledger, LedgerTotals, delta_text
from treadle.coordination.planning import Planning, one_line, read_text
from treadle.errors import NotFound
from treadle.wire.common.jsontext import dumps

# heimdall-ledger: token use of messages and spawns, by role

LEDGER_HELP = """heimdall-ledger: token use of messages and spawns, by role

heimdall-ledger log --role R --kind K (--tokens N | --count FILE) [--msg-id M] [--source S] [--run ID]
    add an entry; --source is the origin of the number: measured (by the provider), estimated, counted or declared
    --count estimates the tokens of a file (`-`: standard input) instead
heimdall-ledger baseline --role R --tokens N     set the baseline
heimdall-ledger report [--run ID] [--json]       tokens by role
heimdall-ledger delta [--role R] [--run ID] [--json]     compare with the baselines
HEIMDALL_RUN sets the run of new entries, reports and deltas; --run '' selects all runs.
"""


@small(
    LEDGER_HELP,
    "--role --kind --tokens --count --msg-id --source --run",
    "--json",
    commands="log baseline report delta",
)
def ledger_command(args: Arguments) -> int:
    ledger = Ledger(Planning())
    run, as_json = args.get("--run", os.environ.get("HEIMDALL_RUN", "")), "--json" in args.flags
    match args.rest:
        case ["log"]:
            _log(ledger, args)
        case ["baseline"]:
            role, tokens = args.need("--role"), args.need("--tokens")
            ledger.baseline(role, tokens)
            out(f"baseline {role} = {tokens} (v1)")
        case ["report"]:
            _report(ledger.report(run), as_json)
        case ["delta"]:
            rows = ledger.delta(args.get("--role"), run)
            if as_json:
                out(dumps(rows, 2))
            else:
                out("token delta (v1 baseline -> measured)")
                for row in rows:
                    out(f"  {one_line(delta_text(row))}")
        case _:
            raise UsageError("expected log, baseline, report or delta")
    return 0


def _log(ledger: Ledger, args: Arguments) -> None:
    role, kind = args.need("--role"), args.need("--kind")
    source = args.get("--source", "declared")
    if "--count" in args.values:
        tokens, source = _estimated(args.values["--count"]), "estimated"
    else:
        tokens = args.need("--tokens")
    ledger.log(role, kind, tokens, msg_id=args.get("--msg-id"), source=source, run=args.get("--run"))
    out(f"logged {role}/{kind}={tokens}")


def _estimated(path: str) -> str:
    from treadle.sessions.tokens import estimate

    text = sys.stdin.buffer.read().decode(errors="replace") if path == "-" else read_text(path)
    if text is None:
        raise NotFound(f"no file {path}")
    return str(estimate(text))


def _report(totals: LedgerTotals, as_json: bool) -> None:
    if as_json:
        roles = {role: {"tokens": tokens, "messages": count} for role, (tokens, count) in sorted(totals.roles.items())}
        sources = dict(sorted(totals.sources.items()))
        out(dumps({"roles": roles, "total": totals.total, "sources": sources, "unreadable": totals.unreadable}, 2))
        return
    out("token ledger (tokens by role)")
    for role, (tokens, count) in sorted(totals.roles.items()):
        out(f"  {one_line(role)}: {tokens} tokens ({count} msgs)")
    out(f"  TOTAL: {totals.total} tokens")
    if totals.unreadable:
        err(f"heimdall-ledger: {totals.unreadable} unreadable line(s) skipped")


# heimdall-protocol: set up, read the log, measure the savings, or run any other command

PROTOCOL_HELP = """heimdall-protocol: set up, read the log, measure the savings, or run any other command

heimdall-protocol init [--mcp]       create the planning directory; --mcp: also .mcp.json, for MCP hosts
heimdall-protocol log [N]            the last N lines of the log (default: 20)
heimdall-protocol demo [--keep DIR]
    compare the tokens of one wave's briefs, verbatim and by reference, with and without later reads; --keep stores the
    texts
heimdall-protocol NAME ...           the same as heimdall-NAME ...: validate, resolve, capsule, brief, blackboard,
                                     ledger, gate, claim, haid, ledger-mcp
"""


@small(PROTOCOL_HELP, "--keep", "--mcp", commands="init log demo", whole=True)
def protocol_command(arguments: list[str]) -> int:
    if not arguments:
        raise UsageError("expected a command")
    command, *rest = arguments
    if command in COMMANDS and command != "protocol":
        return run(command, rest)
    if command == "init":
        return _init(rest)
    if command == "log":
        return _trail(rest)
    if command == "demo":
        return _demo(rest)
    raise UsageError(f"unknown command {command}")


def _demo(rest: list[str]) -> int:
    from treadle.coordination.demo import demo

    args = Arguments(rest, "--keep")
    args.exactly(0, "no arguments")
    for line in demo(args.get("--keep")):
        out(line)
    return 0


def _init(rest: list[str]) -> int:
    from treadle.coordination.hosts import init, write_mcp_config

    args = Arguments(rest, flags="--mcp")
    args.exactly(0, "no arguments")
    planning = Planning()
    init(planning)
    out(f"initialised {planning.root}")
    if "--mcp" in args.flags:
        out(f"wrote {write_mcp_config(planning)}")
    return 0


def _trail(rest: list[str]) -> int:
    args = Arguments(rest)
    number = args.rest[0] if args.rest else "20"
    if len(args.rest) > 1 or not number.isdecimal() or len(number) > 18:
        raise UsageError("expected log [N]")
    from collections import deque

    from treadle.io.files import iter_lines

    for line in deque(iter_lines(Planning().live_path("protocol.log")), int(number)):
        out(line.decode(errors="surrogateescape"))
    return 0
