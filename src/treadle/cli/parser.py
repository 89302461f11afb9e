"""Reads the options, flags and words of a small command with argparse. Imported only when there are options."""

import argparse

from treadle.light import Any, NoReturn


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def _formatter(prog: str) -> argparse.HelpFormatter:
    """Each command prints its own help, so argparse needs none; the fixed width keeps it from asking the terminal."""
    return argparse.HelpFormatter(prog, width=80)


def parse(
    arguments: list[str], options: list[str], flags: list[str], many: list[str], stop: bool
) -> tuple[dict[str, Any], list[str]]:
    """What each option and flag was given, and the words that are neither. A line typed wrongly is a ValueError."""
    parser = _Parser(usage="", add_help=False, allow_abbrev=False, formatter_class=_formatter)
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
