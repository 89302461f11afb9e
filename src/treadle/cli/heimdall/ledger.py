"""heimdall-ledger: what every message and spawn cost, in tokens, by role"""

import os
import sys

from treadle.cli.heimdall import Arguments, UsageError, err, out
from treadle.coordination.ledger import Ledger, LedgerTotals, delta_text
from treadle.coordination.planning import Planning, one_line
from treadle.wire.common.jsontext import dumps

LEDGER_HELP = """heimdall-ledger: what every message and spawn cost, in tokens, by role

heimdall-ledger log --role R --kind K (--tokens N | --count FILE) [--msg-id M] [--source S] [--run ID]
    add a line; --source says where the number is from: measured (by the provider), estimated, counted or declared
    --count estimates the tokens of a file (`-`: standard input) from its text instead
heimdall-ledger baseline --role R --tokens N     keep the number to beat
heimdall-ledger report [--run ID] [--json]       tokens by role
heimdall-ledger delta [--role R] [--run ID] [--json]     against the baselines
HEIMDALL_RUN sets the run that lines are logged for, and that report and delta are about; --run '' is all of them.
"""


def ledger_command(arguments: list[str]) -> int:
    args = Arguments(arguments, "--role --kind --tokens --count --msg-id --source --run", "--json")
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
    from treadle.coordination.planning import read_text
    from treadle.errors import NotFound
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
