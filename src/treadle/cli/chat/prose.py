"""Markdown that is still being written: which part is finished, and how it looks on a terminal."""

import re
from typing import ClassVar

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement
from rich.syntax import Syntax

LIVE_LINES = 40
"""How many lines of an unfinished block are drawn: more would not fit, and redrawing all for each word is slow."""
ITEM = re.compile(r" {0,3}(?:[-*+]|\d+[.)])\s")
FENCE = re.compile(r"`{3,}|~{3,}")
BLANK = re.compile(r"(?:\x1b\[[0-9;]*m|\s)*")


class _Heading(Heading):
    LEVEL_ALIGN: ClassVar = {}


class _Code(CodeBlock):
    """A code block without a margin, so that it can be copied."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Syntax(str(self.text).rstrip(), self.lexer_name, theme=self.theme, word_wrap=True)


class Prose(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _Heading,
        "fence": _Code,
        "code_block": _Code,
    }

    def __init__(self, text: str, theme: str = "dark") -> None:
        super().__init__(text.strip("\n"), code_theme=f"ansi_{theme}", hyperlinks=False)


def trimmed(drawn: str) -> str:
    """Remove blank lines at both ends, also those that hold only invisible characters."""
    lines = drawn.split("\n")
    while lines and BLANK.fullmatch(lines[-1]):
        lines.pop()
    while lines and BLANK.fullmatch(lines[0]):
        lines.pop(0)
    return "\n".join(lines)


def finished(text: str) -> int:
    """How far the look of the text is final: up to a blank line outside of a code block, or the end of a code block.

    In a list this is known only once the next line is there: an indented line still belongs to the item.
    """
    end = at = last = 0
    fence, item = "", False
    for line in text.split("\n")[:-1]:
        if line.strip() and not line[0].isspace():
            end, item = max(end, last), ITEM.match(line) is not None
        at += len(line) + 1
        opens = _fence(line)
        if fence:
            closed = opens.startswith(fence) and not line.strip().strip(fence[0])
            fence = "" if closed else fence
            last = at if closed else last
        elif opens:
            fence = opens
        elif not line.strip():
            last = at
        if not item and not fence:
            end = max(end, last)
    rest = text[at:]
    return last if rest and not rest[0].isspace() and not fence else end


def unfinished(text: str) -> str:
    """The end of a block that is still being written, drawn as it will look when it is finished."""
    lines = text.split("\n")
    if len(lines) <= LIVE_LINES:
        return text
    fence = ""
    for line in lines[:-LIVE_LINES]:
        opens = _fence(line)
        if fence and opens.startswith(fence[: len(opens)]) and not line.strip().strip(fence[0]):
            fence = ""
        elif not fence and opens:
            fence = line.strip()
    return "\n".join([*([fence] if fence else []), *lines[-LIVE_LINES:]])


def _fence(line: str) -> str:
    found = FENCE.match(line.strip())
    return found[0] if found else ""
