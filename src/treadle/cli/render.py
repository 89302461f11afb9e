"""A run as a person sees it: text as it streams, one line per tool, diffs in colour. Quiet where nobody looks."""

from __future__ import annotations

import os
import re
import sys
from typing import Any, TextIO

from treadle.events import (
    AnyEvent,
    ContextCompacted,
    ContextHandoff,
    ContextPruned,
    Failed,
    FileChanged,
    Message,
    Retrying,
    TaskChanged,
    TextDelta,
    ToolDenied,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    Warned,
)
from treadle.sessions.totals import TurnSummary

DIM, RED, GREEN, YELLOW, CYAN, BOLD = "2", "31", "32", "33", "36", "1"
DIFF_LINES = 24
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


class Renderer:
    """Writes events to a terminal, or to whatever stream it is given."""

    def __init__(self, out: TextIO | None = None, *, colour: bool | None = None) -> None:
        self._out = out or sys.stdout
        self._colour = colourful(self._out) if colour is None else colour
        self._fresh = True
        self._streamed = False

    def show(self, event: AnyEvent) -> None:
        if event.parent is not None:
            return
        match event:
            case TextDelta(text=text):
                self._streamed = True
                self._write(printable(text))
            case Message(kind="text", text=text):
                if not self._streamed:
                    self._write(printable(text))
                self._streamed = False
                self.line()
            case ToolStarted():
                self._note(CYAN, f"● {event.name} {brief(event)}")
            case ToolEnded():
                self._note(DIM if event.ok else RED, f"  ⎿ {_first_line(event.result)}")
            case ToolDenied():
                self._note(YELLOW, f"✗ {event.name} was not allowed: {event.reason}")
            case FileChanged():
                self._diff(event)
            case Retrying():
                self._note(YELLOW, f"↻ {event.error.message}; trying again in {event.delay_ms / 1000:.1f} s")
            case Warned(message=message):
                self._note(YELLOW, f"! {message}")
            case ContextPruned() | ContextCompacted():
                word = "pruned" if isinstance(event, ContextPruned) else "compacted"
                self._note(DIM, f"context {word}: {event.tokens_before} -> {event.tokens_after} tokens")
            case ContextHandoff():
                self._note(DIM, "the conversation did not fit any more; it goes on afresh, with a summary")
            case TaskChanged(task=task) if task is not None and event.change != "updated":
                self._note(DIM, f"◇ {task.id} ({task.label}) {event.change}")
            case Failed(error=error):
                self._note(RED, f"error: {error.message}")
            case TurnEnded(outcome=outcome) if outcome == "interrupted":
                self._note(YELLOW, "interrupted")
            case _:
                pass
        self._out.flush()

    def total(self, summary: TurnSummary) -> None:
        """One line on what the turn took."""
        usage = summary.usage
        cost = "cost unknown" if usage.cost_usd is None else f"${usage.cost_usd:.4f}"
        about = "about " if usage.estimated else ""
        self._note(
            DIM,
            f"{summary.total_ms / 1000:.1f} s · {summary.iterations} model calls · {len(summary.tools)} tools · "
            f"{about}{usage.prompt_tokens} tokens in, {usage.output_tokens} out · {cost}",
        )

    def heading(self, text: str) -> None:
        self._note(BOLD, text)

    def line(self) -> None:
        """End the line that is being written, if any."""
        if not self._fresh:
            self._write("\n")

    def _note(self, colour: str, text: str) -> None:
        self.line()
        text = printable(text)
        self._write(f"\x1b[{colour}m{text}\x1b[0m\n" if self._colour else text + "\n")

    def _diff(self, event: FileChanged) -> None:
        lines = [line for line in event.diff.splitlines() if not line.startswith(("---", "+++"))]
        for line in lines[:DIFF_LINES]:
            self._note({"+": GREEN, "-": RED, "@": CYAN}.get(line[:1], DIM), f"    {line}")
        if len(lines) > DIFF_LINES:
            self._note(DIM, f"    … {len(lines) - DIFF_LINES} more lines")

    def _write(self, text: str) -> None:
        if text:
            self._out.write(text)
            self._fresh = text.endswith("\n")


def brief(event: ToolStarted) -> str:
    """What a call is about, in one line."""
    if event.command:
        return _first_line(event.command)
    if isinstance(event.args, dict):
        return _first_line(" ".join(_value(value) for value in event.args.values()))
    return ""


def _value(value: Any) -> str:
    return value if isinstance(value, str) else str(value)


def _first_line(text: str) -> str:
    lines = text.strip().splitlines()
    if not lines:
        return "(nothing)"
    first = lines[0] if len(lines[0]) <= RESULT_WIDTH else lines[0][: RESULT_WIDTH - 1] + "…"
    return f"{first} (+{len(lines) - 1} lines)" if len(lines) > 1 else first
