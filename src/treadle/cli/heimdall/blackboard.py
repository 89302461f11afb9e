"""heimdall-blackboard: facts that one agent finds out and all others read"""

from treadle.cli.heimdall import Arguments, UsageError, out
from treadle.cli.heimdall.resolve import show_table
from treadle.coordination.planning import Planning
from treadle.coordination.table import Blackboard

BLACKBOARD_HELP = """heimdall-blackboard: facts that one agent finds out and all others read

heimdall-blackboard set KEY VALUE    keep a fact; the last writer wins
heimdall-blackboard get KEY          print it (exit 1: unknown)
heimdall-blackboard del KEY          forget it
heimdall-blackboard list [--json]    print all, KEY and VALUE with a tab between
"""


def blackboard_command(arguments: list[str]) -> int:
    args = Arguments(arguments, flags="--json")
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
