"""`treadle attach`."""

from __future__ import annotations

import sys

from treadle.cli.arguments import Arguments, UsageError
from treadle.cli.terminal import WHERE, directory, place
from treadle.errors import NotFound
from treadle.light import TYPE_CHECKING

if TYPE_CHECKING:
    from treadle.terminal.places import Place


ATTACH_HELP = """Join a terminal: see what its program shows and type into it.

    treadle attach [ID] [--read-only] [--bar]
    treadle attach --next-waiting [--bar]

Without an ID it is the one that runs, or the one you choose when several do. Ctrl-\\ detaches (the key can be
configured as detach_key); the program goes on. When the program ends, so does this, with its exit code.

Ctrl-] and another key (prefix_key): ? help, n next terminal that waits for a person, s choose another, l the one
before, [ look at what has scrolled away, / search it, b the bar, r rename, k end it, d detach. Twice: Ctrl-] itself.

  --read-only      only watch: type nothing and do not change its size
  --bar            show its id, agent, branch and state on the last line (bar = true in the settings: always)
  --next-waiting   go from question to question: join the terminal that has waited for a person the longest, and when
                   it is answered the next one, until none waits. The detach key leaves one for later
"""


def attach_command(arguments: list[str]) -> int:
    given = Arguments(arguments, WHERE, "--read-only --bar --next-waiting")
    if len(given.rest) > 1:
        raise UsageError("expected one id")
    if "--next-waiting" in given.flags:
        if given.rest or "--read-only" in given.flags:
            raise UsageError("--next-waiting chooses the terminal, to be typed into")
        return _answer_all(given)
    where = place(given, given.rest[0]) if given.rest else _choose(directory(given))
    return _attach(given, where)


def _attach(given: Arguments, where: Place, *, until_answered: bool = False) -> int:
    from treadle.terminal import config
    from treadle.terminal.attach import attach
    from treadle.terminal.settings import AttachOptions, TerminalSettings

    settings = TerminalSettings()
    config.load(settings, given.get("--config"))
    options = AttachOptions(
        read_only="--read-only" in given.flags,
        detach_key=settings.detach_key,
        prefix_key=settings.prefix_key,
        bar="--bar" in given.flags or settings.bar,
        until_answered=until_answered,
    )
    return attach(where, options)


def _answer_all(given: Arguments) -> int:
    """Join one terminal after the other that waits for a person. One that was left unanswered is not shown again."""
    from treadle.terminal.listing import row, waiting
    from treadle.terminal.places import Place
    from treadle.terminal.states import WAITING

    where, left, count = directory(given), set[str](), 0
    while found := next((found for found in waiting(where) if found["id"] not in left), None):
        here = Place(where, found["id"])
        sys.stdout.write(f"[{here.id} asks: {found.get('message') or found['state']}]\n")
        sys.stdout.flush()
        _attach(given, here, until_answered=True)
        count += 1
        if row(here)["state"] in WAITING:
            left.add(here.id)
    later = f"; left for later: {', '.join(sorted(left))}" if left else ""
    sys.stdout.write(f"[no {'other ' if count else ''}terminal waits for a person{later}]\n")
    return 0


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
            raise UsageError("no one chose one")
        answer = answer.strip()
        for number, row in enumerate(living, 1):
            if answer in (str(number), row["id"]):
                return Place(where, row["id"])
