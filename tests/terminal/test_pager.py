"""Looking through lines on a small screen."""

import re
import signal

from hypothesis import given
from hypothesis import strategies as st

from tests.terminal.support import Desk
from treadle.terminal.viewers.panel import Panel, width
from treadle.terminal.viewers.screen import Screen
from treadle.terminal.viewers.wall import PAGER_KEYS, Pager, look_through

LINES = st.lists(st.text(st.characters(categories=["L", "N", "P", "Zs", "So"]), max_size=40), max_size=40)


def plain(rows: list[str]) -> list[str]:
    return [re.sub(r"\x1b\[[0-9;]*m", "", row).rstrip() for row in rows]


def paged(lines: list[str], cols: int, rows: int) -> Pager:
    return Pager(screen_of(lines), cols, rows)


def screen_of(lines: list[str]) -> Screen:
    screen = Screen(200, 4, 1000)
    screen.feed("\r\n".join(lines).encode())
    return screen


@given(LINES, st.integers(2, 30), st.integers(1, 10), st.lists(st.integers(-50, 50), max_size=5))
def test_every_row_has_the_width_and_no_text_is_lost(lines: list[str], cols: int, rows: int, moves: list[int]) -> None:
    pager = paged(lines, cols, rows)
    for by in moves:
        pager.move(by)
    assert len(pager.page(True)) == rows
    assert all(width(re.sub(r"\x1b\[[0-9;]*m", "", row)) == cols for row in pager.page(True))
    assert "".join(part for _, _, part in pager.rows) == "".join(pager.lines)
    pager.select(0, begin=True)
    pager.move(-(1 << 40))
    pager.ends = (0, len(pager.rows) - 1)
    assert pager.selected() == "\n".join(pager.lines)


@given(LINES, st.text(min_size=1, max_size=3))
def test_it_finds_a_text_exactly_where_there_is_one(lines: list[str], sought: str) -> None:
    pager = paged(lines, 10, 5)
    small = sought == sought.lower()
    there = any(sought in (line.lower() if small else line) for line in pager.lines)
    if all(len(letter.lower()) == 1 for line in lines for letter in line):
        assert pager.search(sought) == there


def test_a_line_in_several_rows_is_found_once_at_its_first_row_and_keeps_its_colours() -> None:
    pager = paged(["aaaaaxbb", "x", "漢字\x1b[31m漢字"], 4, 10)
    assert [part for _, _, part in pager.rows] == ["aaaa", "axbb", "x", "漢字", "漢字"]
    assert "205;49;49" in pager.page(True)[4] and "205;49;49" not in pager.page(True)[3]
    assert pager.search("x") and pager._found == 2 and pager.next(-1) and pager._found == 0
    assert pager.page(True)[1] == "a\x1b[7mx\x1b[0mbb" and pager.page(True)[5] == "    "


def test_a_search_goes_on_in_a_window_of_another_size() -> None:
    pager = paged(["x" * 100] * 50, 10, 5)
    assert pager.search("x")
    pager.wrap(100, 5)
    assert pager.next(-1) and pager._found < 50


def looked_through(desk: Desk, keys: bytes, lines: list[str], **how: bool) -> list[tuple[list[str], str]]:
    """Each picture: its rows and its last line."""
    desk.types(keys)
    look_through(Panel(desk.signals), "t", screen_of(lines), **how)
    found = []
    for drawn in desk.written().split("\x1b[?2026h")[1:]:
        *rows, footer = re.split(r"\x1b\[\d+;1H", drawn.partition("\x1b[?2026l")[0])
        found.append((plain(rows[1:]), re.sub(r"\x1b\[\d*m", "", footer).strip()))
    return found


def test_a_search_says_what_it_does_not_find(desk: Desk) -> None:
    desk.resize(120, 10)
    lines = [f"{'Error' if number % 50 == 5 else 'fine'} {number}" for number in range(100)]
    pictures = looked_through(desk, b"/error\rnnNq", lines)
    shown = ["Error 55" in rows for rows, _ in pictures]
    assert shown == [False, False, True, False, False, True]
    footers = [footer.partition("of 100")[2].strip() for _, footer in pictures]
    assert footers[2] == PAGER_KEYS
    assert footers[4] == "'error' is not further up" and pictures[1][1] == ""
    assert looked_through(desk, b"\x15none\rq", lines, searching=True)[-1][1].endswith("'none' is not in it")
    last = looked_through(desk, b"N\x1b", lines)[-1][1]
    assert last.partition("of 100")[2].strip().startswith(PAGER_KEYS[:9])
    assert looked_through(desk, b"\rq", lines, searching=True)[-1][1].partition("of 100")[2].strip() != ""


def test_another_window_is_filled_anew_and_a_signal_ends_it(desk: Desk) -> None:
    desk.signalled(signal.SIGTERM)
    assert len(looked_through(desk, b"", ["one"])) == 1
    desk.signalled(signal.SIGTERM)
    assert len(looked_through(desk, b"", ["one"], searching=True)) == 2, "also while it asks what to search"
