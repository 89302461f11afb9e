from treadle.terminal.state import UNREAD_MAX, CharacterView


def test_of_a_flood_only_the_end_is_drawn_where_the_screen_does_not_matter() -> None:
    for matters in (True, False):
        view = CharacterView(20, 2)
        view.output(b"\x1b[2;5Hbefore\x1b[H", matters=matters)
        view.output(b"\0" * UNREAD_MAX, matters=matters)
        view.output(b"end", matters=matters)
        assert view.lines()[0] == "end"
        assert ("before" in view.lines()[1]) == matters
