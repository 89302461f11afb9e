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


def test_a_flood_is_one_byte_more_than_is_kept() -> None:
    for size, kept in ((UNREAD_MAX - 3, True), (UNREAD_MAX - 2, False)):
        view = CharacterView(20, 2)
        view.output(b"abc", matters=False)
        view.output(b"\0" * size, matters=False)
        assert (view.lines() == ["abc", ""]) == kept and view.total == size + 3


def test_one_piece_is_drawn_however_large_and_lines_below_the_cursor_may_not_count() -> None:
    view = CharacterView(20, 3)
    view.output(b"x" + b"\0" * UNREAD_MAX, matters=False)
    assert view.lines() == ["x", "", ""] and view.cursor() == (1, 0)
    view.output(b"\x1b[2;20Hy", matters=False)
    assert view.cursor() == (19, 1)
    view.output(b"\x1b[3;1Hlow\x1b[2;1H", matters=False)
    view.to_cursor = True
    assert view.lines() == ["x", f"{' ' * 19}y"]
    view.resize(5, 2)
    assert view.size == (5, 2) and len(view.lines()) <= 2
