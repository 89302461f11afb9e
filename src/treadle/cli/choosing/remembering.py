"""What choosing prints, and what it stores in the settings."""

import sys

from treadle.cli.render import printable
from treadle.settings.edit import choose


def remember(name: str, agent: str, model: str | None) -> str:
    """Write the choice into the person's settings; says what was done."""
    path = choose(agent=None if agent == "native" else agent, model=model)
    return f"{name} is used from now on (saved in {path})."


def say(text: str) -> None:
    print(f"treadle: {printable(text)}", file=sys.stderr, flush=True)
