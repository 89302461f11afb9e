"""How each agent program shows what it is doing: one table per agent, and no code.

`treadle.terminal.judge` reads the tables. To describe another agent, add a module here with a `DETECTOR`, put its name
into `NAMES`, and add a recording to the tests. The tables rely on what all agents seen so far have in common:

- A dialog replaces the input box. Without a box an agent is never idle, and an answer that only quotes a dialog is
  above a box. So signs of a dialog count only below the box, or if there is none.
- If an agent sets a window title or sends status reports (OSC 7501), they tell working from idle; dialogs at its start
  are only on the screen.
- Words such as "esc to interrupt" count only in their own place: the footer or the line above the box.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False  # `typing` would cost every supervisor a megabyte
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal

    State = Literal[
        "idle", "error", "permission", "question", "starting", "working", "thinking", "streaming", "tool_use"
    ]
    Where = Literal["title", "dialog", "footer", "status", "turn", "last", "box", "progress"]

NAMES = ("claude", "codex", "gemini", "opencode", "kimi", "copilot", "pi", "qwen")

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

NEVER = r"\b\B"
"""A pattern that matches nothing."""
RULE = r" ?[─╌━]{8,}.*"
BRAILLE = "[⠀-⣿]"


class Sign:
    """`pattern` found at `where` means `state`. Patterns match per line: ^ and $ are the ends of a line. A group
    named `said` is what is reported; without one, the matching lines are."""

    __slots__ = ("_compiled", "state", "text", "where")

    def __init__(self, state: State, where: Where, pattern: str) -> None:
        self.state: str = state
        self.where: str = where
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
    from a prompt in the transcript that looks the same.
    """

    def __init__(
        self, above: str, first: str, below: str, *, unless: str = NEVER, over: str = "", under: str = ""
    ) -> None:
        self.above = re.compile(above) if above else None
        self.first = re.compile(first)
        self.below = re.compile(below) if below else None
        self.unless = re.compile(unless)
        self.over = re.compile(over) if over else None
        self.under = re.compile(under, re.MULTILINE) if under else None


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
        prompt: str,
        block: str,
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


COMMON_DIALOGS = (
    Sign("question", "dialog", r"(?i)\b(press )?enter to (confirm|select|submit|continue|save|choose)\b"),
    Sign("question", "dialog", r"(?i)\(use enter to select\)|\benter (select|continue|confirm|submit|choose)\b"),
    Sign("question", "dialog", r"(?i)enter: select|: enter\b|↵ (choose|confirm)|\besc: cancel"),
    # A spinner offers this too, although there is nothing to answer.
    Sign("question", "dialog", rf"(?i)^(?!\s*{BRAILLE} ).*\besc to (cancel|go back|exit|quit)\b"),
    Sign("question", "dialog", r"^[ │┃|]*([❯›▶→>] ?(\[?\d[\].)] |[A-Z])|● ?\d+\. )"),
)
"""Dialogs that no table knows, such as those of a later version: an offer of keys, or a marked option. They count
only where there is no input box."""

_loaded: dict[str, Detector] = {}


def named(name: str) -> Detector:
    """The table of an agent, loaded when first needed."""
    if name not in _loaded:
        module = __import__(f"{__name__}.{name}", fromlist=["DETECTOR"])
        _loaded[name] = module.DETECTOR
    return _loaded[name]


WRAPPERS = frozenset("npx bunx pnpm pnpx yarn node bun deno uvx env sudo nice exec dlx x run".split())


def by_command(command: Sequence[str]) -> str:
    """The name of the agent that a command starts; "" for one without a table.

    Also recognises `npx @openai/codex` and `node /opt/gemini/bin/gemini.js`.
    """
    return _agent(command)[0]


def alone(command: Sequence[str]) -> list[str]:
    """The command with arguments that keep it from sharing a background process, which would end with one session."""
    name, at = _agent(command)
    more = named(name).alone if name else []
    if set(more) <= set(command):
        return list(command)
    return [*command[: at + 1], *more, *command[at + 1 :]]


def _agent(command: Sequence[str]) -> tuple[str, int]:
    """The agent, and which word of the command is its program."""
    for at, word in enumerate(command[:6]):
        name = word.rsplit("/", 1)[-1].split("@", 1)[0].lower()
        name = re.sub(r"\.(m?js|cjs|py|exe)$", "", name)
        for suffix in ("", "-code", "-cli", "-ai", "-coding-agent"):
            base = name.removesuffix(suffix)
            if base in NAMES:
                return base, at
        if name not in WRAPPERS and not word.startswith("-") and "=" not in word:
            return "", 0
    return "", 0


def by_app(app: str) -> str:
    """The agent that sends reports under this name."""
    name = app.removesuffix("-code").removesuffix("-cli")
    return name if name in NAMES else ""


def by_sight(title: str, screen: str) -> str:
    """The agent that has this title or screen."""
    for name in NAMES:
        if named(name).known_by.search(f"{title}\n{screen}"):
            return name
    return ""
