"""Join a terminal: see what its program shows and type into it.

    treadle attach [ID] [--read-only] [--bar]

Without an ID it is the one that runs, or the one you choose when several do. Ctrl-\\ detaches (the key can be
configured as detach_key); the program goes on. When the program ends, so does this, with its exit code.

  --read-only   only watch: type nothing and do not change its size
  --bar         show its state on the last line
"""

from __future__ import annotations

import sys

from treadle.cli.arguments import Arguments, UsageError
from treadle.cli.terminal import WHERE, directory, place
from treadle.errors import NotFound
from treadle.light import TYPE_CHECKING

if TYPE_CHECKING:
    from treadle.terminal.places import Place


def main(arguments: list[str]) -> int:
    given = Arguments(arguments, WHERE, "--read-only --bar")
    if len(given.rest) > 1:
        raise UsageError("expected one id")
    where = place(given, given.rest[0]) if given.rest else _choose(directory(given))
    from treadle.terminal import config
    from treadle.terminal.attach import attach
    from treadle.terminal.settings import TerminalSettings

    settings = TerminalSettings()
    config.load(settings, given.get("--config"))
    return attach(
        where, read_only="--read-only" in given.flags, detach_key=settings.detach_key, bar="--bar" in given.flags
    )


def _choose(where: str) -> Place:
    """The only running terminal, or the one that the person chooses."""
    from treadle.cli.terminal.ls import words
    from treadle.terminal.listing import rows
    from treadle.terminal.places import Place

    living = [row for row in rows(where) if row["alive"]]
    if not living:
        raise NotFound("No active sessions", hint="`treadle run -- COMMAND` starts one")
    if len(living) == 1:
        return Place(where, living[0]["id"])
    if not sys.stdin.isatty():
        raise UsageError(f"which one? {', '.join(row['id'] for row in living)}")
    width = max(len(row["id"]) for row in living)
    for number, row in enumerate(living, 1):
        sys.stdout.write(f"{number:3}  {row['id']:{width}}  {words(row)}\n")
    while True:
        sys.stdout.write("Which one? ")
        sys.stdout.flush()
        answer = sys.stdin.readline()
        if not answer:
            raise UsageError("nobody chose one")
        answer = answer.strip()
        for number, row in enumerate(living, 1):
            if answer in (str(number), row["id"]):
                return Place(where, row["id"])
