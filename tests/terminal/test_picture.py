from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.svg import as_svg
from tests.terminal.recordings import NAMES, load
from treadle.terminal.viewers.screen import (
    BRAILLE,
    INK,
    PAPER,
    SIZE,
    Cell,
    Fonts,
    Screen,
    _write,
    colours,
    palette,
    save,
)


def texts(svg: str) -> list[tuple[str, dict[str, str]]]:
    found = ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    return [(one.text or "", one.attrib) for one in found]


def test_a_screen_is_drawn_with_its_colours_and_its_text_is_text() -> None:
    with Screen(40, 6) as screen:
        screen.feed(b"plain \x1b[1;31mbold red\x1b[0m\r\n    \x1b[4munder\x1b[0m <b> & \x1b[7minverse\x1b[0m")
        svg = as_svg(screen, 'A "title" & more')
    assert '<title>A "title" &amp; more</title>' in svg
    drawn = dict(texts(svg))
    assert drawn["bold red"]["font-weight"] == "bold" and drawn["bold red"]["fill"] != drawn["plain"]["fill"]
    assert drawn["under"]["text-decoration"] == "underline" and "<b> &" in drawn


def test_every_piece_of_text_is_held_to_the_grid() -> None:
    with Screen(40, 6) as screen:
        screen.feed(b"a b    c\r\n\x1b[32m-     indented\x1b[0m")
        drawn = dict(texts(as_svg(screen, "x")))
    assert drawn["a b"]["textLength"] == str(3 * 9)
    assert int(drawn["c"]["x"]) - int(drawn["a b"]["x"]) == 7 * 9
    assert int(drawn["indented"]["x"]) - int(drawn["-"]["x"]) == 6 * 9


def test_empty_rows_at_the_end_are_left_out() -> None:
    with Screen(10, 50) as screen:
        screen.feed(b"one\r\ntwo\r\n")
        root = ElementTree.fromstring(as_svg(screen, "x"))
    assert int(root.attrib["viewBox"].split()[3]) < 100


def test_what_agents_draw_has_a_glyph() -> None:
    fonts = Fonts()
    if len(fonts.every) < 3:
        return  # without the DejaVu fonts, it is drawn as well as possible
    drawn = {letter for name in NAMES for letter in load(name).data.decode("utf-8", "ignore") if ord(letter) > 127}
    missing = {letter for letter in drawn - set(map(chr, BRAILLE)) if letter.isprintable() and not fonts.glyph(letter)}
    assert missing == set()


def test_a_braille_pattern_is_drawn_as_its_dots() -> None:
    drawn: list[tuple[int, int]] = []

    class Draw:
        def rectangle(self, box: tuple[int, int, int, int], fill: object) -> None:
            drawn.append(box[:2])

    _write(Draw(), Fonts(), "\u2881", 0, 0, 8, 16, (0, 0, 0))  # the first and the last dot
    assert drawn == [(1, 1), (5, 13)]


def test_a_picture_has_the_colours_of_the_screen(tmp_path: Path) -> None:
    from PIL import Image

    with Screen(10, 3) as screen:
        screen.feed("\x1b[41mred\x1b[0m \x1b[38;2;0;255;0mgrün\x1b[0m\r\n\x1b[7minverse\x1b[0m 界".encode())
        assert [cell.text for cell in screen.cells(1)[:10]] == [*"inverse", " ", "界", ""]
        save(screen, str(tmp_path / "x.png"))
    image = Image.open(tmp_path / "x.png").convert("RGB")
    colours = {colour for _, colour in image.getcolors(100_000) or []}
    assert {palette(1), (0, 255, 0), (18, 18, 18), (229, 229, 229)} <= colours


def test_a_picture_is_as_large_as_its_cells_with_the_cursor_in_its_place(tmp_path: Path) -> None:
    from PIL import Image

    def pixels(data: bytes) -> tuple[tuple[int, int], set[tuple[int, int]]]:
        """The size, and the cells in which something is drawn."""
        with Screen(6, 2) as screen:
            screen.feed(data)
            save(screen, str(tmp_path / "x.png"))
        image = Image.open(tmp_path / "x.png").convert("RGB")
        wide, high = image.size[0] // 6, image.size[1] // 2
        drawn = {
            (x // wide, y // high)
            for x in range(image.size[0])
            for y in range(image.size[1])
            if image.getpixel((x, y)) != PAPER
        }
        return (wide, high), drawn

    (wide, high), drawn = pixels(b"\x1b[?25l\x1b[2;5HM")
    assert high == SIZE + 4 and 5 < wide < high and drawn == {(4, 1)}
    assert pixels(b"\x1b[2;4H")[1] == {(3, 1)}, "the cursor is a frame"
    assert pixels(b"\x1b[?25l")[1] == set()
    assert pixels(b"\x1b[?25l\x1b[1;3H\x1b[42m ")[1] == {(2, 0)}
    assert pixels(b"\x1b[?25l\x1b[1;6H\x1b[4m ")[1] == {(5, 0)}, "an underlined space has its line"


@pytest.mark.parametrize(
    ("look", "ink", "paper"),
    [
        ({}, INK, PAPER),
        ({"fg": ("rgb", (1, 2, 3))}, (1, 2, 3), PAPER),
        ({"bg": ("rgb", (1, 2, 3)), "inverse": True}, (1, 2, 3), INK),
        ({"fg": ("rgb", (10, 20, 30)), "bg": ("rgb", (0, 2, 4)), "faint": True}, (5, 11, 17), (0, 2, 4)),
    ],
)
def test_colours_are_as_they_are_seen(look: dict[str, Any], ink: object, paper: object) -> None:
    style = {"fg": None, "bg": None, "bold": False, "faint": False, "inverse": False, "underline": 0, **look}
    assert colours(Cell("x", style)) == (ink, paper)
