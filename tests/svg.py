"""A screen as a picture for the docs."""

import re
from xml.sax.saxutils import escape

from treadle.terminal.viewers.screen import INK, PAPER, Cell, Screen, colours

CELL, LINE, EDGE = 9, 19, 14
"""Width and height of a cell, and the margin, in the units of an SVG picture."""


def as_svg(screen: Screen, title: str) -> str:
    """The screen as a picture for documents: sharp at every size, with text that can be searched and read aloud."""
    cols, rows = screen.size
    parts = []
    last = 0
    for row in range(rows):
        drawn = _svg_row(screen.cells(row), EDGE + row * LINE)
        last = row if drawn else last
        parts += drawn
    width, height = cols * CELL + 2 * EDGE, (last + 1) * LINE + 2 * EDGE
    x, y = screen.cursor
    if screen.cursor_visible:
        place = f'x="{EDGE + x * CELL}" y="{EDGE + y * LINE + 1}" width="{CELL}" height="{LINE - 3}"'
        parts.append(f'<rect {place} fill="none" stroke="{_hex(INK)}"/>')
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img">'
        f"<title>{escape(title)}</title>"
        f'<rect width="{width}" height="{height}" rx="8" fill="{_hex(PAPER)}"/>'
        '<g font-family="ui-monospace, \'DejaVu Sans Mono\', Menlo, Consolas, monospace" font-size="15">'
    )
    return "\n".join([head, *parts, "</g></svg>", ""])


def _svg_row(cells: list[Cell], y: int) -> list[str]:
    """Adjacent cells with the same style become one piece of text, held to the grid."""
    parts: list[str] = []
    at = 0
    while at < len(cells):
        look = _look(cells[at])
        end = at + 1
        while end < len(cells) and (_look(cells[end]) == look or _is_gap(cells[end], look)):
            end += 1
        parts += _svg_piece("".join(cell.text or " " for cell in cells[at:end]), look, EDGE + at * CELL, y, end - at)
        at = end
    return parts


Look = tuple[tuple[int, int, int], tuple[int, int, int], bool, bool]


def _look(cell: Cell) -> Look:
    ink, paper = colours(cell)
    return ink, paper, bool(cell.bold), bool(cell.underline)


def _is_gap(cell: Cell, look: Look) -> bool:
    """Whether it is a blank, which looks the same in any colour."""
    return not cell.text.strip() and not cell.underline and not look[3] and colours(cell)[1] == look[1]


def _svg_piece(text: str, look: Look, x: int, y: int, cells: int) -> list[str]:
    ink, paper, bold, underline = look
    parts = []
    if paper != PAPER:
        parts.append(f'<rect x="{x}" y="{y}" width="{cells * CELL}" height="{LINE}" fill="{_hex(paper)}"/>')
    style = (' font-weight="bold"' if bold else "") + (' text-decoration="underline"' if underline else "")
    for words in re.finditer(r"\S+(?: \S+)*", text):  # some viewers merge several spaces
        begin, wide = x + words.start() * CELL, len(words[0]) * CELL
        place = f'x="{begin}" y="{y + LINE - 5}" textLength="{wide}" fill="{_hex(ink)}"{style}'
        parts.append(f"<text {place}>{escape(words[0])}</text>")
    return parts


def _hex(colour: tuple[int, int, int]) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)
