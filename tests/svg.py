"""A screen as a picture for the docs."""

import re
from xml.sax.saxutils import escape

from treadle.terminal.viewers.panel import width
from treadle.terminal.viewers.screen import BOLD, FAINT, INVERSE, UNDERLINED, Screen

CELL, LINE, EDGE = 9, 19, 14
"""Width and height of a cell, and the margin, in the units of an SVG picture."""
PAPER, INK, GREY = "#121212", "#e5e5e5", "#7c7c7c"


def as_svg(screen: Screen, title: str) -> str:
    """The screen as a picture for documents: sharp at every size, with text that can be searched and read aloud."""
    cols, rows = screen.size
    parts: list[str] = []
    last = 0
    for row in range(rows):
        drawn, x = [], EDGE
        for text, ink, paper, flags in screen.runs(row):
            drawn += _piece(text, ink, paper, flags, x, EDGE + row * LINE)
            x += width(text) * CELL
        last = row if drawn else last
        parts += drawn
    wide, high = cols * CELL + 2 * EDGE, (last + 1) * LINE + 2 * EDGE
    x, y = screen.cursor
    if screen.cursor_visible:
        place = f'x="{EDGE + x * CELL}" y="{EDGE + y * LINE + 1}" width="{CELL}" height="{LINE - 3}"'
        parts.append(f'<rect {place} fill="none" stroke="{INK}"/>')
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}" role="img">'
        f"<title>{escape(title)}</title>"
        f'<rect width="{wide}" height="{high}" rx="8" fill="{PAPER}"/>'
        '<g font-family="ui-monospace, \'DejaVu Sans Mono\', Menlo, Consolas, monospace" font-size="15">'
    )
    return "\n".join([head, *parts, "</g></svg>", ""])


def _piece(text: str, ink: str, paper: str, flags: int, x: int, y: int) -> list[str]:
    """A text of one style, held to the grid."""
    ink, paper = ink or (GREY if flags & FAINT else INK), paper or PAPER
    if flags & INVERSE:
        ink, paper = paper, ink
    parts = []
    if paper != PAPER:
        parts.append(f'<rect x="{x}" y="{y}" width="{width(text) * CELL}" height="{LINE}" fill="{paper}"/>')
    style = (' font-weight="bold"' if flags & BOLD else "") + (
        ' text-decoration="underline"' if flags & UNDERLINED else ""
    )
    for words in re.finditer(r"\S+(?: \S+)*", text):  # some viewers merge several spaces
        begin = x + width(text[: words.start()]) * CELL
        place = f'x="{begin}" y="{y + LINE - 5}" textLength="{width(words[0]) * CELL}" fill="{ink}"{style}'
        parts.append(f"<text {place}>{escape(words[0])}</text>")
    return parts
