"""heimdall-resolve: short ids for artifacts that would otherwise be written out again and again"""

from treadle.cli.heimdall import Arguments, UsageError, out
from treadle.coordination.planning import Planning, one_line
from treadle.coordination.table import Symbols

RESOLVE_HELP = """heimdall-resolve: short ids for artifacts that would otherwise be written out again and again

heimdall-resolve set ID VALUE        keep VALUE under ID
heimdall-resolve ID                  print what ID stands for (exit 1: nothing)
heimdall-resolve lookup ID           the same, also for an ID named like a command
heimdall-resolve --reverse VALUE     print the first ID that stands for exactly VALUE
heimdall-resolve list [--json]       print all, ID and VALUE with a tab between
"""


def resolve_command(arguments: list[str]) -> int:
    args = Arguments(arguments, "--reverse", "--json")
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
        from treadle.wire.common.jsontext import dumps

        out(dumps(entries, 2))
        return
    for key, value in entries.items():
        out(f"{key}\t{one_line(value)}")
