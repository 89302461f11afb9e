"""heimdall-protocol: set up, read the trail, measure the savings; and every other command by its name"""

from treadle.cli.heimdall import COMMANDS, Arguments, UsageError, out, run
from treadle.coordination.planning import Planning, read_text
from treadle.errors import NotFound

PROTOCOL_HELP = """heimdall-protocol: set up, read the trail, measure the savings; and every other command by its name

heimdall-protocol init [--mcp]       make the planning directory; --mcp: and .mcp.json, for any MCP host
heimdall-protocol log [N]            the last N lines of the trail (20)
heimdall-protocol demo [--keep DIR]
    brief one wave verbatim and by reference, and count both, with and without what its readers then read; what was
    counted can be kept to be read
heimdall-protocol demo --plan FILE
    the same for a plan of your own: each of its innermost sections is a task, briefed with the whole plan or alone,
    with its sections on rules in both; also at the prices of a cached prompt, and with what the orchestrator writes
heimdall-protocol NAME ...           the same as heimdall-NAME ...: validate, resolve, capsule, brief, blackboard,
                                     ledger, gate, claim, haid, ledger-mcp
"""


def protocol_command(arguments: list[str]) -> int:
    if not arguments:
        raise UsageError("expected a command")
    command, *rest = arguments
    if command in COMMANDS and command != "protocol":
        return run(command, rest)
    if command == "init":
        return _init(rest)
    if command == "log":
        return _log(rest)
    if command == "demo":
        return _demo(rest)
    raise UsageError(f"unknown command {command}")


def _demo(rest: list[str]) -> int:
    from treadle.coordination.demo import demo

    args = Arguments(rest, "--keep --plan")
    args.exactly(0, "no arguments")
    if name := args.get("--plan"):
        from treadle.coordination.plan_demo import measure

        if args.get("--keep"):
            raise UsageError("--keep is for the built-in plan")
        plan = read_text(name)
        if plan is None:
            raise NotFound(f"there is no file {name}")
        lines = measure(plan, name)
    else:
        lines = demo(args.get("--keep"))
    for line in lines:
        out(line)
    return 0


def _init(rest: list[str]) -> int:
    from treadle.coordination.setup import init, write_mcp_config

    args = Arguments(rest, flags="--mcp")
    args.exactly(0, "no arguments")
    planning = Planning()
    init(planning)
    out(f"initialised {planning.root}")
    if "--mcp" in args.flags:
        out(f"wrote {write_mcp_config(planning)}")
    return 0


def _log(rest: list[str]) -> int:
    args = Arguments(rest)
    number = args.rest[0] if args.rest else "20"
    if len(args.rest) > 1 or not number.isdecimal() or len(number) > 18:
        raise UsageError("expected log [N]")
    from collections import deque

    from treadle.io.files import iter_lines

    for line in deque(iter_lines(Planning().live_path("protocol.log")), int(number)):
        out(line.decode(errors="surrogateescape"))
    return 0
