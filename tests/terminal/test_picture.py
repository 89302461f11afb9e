from xml.etree import ElementTree

import pytest

from tests.svg import as_svg
from tests.terminal.recordings import NAMES, load
from treadle.terminal.picture import BRAILLE, Fonts, _write
from treadle.terminal.screen import Screen, colour, palette


@pytest.mark.parametrize(
    ("number", "value"),
    [(0, (0, 0, 0)), (15, (255, 255, 255)), (16, (0, 0, 0)), (196, (255, 0, 0)), (231, (255,) * 3), (244, (128,) * 3)],
)
def test_the_palette_is_the_usual_one(number: int, value: tuple[int, int, int]) -> None:
    assert palette(number) == value


def test_a_colour_is_none_a_number_or_three() -> None:
    assert colour(None) is None
    assert colour(("palette", 196)) == colour(("rgb", (255, 0, 0))) == (255, 0, 0)


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


def test_what_nobody_can_draw_is_none() -> None:
    assert Fonts().glyph("\U0010fffe") is None


def test_a_braille_pattern_is_drawn_as_its_dots() -> None:
    drawn: list[tuple[int, int]] = []

    class Draw:
        def rectangle(self, box: tuple[int, int, int, int], fill: object) -> None:
            drawn.append(box[:2])

    _write(Draw(), Fonts(), "\u2881", 0, 0, 8, 16, (0, 0, 0))  # the first and the last dot
    assert drawn == [(1, 1), (5, 13)]
