"""`treadle wall`."""

import os
import sys

from treadle.cli.arguments import Arguments
from treadle.cli.terminal import WHERE, directory
from treadle.errors import ConfigError, NotFound
from treadle.io.process.loop import run_async

WALL_HELP = """Watch several terminals in one view, the one that asks in front, and type into any.

    treadle wall

The terminal that has waited for a person the longest is in front; the others are beside it, each with its state. The
programs keep their sizes and are not notified.

  arrows, Tab   put another one in front         n      the next one that waits for a person
  i             type into the one in front;      Enter  join it with the whole screen, as `treadle attach` does;
                Ctrl-\\ ends that                        Ctrl-\\ comes back
  Esc           whichever asks is in front       q      leave
"""


def wall_command(arguments: list[str]) -> int:
    given = Arguments(arguments, WHERE)
    given.exactly(0, "no arguments")
    if not (os.isatty(0) and os.isatty(1)) or os.environ.get("TERM", "dumb") == "dumb":
        raise ConfigError("a wall needs a terminal to draw on", hint="`treadle ls --watch` lists them without one")
    from treadle.terminal import config
    from treadle.terminal.attach import attach, raw_terminal
    from treadle.terminal.places import find
    from treadle.terminal.screen import Screen
    from treadle.terminal.settings import AttachOptions, TerminalSettings

    with Screen(2, 2):
        pass  # says what is missing while the person can read it
    where, settings = directory(given), TerminalSettings()
    config.load(settings, given.get("--config"))
    options = AttachOptions(detach_key=settings.detach_key, prefix_key=settings.prefix_key, bar=True)
    chosen = ""
    while True:
        with raw_terminal() as signals:
            chosen = run_async(_show(where, signals, settings.detach_key, chosen))
        if not chosen:
            return 0
        try:
            attach(find(where, chosen), options)
        except NotFound:
            pass  # it has ended meanwhile
        sys.stdout.flush()


async def _show(where: str, signals: int, detach_key: int, chosen: str) -> str:
    from treadle.terminal.panel import Panel
    from treadle.terminal.wall import Wall

    with Panel(signals) as panel:
        return await Wall(where, panel, detach_key, chosen).run()
