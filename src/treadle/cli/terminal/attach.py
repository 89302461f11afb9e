"""Join a terminal: see what its program shows and type into it.

    treadle attach ID [--read-only] [--bar]

Ctrl-\\ detaches (the key can be configured as detach_key); the program goes on. When the program ends, so does this,
with its exit code.

  --read-only   only watch: type nothing and do not change its size
  --bar         show its state on the last line
"""

from __future__ import annotations

from treadle.cli.arguments import Arguments
from treadle.cli.terminal import WHERE, place


def main(arguments: list[str]) -> int:
    given = Arguments(arguments, WHERE, "--read-only --bar")
    where = place(given, given.exactly(1, "one id")[0])
    from treadle.terminal import config
    from treadle.terminal.attach import attach
    from treadle.terminal.settings import Settings

    settings = Settings()
    config.load(settings, given.get("--config"))
    return attach(
        where, read_only="--read-only" in given.flags, detach_key=settings.detach_key, bar="--bar" in given.flags
    )
