"""Text of agents, made fit to be shown on a terminal."""

import os
import re
from typing import Any, TextIO

from treadle.events import ToolStarted

RESULT_WIDTH = 100


def colourful(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters but newline and tab, those that turn the direction of writing, and halves of characters."""


def printable(text: str) -> str:
    """What an agent says may act on the terminal, or make a command look like another: show it, do not obey it."""
    return ACTING.sub("\N{REPLACEMENT CHARACTER}", text)


def one_line(text: str) -> str:
    return printable(text).replace("\n", " ").replace("\t", " ")


def brief(event: ToolStarted) -> str:
    """What a call is about, in one line."""
    if event.command:
        return first_line(event.command)
    if isinstance(event.args, dict):
        named = event.args.get("file_path")
        if event.kind == "write" and isinstance(named, str):
            return first_line(named)  # what it becomes is in the diff
        return first_line(" ".join(_value(value) for value in event.args.values()))
    return ""


def _value(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_value, value))
    return value if isinstance(value, str) else str(value)


def first_line(text: str) -> str:
    lines = text.strip().splitlines()
    if not lines:
        return "(nothing)"
    first = lines[0] if len(lines[0]) <= RESULT_WIDTH else lines[0][: RESULT_WIDTH - 1] + "…"
    return f"{first} (+{len(lines) - 1} lines)" if len(lines) > 1 else first
