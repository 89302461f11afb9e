"""`treadle diff`."""

import sys

from treadle.cli.arguments import Arguments
from treadle.cli.terminal import WHERE, place, show, warn

DIFF_HELP = """Show what the program of a terminal that was started with `run --worktree` has changed.

    treadle diff ID [--stat | --json]

The patch against the commit that it began with; files that .gitignore names are not in it. It may be looked at while
the program works, and after its end.

  --stat   only the files and what happened to them
"""


def diff_command(arguments: list[str]) -> int:
    given = Arguments(arguments, WHERE, "--stat --json")
    (name,) = given.exactly(1, "one id")
    from treadle.cli.render import colourful, printable
    from treadle.terminal import worktree

    found = worktree.of(place(given, name)).difference()
    if found.unread:
        warn(f"treadle: not all of it could be read: {found.unread}")
    if "--json" in given.flags:
        changes = [{"kind": each.kind, "path": each.path, "old_path": each.old_path} for each in found.changes]
        show({"changes": changes, "patch": found.patch.decode(errors="replace")})
    elif "--stat" in given.flags:
        sys.stdout.write("".join(f"{line}\n" for line in printable(found.status).splitlines()))
    elif colourful(sys.stdout):
        sys.stdout.write("".join(map(_coloured, printable(found.patch.decode(errors="replace")).splitlines(True))))
    else:
        sys.stdout.buffer.write(found.patch)
    return 0


def _coloured(line: str) -> str:
    head = line.startswith(("diff ", "index ", "--- ", "+++ "))
    colour = "1" if head else {"+": "32", "-": "31", "@": "36"}.get(line[:1], "")
    return f"\x1b[{colour}m{line.rstrip(chr(10))}\x1b[0m\n" if colour else line
