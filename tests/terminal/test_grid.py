"""The supervisor's own screen compared with a complete emulator: the same characters in the same places."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.terminal.recordings import NAMES, load
from treadle.terminal.grid import Grid
from treadle.terminal.screen import Screen

MARKS = dict.fromkeys(map(ord, "\ufe0e\ufe0f\u200d"))
"""Characters without a cell of their own are not kept."""


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("qwen")] + ["qwen-start"])
def test_at_every_labelled_moment_it_shows_what_the_emulator_shows(name: str) -> None:
    recording = load(name)
    grid, at = Grid(*recording.size), 0
    with Screen(*recording.size) as screen:
        for moment in recording.moments:
            data, at = recording.data[at : moment["byte"]], max(at, moment["byte"])
            grid.feed(data)
            screen.feed(data)
            assert grid.lines() == [line.translate(MARKS) for line in screen.lines()], moment


def csi(final: str, most: int = 12) -> st.SearchStrategy[str]:
    numbers = st.lists(st.integers(0, most), max_size=2 if final in "Hr" else 1)
    return numbers.map(lambda found: f"\x1b[{';'.join(map(str, found))}{final}")


PIECES = st.one_of(
    st.text("abc xyz", max_size=14),
    st.sampled_from(["漢字", "🌑", "é", "─" * 9, "e\u0301"]),
    st.sampled_from(["\r", "\n", "\b", "\t", "\r\n", "\x1b7", "\x1b8", "\x1bM", "\x1bD", "\x1bE"]),
    st.sampled_from(["\x1b[?1049h", "\x1b[?1049l", "\x1b(0lqqk\x1b(B", "\x1b[1;31m", "\x1b]0;title\x07", "\x1b[?25l"]),
    *(csi(final) for final in "ABCDEFGHJKLMPX@STdr"),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(PIECES, max_size=25))
def test_random_sequences_are_drawn_as_the_emulator_draws_them(pieces: list[str]) -> None:
    data = "".join(pieces).encode()
    grid = Grid(10, 5)
    with Screen(10, 5) as screen:
        grid.feed(data)
        screen.feed(data)
        assert [line.rstrip() for line in grid.lines()] == [plain(line) for line in screen.lines()]
        assert (grid.x, grid.y) == screen.cursor


def plain(line: str) -> str:
    return line.replace("e\u0301", "e").translate(MARKS).rstrip()


@given(st.binary(max_size=300), st.integers(0, 300), st.integers(0, 100))
def test_no_bytes_and_no_size_break_it(data: bytes, cols: int, rows: int) -> None:
    grid = Grid(cols, rows)
    grid.feed(data)
    grid.resize(rows, cols)
    grid.feed(data)
    assert len(grid.lines()) == grid.height
    assert all(len(row) == grid.cols for row in grid.buffer.rows)


def test_a_smaller_screen_keeps_the_rows_at_the_cursor() -> None:
    grid = Grid(20, 6)
    grid.feed(b"one\r\ntwo\r\nthree\r\nfour\r\nfive")
    grid.resize(20, 3)
    assert grid.lines() == ["three", "four", "five"]
    grid.resize(4, 4)
    assert grid.lines() == ["thre", "four", "five", ""]


def test_a_screen_larger_than_anybody_reads_is_bounded() -> None:
    grid = Grid(0xFFFF, 0xFFFF)
    grid.feed(b"\x1b[60000;60000Hx\x1b[99999b")
    assert len(grid.lines()) == grid.height <= 500
