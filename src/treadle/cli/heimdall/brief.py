"""heimdall-brief: all that a spawned agent is told, and never the plan"""

import sys

from treadle.cli.heimdall import Arguments, UsageError, put
from treadle.cli.heimdall.capsule import budget_of
from treadle.coordination import briefs
from treadle.coordination.planning import Planning, read_text
from treadle.errors import NotFound
from treadle.wire.common.jsontext import dumps, loads

BRIEF_HELP = """heimdall-brief: all that a spawned agent is told, and never the plan

heimdall-brief build --task ID --spec TEXT|FILE.md#HEADING [--symbols ID,ID] [--capsules ID,ID]
    [--invariants PATH[#HEADING]] [--budget TOKENS] [--strict]
    prints the task, what its symbols stand for, what it builds on, and where the invariants are
    --spec PLAN.md#HEADING takes that section of the plan, so that no one types it again (a written token costs most)
    --budget TOKENS: how much its capsules may take; what does not fit is listed by id
    --strict refuses (exit 1) when a symbol or the invariants lead nowhere; an unknown capsule always does
heimdall-brief wave FILE [--task ID] [--invariants PATH[#HEADING]] [--budget TOKENS]
    the briefs of several tasks, which all begin with the same text (the invariants themselves, symbols, capsules), so
    that a provider that caches a prompt's beginning takes little for it from the second on
    FILE (or - for stdin): a JSON list of {"task": ID, "spec": TEXT, "symbols": "ID,ID", "capsules": "ID,ID"}
    prints {"shared": TEXT, "briefs": {ID: TEXT}}; with --task ID, that one's brief alone
"""


def brief_command(arguments: list[str]) -> int:
    args = Arguments(arguments, "--task --spec --symbols --capsules --invariants --budget", "--strict")
    if args.rest[:1] == ["wave"] and len(args.rest) == 2:
        return _wave(args, args.rest[1])
    if args.rest != ["build"]:
        raise UsageError("expected build, or wave FILE")
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


def _wave(args: Arguments, path: str) -> int:
    from treadle.coordination.waves import WaveTask, build_wave

    text = sys.stdin.read() if path == "-" else read_text(path)
    if text is None:
        raise NotFound(f"no file {path}")
    try:
        listed = loads(text)
        tasks = [WaveTask(**{key: str(value) for key, value in one.items()}) for one in listed]
    except (ValueError, TypeError, AttributeError) as error:
        raise UsageError(f"{path} is not a list of tasks: {error}") from None
    wave = build_wave(Planning(), tasks, args.get("--invariants"), budget=budget_of(args))
    if wanted := args.get("--task"):
        put(wave.brief(wanted))
    else:
        put(dumps({"shared": wave.shared, "briefs": {one.task: wave.brief(one.task) for one in tasks}}, 2) + "\n")
    return 0
