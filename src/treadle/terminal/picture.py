"""A screen as a picture."""

from __future__ import annotations

import os

from treadle.errors import MissingExtra
from treadle.io.files import write_atomic
from treadle.light import TYPE_CHECKING
from treadle.terminal.screen import Cell, Screen

if TYPE_CHECKING:
    from typing import Any

SIZE = 16
PAPER, INK = (18, 18, 18), (229, 229, 229)
FONTS = (
    "DejaVuSansMono.ttf",
    "/usr/share/fonts/truetype/dejavu/DejaVuSansMono.ttf",
    "LiberationMono-Regular.ttf",
    "NotoSansMono-Regular.ttf",
    "Menlo.ttc",
)


def save(screen: Screen, path: str) -> None:
    """Write the screen to `path` as PNG."""
    try:
        from PIL import Image, ImageDraw
    except ImportError:
        raise MissingExtra("a picture of the screen", "screen") from None
    from io import BytesIO

    font = _font()
    width, height = round(font.getlength("M")), SIZE + 4
    cols, rows = screen.size
    image = Image.new("RGB", (cols * width, rows * height), PAPER)
    draw = ImageDraw.Draw(image)
    for row in range(rows):
        for col, cell in enumerate(screen.cells(row)):
            _draw(draw, font, cell, col * width, row * height, width, height)
    x, y = screen.cursor
    if screen.cursor_visible:
        box = (x * width, y * height, (x + 1) * width - 1, (y + 1) * height - 1)
        draw.rectangle(box, outline=INK)
    data = BytesIO()
    image.save(data, "PNG")
    write_atomic(os.path.abspath(path), data.getvalue())


def _font() -> Any:
    from PIL import ImageFont

    for name in FONTS:
        try:
            return ImageFont.truetype(name, SIZE)
        except OSError:
            pass
    return ImageFont.load_default(SIZE)


def _draw(draw: Any, font: Any, cell: Cell, x: int, y: int, width: int, height: int) -> None:
    ink, paper = cell.colour or INK, cell.background or PAPER
    if cell.inverse:
        ink, paper = paper, ink
    if cell.faint:
        ink = ((ink[0] + paper[0]) // 2, (ink[1] + paper[1]) // 2, (ink[2] + paper[2]) // 2)
    if paper != PAPER:
        draw.rectangle((x, y, x + width - 1, y + height - 1), fill=paper)
    if cell.text.strip():
        draw.text((x, y + 1), cell.text, font=font, fill=ink, stroke_width=0)
        if cell.bold:
            draw.text((x + 1, y + 1), cell.text, font=font, fill=ink)
    if cell.underline:
        draw.line((x, y + height - 2, x + width - 1, y + height - 2), fill=ink)
