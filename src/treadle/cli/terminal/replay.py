"""`treadle replay`."""

import sys
import time

from treadle.cli.arguments import Arguments

REPLAY_HELP = """Play a recording (asciicast 2 or 3) in this terminal.

    treadle replay FILE [--speed X] [--idle-limit SECONDS]

The exit code is the one that was recorded.
"""


def replay_command(arguments: list[str]) -> int:
    given = Arguments(arguments, "--speed --idle-limit")
    [path] = given.exactly(1, "one file")
    from treadle.terminal.record import play

    limit = given.number("--idle-limit", 0.0) if "--idle-limit" in given.values else None

    def write(text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    try:
        return play(path, write, time.sleep, given.number("--speed", 1.0, least=0.001), limit)
    finally:
        if sys.stdout.isatty():
            from treadle.terminal.sequences import RESET

            sys.stdout.write(RESET.decode())
