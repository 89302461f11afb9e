"""heimdall-capsule: what was done, in at most ten lines, for the agents that build on it"""

from treadle.cli.heimdall import Arguments, UsageError, out, put
from treadle.coordination.capsules import Capsules
from treadle.coordination.planning import Planning

CAPSULE_HELP = """heimdall-capsule: what was done, in at most ten lines, for the agents that build on it

heimdall-capsule write ID --what TEXT [--where TEXT] [--decision TEXT] [--gotcha TEXT] [--depends ID,ID]
    keep a capsule; one of more than ten lines is refused (exit 2) and nothing is touched
heimdall-capsule hydrate ID... [--budget TOKENS]
    print these and all they build on, prerequisites first; with a budget, what fits, the nearest and newest before
    others, and the ids of the rest
heimdall-capsule deps ID             print only the ids of that
heimdall-capsule show ID             print one
heimdall-capsule list [--json]       print all ids
heimdall-capsule remove ID           remove one for good; one whose file is deleted, by git or by hand, comes back
"""


def capsule_command(arguments: list[str]) -> int:
    args = Arguments(arguments, "--what --where --decision --gotcha --depends --budget", "--json")
    capsules = Capsules(Planning())
    match args.rest:
        case ["write", name]:
            named = {name[2:]: value for name, value in args.values.items() if name != "--budget"}
            for option, value in named.items():
                if not value and option != "depends":
                    raise UsageError(f"--{option} needs a value that is not empty")
            lines = capsules.write(name, args.need("--what"), **{k: v for k, v in named.items() if k != "what"})
            out(f"wrote capsule {name} ({lines} lines)")
        case ["hydrate", *names] if names:
            put(capsules.hydrate(names, budget_of(args)))
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


def budget_of(args: Arguments) -> int | None:
    text = args.get("--budget")
    if "--budget" in args.values and not (text.isascii() and text.isdecimal() and 0 < int(text[:18])):
        raise UsageError("--budget is a number of tokens")
    return int(text[:18]) if text else None


def _list(ids: list[str], as_json: bool) -> None:
    if as_json:
        from treadle.wire.common.jsontext import dumps

        out(dumps(ids, 2))
    else:
        put("".join(f"{name}\n" for name in ids))
