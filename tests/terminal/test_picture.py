from xml.etree import ElementTree

from tests.svg import as_svg
from treadle.terminal.viewers.screen import Screen


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
