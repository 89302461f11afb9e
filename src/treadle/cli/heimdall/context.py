"""`heimdall-resolve`, `-capsule`, `-blackboard` and `-brief`: what agents are told, by reference."""

import sys

from treadle.cli.heimdall.table import Arguments, UsageError, out, put, small
from treadle.coordination import briefs
from treadle.coordination.capsules import Capsules
from treadle.coordination.ledger import Blackboard, Symbols
from treadle.coordination.planning import Planning, one_line, read_text
from treadle.errors import NotFound
from treadle.wire.common.jsontext import dumps, loads

# heimdall-resolve: short ids for long texts

RESOLVE_HELP = """heimdall-resolve: short ids for long texts

heimdall-resolve set ID VALUE        store VALUE under ID
heimdall-resolve ID                  print the value of ID (exit 1: unknown)
heimdall-resolve lookup ID           the same, also for an ID named like a command
heimdall-resolve --reverse VALUE     print the first ID that stands for exactly VALUE
heimdall-resolve list [--json]       print all, ID and VALUE with a tab between
"""


@small(RESOLVE_HELP, "--reverse", "--json", commands="set lookup list")
def resolve_command(args: Arguments) -> int:
    symbols = Symbols(Planning())
    if "--reverse" in args.values:
        out(symbols.reverse(args.values["--reverse"]))
        return 0
    if not args.rest:
        raise UsageError("expected an id or a command")
    command, *rest = args.rest
    if command == "set":
        if len(rest) != 2:
            raise UsageError("expected set ID VALUE")
        symbols.set(*rest)
        out(f"{rest[0]} = {rest[1]}")
    elif command == "list" and not rest:
        show_table(symbols.all(), "--json" in args.flags)
    elif command == "lookup" and len(rest) == 1:
        out(symbols.get(rest[0]))
    elif not rest:
        out(symbols.get(command))
    else:
        raise UsageError(f"unknown command {command}")
    return 0


def show_table(entries: dict[str, str], as_json: bool) -> None:
    if as_json:
        out(dumps(entries, 2))
        return
    for key, value in entries.items():
        out(f"{key}\t{one_line(value)}")


# heimdall-capsule: summaries of finished work, at most ten lines each

CAPSULE_HELP = """heimdall-capsule: summaries of finished work, at most ten lines each

heimdall-capsule write ID --what TEXT [--where TEXT] [--decision TEXT] [--gotcha TEXT] [--depends ID,ID]
    store a capsule; more than ten lines are refused (exit 2)
heimdall-capsule hydrate ID...       print capsules with their dependencies first
heimdall-capsule deps ID             print only their ids
heimdall-capsule show ID             print one
heimdall-capsule list [--json]       print all ids
heimdall-capsule remove ID           delete one (after deleting only its file, by git or by hand, it is restored)
"""


@small(
    CAPSULE_HELP,
    "--what --where --decision --gotcha --depends",
    "--json",
    commands="write hydrate deps show list remove",
)
def capsule_command(args: Arguments) -> int:
    capsules = Capsules(Planning())
    match args.rest:
        case ["write", name]:
            named = {name[2:]: value for name, value in args.values.items()}
            for option, value in named.items():
                if not value and option != "depends":
                    raise UsageError(f"--{option} needs a value that is not empty")
            lines = capsules.write(name, args.need("--what"), **{k: v for k, v in named.items() if k != "what"})
            out(f"wrote capsule {name} ({lines} lines)")
        case ["hydrate", *names] if names:
            put(capsules.hydrate(names))
        case ["deps", name]:
            put("".join(f"{need}\n" for need in capsules.deps(name)))
        case ["show", name]:
            put(capsules.show(name))
        case ["remove", name]:
            capsules.remove(name)
            out(f"removed capsule {name}")
        case ["list"]:
            _list(capsules.ids(), "--json" in args.flags)
        case _:
            raise UsageError("expected write ID, hydrate ID..., deps ID, show ID, remove ID or list")
    return 0


def _list(ids: list[str], as_json: bool) -> None:
    if as_json:
        out(dumps(ids, 2))
    else:
        put("".join(f"{name}\n" for name in ids))


# heimdall-blackboard: facts shared between agents

BLACKBOARD_HELP = """heimdall-blackboard: facts shared between agents

heimdall-blackboard set KEY VALUE    store a fact; the last writer wins
heimdall-blackboard get KEY          print it (exit 1: unknown)
heimdall-blackboard del KEY          forget it
heimdall-blackboard list [--json]    print all, KEY and VALUE with a tab between
"""


@small(BLACKBOARD_HELP, flags="--json", commands="set get del list")
def blackboard_command(args: Arguments) -> int:
    board = Blackboard(Planning())
    match args.rest:
        case ["set", key, value]:
            board.set(key, value)
            out(f"{key} = {value}")
        case ["get", key]:
            out(board.get(key))
        case ["del", key]:
            board.delete(key)
            out(f"deleted {key}")
        case ["list"]:
            show_table(board.all(), "--json" in args.flags)
        case _:
            raise UsageError("expected set KEY VALUE, get KEY, del KEY or list")
    return 0


# heimdall-brief: the prompt of a spawned agent, without the plan

BRIEF_HELP = """heimdall-brief: the prompt of a spawned agent, without the plan

heimdall-brief build --task ID --spec TEXT|FILE.md#HEADING [--symbols ID,ID] [--capsules ID,ID]
    [--invariants PATH[#HEADING]] [--strict]
    prints the task, its symbols' values, its dependencies, and the path of the invariants
    --spec PLAN.md#HEADING copies that section of the plan
    --strict fails (exit 1) on an unknown symbol or invariant; an unknown capsule always fails
heimdall-brief wave FILE [--task ID] [--invariants PATH[#HEADING]]
    the briefs of several tasks with the same beginning (invariants, symbols, capsules), for prompt caching
    FILE (or - for stdin): a JSON list of {"task": ID, "spec": TEXT, "symbols": "ID,ID", "capsules": "ID,ID"}
    prints {"shared": TEXT, "briefs": {ID: TEXT}}; with --task ID, that one's brief alone
"""


@small(BRIEF_HELP, "--task --spec --symbols --capsules --invariants", "--strict", commands="build wave")
def brief_command(args: Arguments) -> int:
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
    )
    put(text)
    return 0


def _wave(args: Arguments, path: str) -> int:
    from treadle.coordination.briefs import WaveTask, build_wave

    text = sys.stdin.read() if path == "-" else read_text(path)
    if text is None:
        raise NotFound(f"no file {path}")
    try:
        listed = loads(text)
        tasks = [WaveTask(**{key: str(value) for key, value in one.items()}) for one in listed]
    except (ValueError, TypeError, AttributeError) as error:
        raise UsageError(f"{path} is not a list of tasks: {error}") from None
    wave = build_wave(Planning(), tasks, args.get("--invariants"))
    if wanted := args.get("--task"):
        put(wave.brief(wanted))
    else:
        put(dumps({"shared": wave.shared, "briefs": {one.task: wave.brief(one.task) for one in tasks}}, 2) + "\n")
    return 0
