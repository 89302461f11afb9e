"""A screen as a picture."""

import os

from treadle.errors import MissingExtra
from treadle.io.files import write_atomic
from treadle.light import Any
from treadle.terminal.screen import Cell, Screen

SIZE = 16
PAPER, INK = (18, 18, 18), (229, 229, 229)
FONTS = (
    "DejaVuSansMono.ttf",
    "/usr/share/fonts/truetype/dejavu/DejaVuSansMono.ttf",
    "LiberationMono-Regular.ttf",
    "NotoSansMono-Regular.ttf",
    "Menlo.ttc",
)
OTHERS = (
    "DejaVuSans.ttf",
    "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf",
    "NotoSansSymbols2-Regular.ttf",
    "Symbola.ttf",
)
"""Fallbacks for glyphs that the first font lacks: agents draw moons, spinners and marks."""
ALIKE = {"⎿": "└", "⏸": "‖", "⏵": "▶", "⬝": "▪", "✋": "☛", "⏳": "◷", "✨": "✦", "ℹ": "i"}
"""Similar characters for those that hardly any font has."""
BRAILLE = range(0x2800, 0x2900)
DOTS = ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (1, 3))
"""Column and row of each bit of a braille pattern."""


def save(screen: Screen, path: str) -> None:
    """Write the screen to `path` as PNG."""
    try:
        from PIL import Image, ImageDraw
    except ImportError:
        raise MissingExtra("a picture of the screen", "screen") from None
    from io import BytesIO

    fonts = Fonts()
    width, height = round(fonts.first.getlength("M")), SIZE + 4
    cols, rows = screen.size
    image = Image.new("RGB", (cols * width, rows * height), PAPER)
    draw = ImageDraw.Draw(image)
    for row in range(rows):
        for col, cell in enumerate(screen.cells(row)):
            _draw(draw, fonts, cell, col * width, row * height, width, height)
    x, y = screen.cursor
    if screen.cursor_visible:
        box = (x * width, y * height, (x + 1) * width - 1, (y + 1) * height - 1)
        draw.rectangle(box, outline=INK)
    data = BytesIO()
    image.save(data, "PNG")
    write_atomic(os.path.abspath(path), data.getvalue())


class Fonts:
    """The available fonts, and which of them has a glyph."""

    def __init__(self) -> None:
        from PIL import ImageFont

        found = [font for name in (*FONTS, *OTHERS) if (font := _load(name))]
        self.every: list[Any] = found or [ImageFont.load_default(SIZE)]
        self.first = self.every[0]
        self._known: dict[str, tuple[str, Any] | None] = {}

    def glyph(self, text: str) -> tuple[str, Any] | None:
        """The text, or a similar one, and a font that can draw it; None when no font can."""
        if text not in self._known:
            tries = [(each, font) for each in (text, ALIKE.get(text, text)) for font in self.every]
            self._known[text] = next(((each, font) for each, font in tries if _has(font, each)), None)
        return self._known[text]


def _load(name: str) -> Any:
    from PIL import ImageFont

    try:
        return ImageFont.truetype(name, SIZE)
    except OSError:
        return None


def _has(font: Any, text: str) -> bool:
    """Whether the font has a glyph for the first character; if not, it draws its glyph for missing characters."""
    return bytes(font.getmask(text[0])) != bytes(font.getmask("\U0010ffff"))


def _draw(draw: Any, fonts: Fonts, cell: Cell, x: int, y: int, width: int, height: int) -> None:
    ink, paper = colours(cell)
    if paper != PAPER:
        draw.rectangle((x, y, x + width - 1, y + height - 1), fill=paper)
    if cell.text.strip():
        _write(draw, fonts, cell.text, x, y, width, height, ink)
        if cell.bold:
            _write(draw, fonts, cell.text, x + 1, y, width, height, ink)
    if cell.underline:
        draw.line((x, y + height - 2, x + width - 1, y + height - 2), fill=ink)


def colours(cell: Cell) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """The visible foreground and background colours."""
    ink, paper = cell.colour or INK, cell.background or PAPER
    if cell.inverse:
        ink, paper = paper, ink
    if cell.faint:
        ink = ((ink[0] + paper[0]) // 2, (ink[1] + paper[1]) // 2, (ink[2] + paper[2]) // 2)
    return ink, paper


def _write(draw: Any, fonts: Fonts, text: str, x: int, y: int, width: int, height: int, ink: tuple[int, ...]) -> None:
    if ord(text[0]) in BRAILLE:
        for bit, (column, row) in enumerate(DOTS):
            if ord(text[0]) - BRAILLE.start & 1 << bit:
                left, top = x + width * (1 + 2 * column) // 4 - 1, y + height * (1 + 2 * row) // 8 - 1
                draw.rectangle((left, top, left + 1, top + 1), fill=ink)
        return
    known, font = fonts.glyph(text) or (text, fonts.first)
    draw.text((x, y + 1), known, font=font, fill=ink)
