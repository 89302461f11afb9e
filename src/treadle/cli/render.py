"""Makes text from agents safe to show on a terminal."""

import os
import re
from typing import Any, TextIO

from treadle.events import Retrying, ToolStarted

RESULT_WIDTH = 100


def colourful(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters except newline and tab, characters that change the writing direction, and lone surrogates."""

_JOINED = "\u0600-\u0dff\u2000-\u3299\U0001f000-\U0001faff"
"""Letters and pictures after which a joiner or a selector belongs to the text."""
INVISIBLE = re.compile(
    "[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u2060-\u206f\u3164\ufe00-\ufe0e\ufeff\uffa0"
    "\U000e0000-\U000e0fff]"
    f"|(?<![{_JOINED}])[\u200c\u200d\ufe0f]"
)
"""Characters without a width, and the tag characters: a command with one is not the command that it looks like."""


def printable(text: str) -> str:
    """Text that cannot act on the terminal or disguise a command: control characters are shown, not obeyed, and those
    that cannot be seen are shown by their number."""
    return INVISIBLE.sub(lambda found: f"<U+{ord(found[0]):04X}>", ACTING.sub("\N{REPLACEMENT CHARACTER}", text))


def one_line(text: str) -> str:
    return printable(text).replace("\n", " ").replace("\t", " ")


def brief(event: ToolStarted) -> str:
    """What a call is about, in one line."""
    if event.command:
        return first_line(event.command)
    if isinstance(event.args, dict):
        named = event.args.get("file_path")
        if event.kind == "write" and isinstance(named, str):
            return first_line(named)  # the diff shows what it becomes
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


def retrying(event: Retrying) -> str:
    seconds = event.delay_ms / 1000
    return f"{event.error.message}; trying again in {f'{seconds:.1f} s' if seconds < 120 else short_time(seconds)}"


def short_time(seconds: float) -> str:
    """`119s`, `2m`, `3h`, `2d`."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:.0f}s"
