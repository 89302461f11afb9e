"""How each agent program shows what it is doing: one table per agent, and no code.

A table is read by `treadle.terminal.judge`. To describe another agent, add a module here with a `DETECTOR`, put its
name into `NAMES`, and add a recording to the tests. What the tables rest on, in all agents seen so far:

- A dialog replaces the input box. Without a box nothing is idle, and an answer that only quotes a dialog stands above
  a box. So signs of a dialog count only below the box, or where there is none.
- A window title and status reports (OSC 7501) tell working from idle where an agent has them; start dialogs are only
  on the screen.
- Words such as "esc to interrupt" count in their own place, the footer or the line above the box, and nowhere else.
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
"""What stands between the last prompt and the input box."""
LAST = "last"
"""The last block of that: one answer, one tool call, one error."""
BOX = "box"
PROGRESS = "progress"
"""The progress report of OSC 9;4."""

NEVER = r"\b\B"
"""A pattern that matches nothing."""
RULE = r" ?[─╌━]{8,}.*"
BRAILLE = "[⠀-⣿]"


class Sign:
    """`pattern` found at `where` means `state`. Patterns match per line: ^ and $ are the ends of a line. A group `said`
    is what is told of it; without one, the lines that match."""

    __slots__ = ("_compiled", "state", "text", "where")

    def __init__(self, state: State, where: Where, pattern: str) -> None:
        self.state: str = state
        self.where: str = where
        self.text = pattern
        self._compiled: re.Pattern[str] | None = None

    @property
    def pattern(self) -> re.Pattern[str]:
        """Compiled when it is first looked for: most signs of most agents never are."""
        if self._compiled is None:
            self._compiled = re.compile(self.text, re.MULTILINE)
        return self._compiled

    def __repr__(self) -> str:
        return f"{self.state} when {self.where} has {self.text!r}"


class Box:
    """What an input box looks like: the line above it, its first line, and the line below it.

    `above` and `below` are empty when a box has no edges. `unless` is what its first line never is, such as the marked
    option of a dialog. `over`, on one of the lines just above the box, and `under`, anywhere below it, tell it from a
    prompt in the transcript that looks the same.
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

    - `known_by`: signs, of title or whole screen, that this is the agent, whatever it was started by.
    - `box`: its input box.
    - `signs`: in the order in which they count within each question that the judge asks.
    - `prompt`: a line with what a person has asked, `block`: a line that begins a part of an answer; `skip`: lines
      near the box that belong to neither; `end`: the line after an answer, with a spinner or a summary, from which on
      nothing belongs to it.
    - `ready`: what must be below the box before there is a session to talk to, unless a title or a report says so.
    - `settle_ms`: how long its screen must be still before a box without a sign of work means idle, for agents that
      draw piece by piece.
    - `alone`: arguments with which it starts nothing in the background that other sessions would come to use.
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


COMMON_DIALOGS = (
    Sign("question", "dialog", r"(?i)\b(press )?enter to (confirm|select|submit|continue|save|choose)\b"),
    Sign("question", "dialog", r"(?i)\(use enter to select\)|\benter (select|continue|confirm|submit|choose)\b"),
    Sign("question", "dialog", r"(?i)enter: select|: enter\b|↵ (choose|confirm)|\besc: cancel"),
    # A spinner offers that too, while there is nothing to answer.
    Sign("question", "dialog", rf"(?i)^(?!\s*{BRAILLE} ).*\besc to (cancel|go back|exit|quit)\b"),
    Sign("question", "dialog", r"^[ │┃|]*([❯›▶→>] ?(\[?\d[\].)] |[A-Z])|● ?\d+\. )"),
)
"""How dialogs look that a table does not know, such as one of a later version: an offer of keys, or a marked option.
They count only where there is no input box."""

_loaded: dict[str, Detector] = {}


def named(name: str) -> Detector:
    """The table of an agent, compiled when it is first needed."""
    if name not in _loaded:
        module = __import__(f"{__name__}.{name}", fromlist=["DETECTOR"])
        _loaded[name] = module.DETECTOR
    return _loaded[name]


WRAPPERS = frozenset("npx bunx pnpm pnpx yarn node bun deno uvx env sudo nice exec dlx x run".split())


def by_command(command: Sequence[str]) -> str:
    """The agent that a command starts, by its name; "" for one that nobody described.

    `npx @openai/codex` and `node /opt/gemini/bin/gemini.js` are the agents too.
    """
    return _agent(command)[0]


def alone(command: Sequence[str]) -> list[str]:
    """The command, so that it shares no background process with other sessions: the end of one would be theirs too."""
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
    """The agent that reports under this name."""
    name = app.removesuffix("-code").removesuffix("-cli")
    return name if name in NAMES else ""


def by_sight(title: str, screen: str) -> str:
    """The agent whose title or screen this is."""
    for name in NAMES:
        if named(name).known_by.search(f"{title}\n{screen}"):
            return name
    return ""
