"""Reads the command lines of small commands, which must answer faster than click can be imported."""

import sys
from collections.abc import Callable

# Names by which a command line is recognised, before anything heavy is imported.

TERMINAL = {
    "run": "start",
    "attach": "start",
    "wall": "start",
    "ls": "status",
    "status": "status",
    "send": "input",
    "tail": "status",
    "peek": "status",
    "wait": "input",
    "resize": "input",
    "rename": "input",
    "diff": "ends",
    "merge": "ends",
    "share": "start",
    "kill": "ends",
    "clean": "ends",
    "replay": "start",
    "explain": "status",
    "detectors": "status",
}
"""Commands that parse their own arguments, and the module of `treadle.cli.terminal` that each is in."""
PRINT = frozenset(("-p", "--print", "--input-format"))
"""Options that mean a one-shot run. Programs that drive Claude Code leave out -p when they give the last one."""

Command = Callable[[list[str]], int]
"""A small command: it is given its arguments and returns its exit code."""


def found(module: str, name: str) -> tuple[Command, str]:
    """A small command and its help: `wait_command` and `WAIT_HELP` of its module."""
    place = __import__(module, fromlist=[name])
    return getattr(place, f"{name}_command"), getattr(place, f"{name.upper()}_HELP").strip()


def exit_code(program: str, work: Callable[[], int]) -> int:
    """Run the work and return its exit code, also when its output could not be written or Ctrl-C was pressed."""
    if None in (sys.stdin, sys.stdout, sys.stderr):
        from treadle.io.standard_streams import fill_gaps

        fill_gaps()
    try:
        code = work()
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        _forget_output()
        return 141
    except OSError as error:
        _forget_output()
        print(f"{program}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _forget_output() -> None:
    from treadle.io.standard_streams import forget

    forget(1)  # otherwise the interpreter complains when it flushes at exit


MOST = 1e9
"""The largest number that an option takes: thirty years in seconds. Some clocks cannot count further."""


class UsageError(Exception):
    """The command was typed wrongly."""


class Arguments:
    """A command line read into options with a value, flags, and the remaining words.

    An option in `many` may be repeated. With `stop`, reading ends at the first word that is not an option: the rest is
    a command with options of its own.
    """

    def __init__(
        self, arguments: list[str], options: str = "", flags: str = "", many: str = "", stop: bool = False
    ) -> None:
        self.rest = list(arguments)
        self.values: dict[str, str] = {}
        self.flags: set[str] = set()
        self.lists: dict[str, list[str]] = {name: [] for name in many.split()}
        if not any(word.startswith("-") for word in arguments):
            return  # The usual case. Importing argparse would take a third of the command's whole time
        from treadle.cli.parser import parse

        try:
            found, self.rest = parse(arguments, options.split(), flags.split(), many.split(), stop)
        except ValueError as error:
            raise UsageError(str(error)) from None
        self.values = {name: found[name] for name in options.split() if found[name] is not None}
        self.flags = {name for name in flags.split() if found[name]}
        self.lists = {name: found[name] for name in many.split()}

    def get(self, name: str, default: str = "") -> str:
        return self.values.get(name, default)

    def need(self, name: str) -> str:
        if not self.values.get(name):
            raise UsageError(f"{name} is needed")
        return self.values[name]

    def number(self, name: str, default: float, least: float = 0.0) -> float:
        """The value as a number from `least` to `MOST`."""
        if name not in self.values:
            return default
        try:
            found = float(self.values[name])
        except ValueError:
            found = float("nan")
        if not least <= found <= MOST:
            raise UsageError(f"{name} must be a number from {least:g} to {MOST:g}, not {self.values[name]!r}")
        return found

    def exactly(self, count: int, what: str) -> list[str]:
        if len(self.rest) != count:
            raise UsageError(f"expected {what}")
        return self.rest
