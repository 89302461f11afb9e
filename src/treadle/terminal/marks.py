"""What agents write on their screens that tells what they are doing. One table per agent; the last match counts.

Agents repaint from the top down and skip what has not changed, so words come in pieces with cursor movements between:
the patterns are looked for in text in which every movement has become one space.
"""

from __future__ import annotations

import codecs
import re

WORKING, THINKING, STREAMING, TOOL, TOOL_ENDED, PERMISSION, QUESTION, IDLE, FRAME, WORDS = range(10)

_STYLE = re.compile(rb"\x1b\[[0-9;:]*m")
_CONTROL = re.compile(rb"[\x00-\x20]+")

CLAUDE = [
    (r"esc to interrupt", WORKING),
    (r"\bthinking\b", THINKING),
    (r"\d+ tokens\b", STREAMING),
    (r"\bRunning \d* ?\w+|⎿ ?\$ ", TOOL),
    (r"\bRan \d+ ", TOOL_ENDED),
    (
        r"Do you want to (?:proceed|make this edit|create)|Waiting for permission|Esc to cancel · Tab to amend",
        PERMISSION,
    ),
    (r"Enter to select", QUESTION),
    (r"\? for shortcuts|Interrupted · What should", IDLE),
]
CODEX = [
    (r"Working \(\d", WORKING),
    (r"[•◦] Running ", TOOL),
    (r"[•◦] Ran |Exited \(status", TOOL_ENDED),
    (r"Would you like to|Press enter to confirm or esc to cancel", PERMISSION),
    (r"Conversation interrupted", IDLE),
    (r"Ask Codex to|\? for shortcuts", FRAME),
    (r"[^\W\d_]{3,}", WORDS),
]
TABLES = {"claude": CLAUDE, "codex": CODEX}
"""Codex removes its working line while it writes its answer: words, and nothing else with them, are the sign of it."""

KEPT = 60
SEGMENT = 4096


def _compile(table: list[tuple[str, int]]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?P<m{index}>{pattern})" for index, (pattern, _) in enumerate(table)))


class Marks:
    """The marks of one agent, found in its output."""

    def __init__(self, agent: str) -> None:
        self._meanings = [meaning for _, meaning in TABLES[agent]]
        self._regex = _compile(TABLES[agent])
        self._keep = SEGMENT if WORDS in self._meanings else KEPT
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._tail = ""

    def segment(self) -> None:
        """A report or a title came: what is painted next is painted together."""
        self._tail = ""

    def feed(self, data: bytes, sequence: re.Pattern[bytes]) -> list[tuple[int, str]]:
        """The marks that this output completes as (meaning, the words), in order. `data` must hold whole sequences."""
        text = self._decoder.decode(_CONTROL.sub(b" ", sequence.sub(b" ", _STYLE.sub(b"", data))))
        seen = len(self._tail)
        text = re.sub(" +", " ", self._tail + text)  # which leaves the tail as it is, but for a last space
        every = [(self._meanings[int((match.lastgroup or "m0")[1:])], match) for match in self._regex.finditer(text)]
        only_words = all(meaning == WORDS for meaning, _ in every)
        self._tail = text[-self._keep :]
        return [
            (STREAMING if meaning == WORDS else meaning, match.group())
            for meaning, match in every
            if match.end() > seen and (meaning != WORDS or only_words)
        ]
