"""The commands for terminals: `wait_command` is `treadle wait`.

This module holds what they share and imports nothing heavy.
"""

from __future__ import annotations

import os
import sys

from treadle.cli.arguments import TERMINAL, Arguments, Small, UsageError, exit_code, found
from treadle.errors import ConfigError, NotFound, PeerStalled, TreadleError
from treadle.light import TYPE_CHECKING

if TYPE_CHECKING:
    from treadle.terminal.client import Client
    from treadle.terminal.places import Place

WHERE = "--socket-dir --config"
"""Options of every terminal command: where the terminals are."""
NEEDS_A_PERSON, NOT_SUBMITTED, TURN_FAILED = 3, 4, 5
TIMED_OUT = 124
"""As timeout(1) has it."""
SOCKET_AGAIN = 6.0
"""A supervisor that lives (its pid file is locked) makes a removed socket again within this many seconds."""


def main(name: str, arguments: list[str]) -> int:
    """Run one command and give its exit code."""
    return exit_code(f"treadle {name}", lambda: _run(name, arguments))


def _run(name: str, arguments: list[str]) -> int:
    command = find(name)
    before = arguments[: arguments.index("--")] if "--" in arguments else arguments
    if "--help" in before[:1] or "-h" in before[:1]:
        print(command.help)
        return 0
    try:
        return command(arguments)
    except UsageError as error:
        warn(f"treadle {name}: {error}; see `treadle {name} --help`")
        return 2
    except TreadleError as error:
        warn(error.message if isinstance(error, NotFound) else f"treadle: {error.message}")
        if error.hint:
            warn(f"  {error.hint}")
        return 1
    except BrokenPipeError:
        raise
    except OSError as error:
        warn(f"treadle: {error}")
        return 1


def find(name: str) -> Small:
    return found(f"treadle.cli.terminal.{TERMINAL[name][0]}", name)


def warn(text: str) -> None:
    print(text, file=sys.stderr)


def directory(arguments: Arguments) -> str:
    """The directory of the terminals: as given, as configured, or in the state directory."""
    from treadle.terminal import config
    from treadle.terminal.places import default_directory
    from treadle.terminal.settings import TerminalSettings

    if named := arguments.get("--socket-dir"):
        return os.path.expanduser(named)
    if not arguments.get("--config") and os.path.exists(config.NAME):
        return default_directory()  # the file here overrides the others but cannot set this, and may even be broken
    settings = TerminalSettings()
    config.load(settings, arguments.get("--config"))
    return settings.directory or default_directory()


def place(arguments: Arguments, name: str) -> Place:
    from treadle.terminal.places import find

    return find(directory(arguments), name)


def connect(where: Place, timeout: float | None = 10.0, until: float | None = None) -> Client:
    """Connect to a living supervisor. NotFound for one that is gone. `timeout` and `until` as `Client` has them."""
    import math
    import time

    from treadle.io.files import is_locked
    from treadle.terminal.client import Client

    deadline = min(time.monotonic() + SOCKET_AGAIN, until or math.inf)
    while True:
        try:
            return Client(where.sock, timeout=timeout, until=until)
        except NotFound:
            if not is_locked(where.pid):
                hint = f"`treadle wait {where.id} --exit` has its code"
                raise NotFound(f"session {where.id} has ended", hint=hint) from None
            if time.monotonic() > deadline:
                raise PeerStalled(f"session {where.id} runs, but its socket {where.sock} is gone") from None
        time.sleep(0.1)


def is_past(deadline: float | None) -> bool:
    """Whether a time of `time.monotonic()` is over; there may be none."""
    import time

    return deadline is not None and time.monotonic() >= deadline


def timed_out(error: PeerStalled, deadline: float | None, limit: float) -> int:
    """The exit code for a supervisor that did not answer before the person's time was over. Raises the error before."""
    if not is_past(deadline):
        raise error
    warn(f"treadle: not within {limit:g} s: {error.message}")
    return TIMED_OUT


def duration(text: str) -> float:
    """Seconds from `90s`, `5m`, `2h30m`, `1d`."""
    units = {"s": 1, "m": 60, "h": 3600, "d": 86400}
    total, digits = 0.0, ""
    for letter in text:
        if letter.isdigit():
            digits += letter
        elif letter in units and digits:
            total += int(digits) * units[letter]
            digits = ""
        else:
            digits = "?"
            break
    if digits or total <= 0:
        raise ConfigError(f"{text!r} is not a duration", hint="write 90s, 5m, 2h30m or 1d")
    return total


def show(value: object) -> None:
    """Print JSON for `--json`."""
    import json

    print(json.dumps(value, ensure_ascii=False, indent=2))
