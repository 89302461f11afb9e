"""Looking through lines on a small screen."""

import re

from hypothesis import given
from hypothesis import strategies as st

from treadle.terminal.pager import Pager
from treadle.terminal.panel import width

LINES = st.lists(st.text(st.characters(categories=["L", "N", "P", "Zs", "So"]), max_size=40), max_size=40)


def plain(rows: list[str]) -> list[str]:
    return [re.sub(r"\x1b\[[0-9;]*m", "", row).rstrip() for row in rows]


def test_it_begins_at_the_end_and_stays_within_the_lines() -> None:
    pager = Pager([str(number) for number in range(100)], 20, 10)
    assert plain(pager.page()) == [str(number) for number in range(90, 100)]
    pager.move(5)
    assert plain(pager.page())[-1] == "99"
    pager.move(-1000)
    assert plain(pager.page())[0] == "0"


def test_it_searches_upwards_from_where_one_is_and_on_in_both_directions() -> None:
    pager = Pager([f"{'Error' if number % 30 == 5 else 'fine'} {number}" for number in range(100)], 20, 10)
    assert pager.search("error") and "Error 95" in plain(pager.page())
    assert pager.next(-1) and "Error 65" in plain(pager.page())
    assert pager.next(-1) and pager.next(-1) and "Error 5" in plain(pager.page())
    assert not pager.next(-1) and "Error 5" in plain(pager.page())
    assert pager.next(1) and "Error 35" in plain(pager.page())
    assert not pager.search("ERROR")


def test_what_was_sought_is_marked() -> None:
    pager = Pager(["a fine line", "an Error here"], 20, 5)
    assert pager.search("error")
    assert "an \x1b[7mError\x1b[0m here" in pager.page()[1]


def test_another_width_keeps_the_line_at_the_top() -> None:
    pager = Pager(["x" * 50 + str(number) for number in range(100)], 20, 10)
    pager.move(-150)
    line = pager.rows[pager.top][0]
    pager.wrap(60, 10)
    assert pager.rows[pager.top][0] == line


@given(LINES, st.integers(2, 30), st.integers(1, 10), st.lists(st.integers(-50, 50), max_size=5))
def test_every_row_has_the_width_and_no_text_is_lost(lines: list[str], cols: int, rows: int, moves: list[int]) -> None:
    pager = Pager(lines, cols, rows)
    for by in moves:
        pager.move(by)
    assert len(pager.page()) == rows
    assert all(width(row) == cols for row in pager.page())
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    assert "".join(part for _, part in pager.rows) == "".join(lines)


@given(LINES, st.text(min_size=1, max_size=3))
def test_it_finds_a_text_exactly_where_there_is_one(lines: list[str], sought: str) -> None:
    pager = Pager(lines, 10, 5)
    small = sought == sought.lower()
    there = any(sought in (line.lower() if small else line) for line in pager.lines)
    if all(len(letter.lower()) == 1 for line in lines for letter in line):
        assert pager.search(sought) == there
