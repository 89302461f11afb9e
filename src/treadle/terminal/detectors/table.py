"""What a table says: signs, the input box, and the lines around it."""

from __future__ import annotations

import re

from treadle.errors import ConfigError, StorageError
from treadle.io.files import read
from treadle.light import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


IDLE, ERROR, PERMISSION, QUESTION, STARTING = "idle", "error", "permission", "question", "starting"
WORKING, THINKING, STREAMING, TOOL = "working", "thinking", "streaming", "tool_use"

TITLE = "title"
DIALOG = "dialog"
"""Below the input box, or the lower part of the screen when there is no box."""
FOOTER = "footer"
"""Below the input box."""
STATUS = "status"
"""The few lines directly above the input box."""
TURN = "turn"
"""Everything between the last prompt and the input box."""
LAST = "last"
"""The last block of the turn: one answer, one tool call, one error."""
BOX = "box"
PROGRESS = "progress"
"""The progress report of OSC 9;4."""

STATES = (IDLE, ERROR, PERMISSION, QUESTION, STARTING, WORKING, THINKING, STREAMING, TOOL)
WHERE = (TITLE, DIALOG, FOOTER, STATUS, TURN, LAST, BOX, PROGRESS)

NEVER = r"\b\B"
"""A pattern that matches nothing."""
BRAILLE = "[⠀-⣿]"


class Sign:
    """`pattern` found at `where` means `state`. Patterns match per line: ^ and $ are the ends of a line. A group
    named `said` is what is reported; without one, the matching lines are."""

    __slots__ = ("_compiled", "state", "text", "where")

    def __init__(self, state: str, where: str, pattern: str) -> None:
        self.state = state
        self.where = where
        self.text = pattern
        self._compiled: re.Pattern[str] | None = None

    @property
    def pattern(self) -> re.Pattern[str]:
        """Compiled on first use, because most signs of most agents are never needed."""
        if self._compiled is None:
            self._compiled = re.compile(self.text, re.MULTILINE)
        return self._compiled

    def __repr__(self) -> str:
        return f"{self.state} when {self.where} has {self.text!r}"


class Box:
    """What an input box looks like: the line above it, its first line, and the line below it.

    `above` and `below` are empty when a box has no edges. `more` matches a further line of a text that has several or
    is too wide for one; without a line `below`, such a box ends before the last lines of the screen, in which `under`
    is found. `modes` are marks of the first line, or notes in the box, that change what Enter does, each with its
    mode's name. `unless` matches what its first line never is, such as the marked option of a dialog. `over`, on one of
    the lines just above the box, and `under`, anywhere below it, tell it from a prompt in the transcript that looks the
    same. `cursor`: the box is a prompt, and ends where the cursor is; what is below the cursor does not count.
    `beside`: the part of a line that ends where a sidebar begins, which does not count either.
    """

    def __init__(
        self, first: str, *, cursor: bool = False, modes: dict[str, str] | None = None, **patterns: str
    ) -> None:
        self.first = re.compile(first)
        self.cursor = cursor
        self.modes = modes or {}
        self.unless = re.compile(patterns.get("unless", NEVER))
        self.above, self.below = _maybe(patterns.get("above")), _maybe(patterns.get("below"))
        self.over, self.under = _maybe(patterns.get("over")), _maybe(patterns.get("under"))
        self.more, self.beside = _maybe(patterns.get("more")), _maybe(patterns.get("beside"))


def _maybe(pattern: str | None) -> re.Pattern[str] | None:
    return re.compile(pattern, re.MULTILINE) if pattern else None


class Detector:
    """One agent's table.

    - `known_by`: signs in the title or on the whole screen that this is the agent, whatever command started it.
    - `box`: its input box.
    - `signs`: in order of priority within each question that the judge asks.
    - `prompt`: a line with a person's prompt; `block`: a line that begins a part of an answer; `skip`: lines near the
      box that belong to neither; `end`: the line after an answer, with a spinner or a summary, which ends it.
    - `ready`: what must be below the box before a session can be used, unless a title or a report says so.
    - `settle_ms`: how long its screen must be still before a box without a sign of work means idle, for agents that
      draw piece by piece.
    - `deaf_ms`: for how long a dialog that has just appeared ignores keys.
    - `placeholder`: what an empty input box shows; `suggests`: whether it shows a suggested prompt there, behind the
      cursor; `box_note`: a line inside of the box that is not typed text.
    - `alone`: arguments that keep it from starting background processes which other sessions would use too.
    - `resume`: arguments that continue its `last` conversation in a directory, or let the person `choose` one; `marks`
      are those with which a command line says by itself what it continues.
    """

    def __init__(
        self,
        name: str,
        *,
        known_by: Sequence[str],
        box: Box,
        signs: Sequence[Sign],
        settle_ms: int = 0,
        deaf_ms: int = 0,
        suggests: bool = False,
        alone: Sequence[str] = (),
        resume: dict[str, list[str]] | None = None,
        **patterns: str,
    ) -> None:
        self.name = name
        self.alone = list(alone)
        self.resume = resume or {}
        self.known_by = re.compile("|".join(known_by), re.MULTILINE)
        self.box = box
        self.signs = tuple(signs)
        self.settle_ms = settle_ms
        self.deaf_ms = deaf_ms
        self.suggests = suggests
        self.prompt, self.block, self.skip, self.end = (
            re.compile(patterns.get(part, NEVER)) for part in ("prompt", "block", "skip", "end")
        )
        self.ready, self.box_note = _maybe(patterns.get("ready")), _maybe(patterns.get("box_note"))
        self.placeholder = _maybe(patterns.get("placeholder"))


COMMON_DIALOGS = tuple(
    Sign(QUESTION, DIALOG, pattern)
    for pattern in (
        r"(?i)\b(press )?enter to (confirm|select|submit|continue|save|choose)\b",
        r"(?i)\(use enter to select\)|\benter (select|continue|confirm|submit|choose)\b",
        r"(?i)enter: select|: enter\b|↵ (choose|confirm)|\besc: cancel",
        # A spinner offers this too, although there is nothing to answer.
        rf"(?i)^(?!\s*{BRAILLE} ).*\besc to (cancel|go back|exit|quit)\b",
        r"^[ │┃|]*([❯›▶→>] ?(\[?\d[\].)] |[A-Z])|● ?\d+\. )",
    )
)
"""Dialogs that no table knows, such as those of a later version: an offer of keys, or a marked option. They count
only where there is no input box."""


# Reads an agent's table from TOML, and says what is wrong with it and where.

KINDS: dict[str, type] = {
    **dict.fromkeys(("name", "prompt", "block", "skip", "end", "ready", "placeholder", "box_note"), str),
    **dict.fromkeys(("known_by", "signs", "alone"), list),
    "settle_ms": int,
    "deaf_ms": int,
    "suggests": bool,
    "box": dict,
    "resume": dict,
}
NEEDED = ("name", "known_by", "block", "signs", "box")
PATTERNS = ("prompt", "block", "skip", "end", "ready", "placeholder", "box_note")
BOX_KEYS = ("above", "first", "below", "unless", "over", "under", "cursor", "more", "beside", "modes")


def read_table(path: str) -> Detector:
    """The table in a file. ConfigError when it cannot be read."""
    import tomllib  # only a supervisor whose program may be an agent pays for it

    try:
        table = tomllib.loads(read(path).decode())
    except StorageError as error:
        raise ConfigError(error.message) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error
    try:
        return _detector(table)
    except _Wrong as wrong:
        raise ConfigError(f"{path}: {wrong}", hint="treadle docs detectors") from None


class _Wrong(Exception):
    pass


def _detector(table: dict[str, Any]) -> Detector:
    for key in NEEDED:
        if key not in table:
            raise _Wrong(f"{key} is missing")
    for key, value in table.items():
        if key not in KINDS:
            raise _Wrong(f"{key} is not known; there are {', '.join(KINDS)}")
        _checked(key, value, KINDS[key])
    for key in PATTERNS:
        _pattern(key, table.get(key, ""))
    for number, pattern in enumerate(table["known_by"], 1):
        _pattern(f"known_by, entry {number}", pattern)
    for number, word in enumerate(table.get("alone", ()), 1):
        _checked(f"alone, entry {number}", word, str)
    for key, words in table.get("resume", {"choose": [], "marks": []}).items():
        _checked(f"resume.{key}", words, list)
    if set(table.get("resume", ("choose", "marks"))) - {"last"} != {"choose", "marks"}:
        raise _Wrong("resume has choose and marks, and may have last")
    signs = [_sign(f"signs, entry {number}", sign) for number, sign in enumerate(table["signs"], 1)]
    given = {key: value for key, value in table.items() if key not in ("name", "signs", "box")}
    return Detector(table["name"], box=_box(table["box"]), signs=(*signs, *COMMON_DIALOGS), **given)


def _sign(where: str, sign: Any) -> Sign:
    _checked(where, sign, dict)
    if set(sign) != {"state", "where", "pattern"}:
        raise _Wrong(f"{where}: a sign has state, where and pattern")
    for key, values in (("state", STATES), ("where", WHERE)):
        if sign[key] not in values:
            raise _Wrong(f"{where}: {key} is {sign[key]!r}; there are {', '.join(values)}")
    if _pattern(f"{where}: pattern", sign["pattern"]).search("") is not None:
        raise _Wrong(f"{where}: the pattern matches an empty screen")
    return Sign(sign["state"], sign["where"], sign["pattern"])


def _box(box: dict[str, Any]) -> Box:
    for key, value in box.items():
        if key not in BOX_KEYS:
            raise _Wrong(f"box.{key} is not known; there are {', '.join(BOX_KEYS)}")
        if key == "cursor":
            _checked("box.cursor", value, bool)
        elif key == "modes":
            _checked("box.modes", value, dict)
            for mark, name in value.items():
                _checked(f"box.modes.{mark}", name, str)
        else:
            _pattern(f"box.{key}", value)
    if "first" not in box:
        raise _Wrong("box.first is missing")
    return Box(**box)


def _checked(where: str, value: Any, kind: type) -> None:
    if type(value) is not kind:
        raise _Wrong(f"{where} is {value!r}, but must be of type {kind.__name__}")


def _pattern(where: str, value: Any) -> re.Pattern[str]:
    _checked(where, value, str)
    try:
        return re.compile(value, re.MULTILINE)
    except re.error as error:
        raise _Wrong(f"{where} is not a regular expression: {error}") from None
