"""What a table says: signs, the input box, and the lines around it."""

from __future__ import annotations

import re

TYPE_CHECKING = False  # `typing` would cost every supervisor a megabyte
if TYPE_CHECKING:
    from collections.abc import Sequence

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

    `above` and `below` are empty when a box has no edges. `unless` matches what its first line never is, such as the
    marked option of a dialog. `over`, on one of the lines just above the box, and `under`, anywhere below it, tell it
    from a prompt in the transcript that looks the same. `cursor`: the box is a prompt, and ends where the cursor is;
    what is below the cursor does not count.
    """

    def __init__(
        self,
        above: str,
        first: str,
        below: str,
        *,
        unless: str = NEVER,
        over: str = "",
        under: str = "",
        cursor: bool = False,
    ) -> None:
        self.above = re.compile(above) if above else None
        self.first = re.compile(first)
        self.below = re.compile(below) if below else None
        self.unless = re.compile(unless)
        self.over = re.compile(over) if over else None
        self.under = re.compile(under, re.MULTILINE) if under else None
        self.cursor = cursor


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
    - `placeholder`: what an empty input box shows; `suggests`: whether it shows a suggested prompt there, behind the
      cursor; `box_note`: a line inside of the box that is not typed text.
    - `alone`: arguments that keep it from starting background processes which other sessions would use too.
    """

    def __init__(
        self,
        name: str,
        *,
        known_by: Sequence[str],
        box: Box,
        signs: Sequence[Sign],
        block: str,
        prompt: str = NEVER,
        skip: str = NEVER,
        end: str = NEVER,
        ready: str = "",
        settle_ms: int = 0,
        placeholder: str = "",
        suggests: bool = False,
        box_note: str = "",
        alone: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.alone = list(alone)
        self.known_by = re.compile("|".join(known_by), re.MULTILINE)
        self.box = box
        self.signs = tuple(signs)
        self.prompt = re.compile(prompt)
        self.block = re.compile(block)
        self.skip = re.compile(skip)
        self.end = re.compile(end)
        self.ready = re.compile(ready) if ready else None
        self.settle_ms = settle_ms
        self.placeholder = re.compile(placeholder) if placeholder else None
        self.suggests = suggests
        self.box_note = re.compile(box_note) if box_note else None


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
