"""heimdall-brief: all that a spawned agent is told, and never the plan

heimdall-brief build --task ID --spec TEXT [--symbols ID,ID] [--capsules ID,ID] [--invariants PATH[#HEADING]] [--strict]
    prints the task, what its symbols stand for, what it builds on, and where the invariants are
    --budget TOKENS: how much its capsules may take; what does not fit is listed by id
    --strict refuses (exit 1) when a symbol or the invariants lead nowhere; an unknown capsule always does
"""

from __future__ import annotations

from treadle.cli.heimdall import Arguments, UsageError, put
from treadle.cli.heimdall.capsule import budget_of
from treadle.coordination import briefs
from treadle.coordination.planning import Planning


def main(arguments: list[str]) -> int:
    args = Arguments(arguments, "--task --spec --symbols --capsules --invariants --budget", "--strict")
    if args.rest != ["build"]:
        raise UsageError("expected build")
    text = briefs.build(
        Planning(),
        args.need("--task"),
        args.need("--spec"),
        args.get("--symbols"),
        args.get("--capsules"),
        args.get("--invariants"),
        strict="--strict" in args.flags,
        budget=budget_of(args),
    )
    put(text)
    return 0
