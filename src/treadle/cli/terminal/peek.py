"""`treadle peek`."""

import sys

from treadle.cli.arguments import Arguments
from treadle.cli.terminal import WHERE, place, show

PEEK_HELP = """Look at a terminal's screen without attaching, also after it has ended.

    treadle peek ID [--json | --png FILE]

Text as a person would see it; with --json also size, cursor and title; with --png a picture in FILE.
"""


def peek_command(arguments: list[str]) -> int:
    given = Arguments(arguments, f"--png {WHERE}", "--json")
    where = place(given, given.exactly(1, "one id")[0])
    from treadle.terminal.screen import snapshot, story

    if path := given.get("--png"):
        from treadle.terminal.picture import save

        with story(where).screen() as screen:
            save(screen, path)
        return 0
    found = snapshot(where)
    if "--json" in given.flags:
        show(found)
    else:
        lines = found["lines"]
        while lines and not lines[-1]:
            lines.pop()
        sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 0
