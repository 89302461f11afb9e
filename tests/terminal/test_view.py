from treadle.terminal.state import UNREAD_MAX, CharacterView


def test_it_is_blank_until_something_is_written() -> None:
    view = CharacterView(20, 3)
    assert not view.drawn and view.lines() == []
    view.output(b"hello", matters=True)
    assert view.drawn and view.lines() == ["hello", "", ""] and view.total == 5


def test_a_sequence_may_come_in_pieces_and_the_size_may_change_between() -> None:
    view = CharacterView(20, 3)
    view.output(b"one\x1b[", matters=True)
    assert view.lines()[0] == "one"
    view.resize(20, 2)
    view.output(b"2;1Htwo", matters=True)
    assert view.lines() == ["one", "two"]


def test_of_a_flood_only_the_end_is_drawn_where_the_screen_does_not_matter() -> None:
    for matters in (True, False):
        view = CharacterView(20, 2)
        view.output(b"\x1b[2;5Hbefore\x1b[H", matters=matters)
        view.output(b"\0" * UNREAD_MAX, matters=matters)
        view.output(b"end", matters=matters)
        assert view.lines()[0] == "end"
        assert ("before" in view.lines()[1]) == matters
