"""Reads the command lines of small commands, which must answer faster than click can be imported."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

from treadle.light import Any, NoReturn

# Names by which a command line is recognised, before anything heavy is imported.

TERMINAL = {
    "run": ("start", "Run a program in a terminal that stays when you disconnect."),
    "restore": ("start", "Restart terminals that a reboot or a killed supervisor ended."),
    "attach": ("start", "Join a terminal: see its screen and type into it."),
    "wall": (
        "start",
        "Watch several terminals in one view, and type into any.",
    ),
    "ls": ("status", "List terminals."),
    "status": ("status", "Show a terminal's state."),
    "send": ("input", "Type into a terminal."),
    "tail": ("status", "Show the last lines of a terminal's output, also after it has ended."),
    "peek": ("status", "Show a terminal's screen without attaching, also after it has ended."),
    "wait": ("input", "Wait for a terminal to reach a state or to end."),
    "resize": ("input", "Change a terminal's size, overriding its resize policy."),
    "diff": ("ends", "Show the changes made in a terminal's worktree (`run --worktree`)."),
    "merge": ("ends", "Copy the changes from a terminal's worktree into your directory."),
    "share": (
        "start",
        "Create a read-only link to one terminal for a browser.",
    ),
    "kill": ("ends", "End a terminal and all its processes, and list them."),
    "replay": ("start", "Rerun a recorded agent run."),
    "explain": ("status", "Show why a terminal has its current state."),
    "detectors": ("status", "List the rules that detect an agent's state from its screen."),
}
"""Commands that read their own arguments: the module of `treadle.cli.terminal` that each is in, and what it is for."""
COMPLETE = "_TREADLE_COMPLETE"
"""The variable by which a shell asks what it can offer, as click has it."""
PRINT = frozenset(("-p", "--print", "--input-format"))
"""Options that mean a one-shot run. Programs that drive Claude Code leave out -p when they give the last one."""


def exit_code(program: str, work: Callable[[], int]) -> int:
    """Run the work and return its exit code, also when its output could not be written or Ctrl-C was pressed."""
    if None in (sys.stdin, sys.stdout, sys.stderr):
        from treadle.io.process.lifetime import fill_gaps

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
    from treadle.io.process.lifetime import forget

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
        try:
            found, self.rest = _parse(arguments, options.split(), flags.split(), many.split(), stop)
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


def _parse(
    arguments: list[str], options: list[str], flags: list[str], many: list[str], stop: bool
) -> tuple[dict[str, Any], list[str]]:
    """What each option and flag was given, and the words that are neither. A line typed wrongly is a ValueError."""
    import argparse

    class Parser(argparse.ArgumentParser):
        def error(self, message: str) -> NoReturn:
            raise ValueError(message)

    # Each command prints its own help, so argparse needs none; the fixed width keeps it from asking the terminal.
    formatter = partial(argparse.HelpFormatter, width=80)
    parser = Parser(usage="", add_help=False, allow_abbrev=False, formatter_class=formatter)
    for name in options:
        parser.add_argument(name, dest=name)
    for name in flags:
        parser.add_argument(name, dest=name, action="store_true")
    for name in many:
        parser.add_argument(name, dest=name, action="append", default=[])
    # Versions of argparse disagree on what `--` means between words and options, so it is cut off here.
    end = arguments.index("--") if "--" in arguments else len(arguments)
    before, behind = arguments[:end], arguments[end + 1 :]
    if not stop:
        parser.add_argument("words", nargs="*")
        found = vars(parser.parse_intermixed_args(before))
        return found, [*found["words"], *behind]
    parser.add_argument("command", nargs="?")
    parser.add_argument("more", nargs=argparse.REMAINDER)
    found = vars(parser.parse_args(before))
    words = [found["command"], *found["more"]] if found["command"] is not None else []
    own = arguments[end : end + 1] if len(words) > 1 else []  # after a command to run, `--` is the command's own
    return found, [*words, *own, *behind]


class Small:
    """A small command and all that it takes, declared once: read here for each run, by click for manual and completion.

    `options` take a value, those in `many` several times. `commands` are what its first word can be, `words` is what
    its words name (a key of `help.LISTS`). One that is `whole` reads its arguments itself.
    """

    def __init__(
        self,
        run: Callable[..., int],
        help_text: str,
        options: str = "",
        flags: str = "",
        many: str = "",
        *,
        stop: bool = False,
        commands: str = "",
        words: str = "",
        whole: bool = False,
    ) -> None:
        self.run, self.help, self.whole = run, help_text.strip(), whole
        self.options, self.flags, self.many, self.stop = options, flags, many, stop
        self.commands, self.words = commands.split(), words

    def read(self, arguments: list[str]) -> Arguments:
        return Arguments(arguments, self.options, self.flags, self.many, self.stop)

    def __call__(self, arguments: list[str]) -> int:
        return self.run(arguments if self.whole else self.read(arguments))


def small(help_text: str, *takes: str, **more: Any) -> Callable[[Callable[..., int]], Small]:
    """Declare the function below as a small command: it is given its Arguments and returns its exit code."""
    return lambda run: Small(run, help_text, *takes, **more)


def found(module: str, name: str) -> Small:
    """A small command: `wait_command` of its module."""
    command: Small = getattr(__import__(module, fromlist=[name]), f"{name}_command")
    return command
