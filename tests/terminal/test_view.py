from treadle.terminal.detectors import named
from treadle.terminal.state import UNREAD_MAX, CharacterView


def test_of_a_flood_only_the_end_is_drawn_where_the_screen_does_not_matter() -> None:
    for matters in (True, False):
        view = CharacterView(20, 2)
        view.output(b"\x1b[2;5Hbefore\x1b[H", matters=matters)
        view.output(b"\0" * UNREAD_MAX, matters=matters)
        view.output(b"end", matters=matters)
        assert view.lines()[0] == "end"
        assert ("before" in view.lines()[1]) == matters


def test_what_is_beside_an_agents_input_box_is_not_on_its_screen() -> None:
    rows = [
        "  ┃  日本" + " " * 14 + "New session",
        "  ┃  Build · Big Model     Context",
        "  ╹" + "▀" * 20,
        "  ~/x" + " " * 21 + "1.0",
    ]
    view = CharacterView(40, 5)
    view.output("\r\n".join(rows).encode(), matters=True)
    assert view.lines()[0].endswith("New session")
    view.box = named("opencode").box
    assert view.lines() == ["  ┃  日本", "  ┃  Build · Big Model", rows[2], "  ~/x", ""]
