"""The supervisor's own screen compared with a complete emulator: the same characters in the same places."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.terminal.recordings import STARTS, load
from treadle.terminal.grid import Grid
from treadle.terminal.viewers.screen import Screen

MARKS = dict.fromkeys(map(ord, "\ufe0e\ufe0f\u200d"))
"""Characters without a cell of their own are not kept."""


@pytest.mark.parametrize("name", [*STARTS, "claude-ask", "codex-ask", "gemini-menu", "kimi-ask", "opencode-perm-deny"])
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


FILLED = "aaaaaaaaaa\r\nbbbb\r\ncccccccc\r\ndd\r\neeeee\x1b[H"


@pytest.mark.parametrize("before", ["", FILLED], ids=["blank", "filled"])
@pytest.mark.parametrize(
    "text",
    [
        *("0123456789abc", "0123456789\rX", "0123456789\bX", "\x1b[?7l0123456789abc", "\x1b[?7l0123456789\x1b[?7hXY"),
        *(
            "012345678漢",
            "\x1b[?7l012345678漢X",
            "漢字\x1b[1;2HX",
            "漢字\x1b[1;3HX",
            "漢字\x1b[1;2H字",
            "012345678漢\x1b[1;1Hx",
        ),
        *(
            "\x1b[4hXY\x1b[1;1HZ",
            "\x1b[4h漢\x1b[1;1H字\x1b[4lX",
            "\x1b[4hXY\x1b[4l\x1b[1;1HZ",
            "漢\x1b[1;2H\x1b[@",
            "漢漢\x1b[1;2H\x1b[P",
        ),
        *(
            "漢字\x1b[1;2H\x1b[4hX",
            "漢字\x1b[1;2H\x1b[4h漢",
            "\x1b[1;9H漢\x1b[1;1H\x1b[4hX",
            "\x1b[1;9H漢\x1b[1;1H\x1b[4h字",
        ),
        *("\x1b[2;4r\x1b[4;1H\nX", "\x1b[2;4r\x1b[5;1H\nX", "\x1b[2;4r\x1b[2;1H\x1bMX", "\x1b[2;4r\x1b[1;1H\x1bMX"),
        *(
            "\x1b[2;4r\x1b[?6h\x1b[1;1HX\x1b[9;1HY\x1b[?6lZ",
            "\x1b[2;4r\x1b[?6h\x1b[2dX",
            "\x1b[4;2rX",
            "\x1b[2;99r\x1b[5;1H\nX",
        ),
        *(
            "\x1b[2;4r\x1b[3;1H\x1b[9A\x1b[CX",
            "\x1b[2;4r\x1b[3;1H\x1b[9B\x1b[CX",
            "\x1b[3;4r\x1b[1;1H\x1b[9AX",
            "\x1b[1;2r\x1b[5;1H\x1b[9BX",
        ),
        *(
            "\x1b[2;4r\x1b[3;4H\x1b[LX",
            "\x1b[2;4r\x1b[5;4H\x1b[LX",
            "\x1b[2;4r\x1b[1;4H\x1b[MX",
            "\x1b[2;4r\x1b[4;4H\x1b[9MX",
        ),
        *("\x1b[2;4r\x1b[S", "\x1b[2;4r\x1b[9T", "\x1b[2S", "\x1b[T", "\x1b[3;3H\x1b[2L", "\x1b[3;3H\x1b[2M"),
        *(
            "\x1b[1;3H\x1b[K",
            "\x1b[1;3H\x1b[1K",
            "\x1b[1;3H\x1b[2K",
            "\x1b[1;3H\x1b[3K",
            "\x1b[3;3H\x1b[J",
            "\x1b[3;3H\x1b[1J",
        ),
        *(
            "\x1b[3;3H\x1b[2J",
            "\x1b[3;3H\x1b[3J",
            "\x1b[1;3H\x1b[4X",
            "\x1b[1;3H\x1b[99X",
            "\x1b[1;3H\x1b[2P",
            "\x1b[1;3H\x1b[99P",
        ),
        *(
            "\x1b[1;3H\x1b[2@",
            "\x1b[1;3H\x1b[99@",
            "\x1b[5Gx",
            "\x1b[0Gx",
            "\x1b[5`x",
            "\x1b[3ax",
            "\x1b[2ex",
            "\x1b[2;3fx",
            "\x1b[3dx",
        ),
        *(
            "\x1b[3;5H\x1b[2Ex",
            "\x1b[3;5H\x1b[2Fx",
            "\x1b[3;5H\x1b[Dx\x1b[0Cy",
            "\x1b[99;99Hx",
            "\x1b[3;5H\x1b7\x1b[H\x1b8x",
            "\x1b[3;5H\x1b[s\x1b[H\x1b[ux",
        ),
        *(
            "\tX\tY",
            "\t\tX",
            "ab\x0bX",
            "ab\x0cX",
            "ab\x1bDX",
            "ab\x1bEX",
            "\x1b[5;1H\x1bDX",
            "\x1b[5;3H\nX",
            "ab\b\b\bX",
        ),
        *(
            "\x1b(0lqkx\x1b(Blqk",
            "\x1b[?1049hnew\x1b[?1049lX",
            "\x1b[3;3H\x1b[?1049h\x1b[5;5H\x1b[?1049lX",
            "\x1b[?1049h\x1b[?1049hx",
        ),
        *("ab\x1b[3b", "ab\x1b[0b", "\x1b[2;3r\x1bcX", "\x1b[?25lX\x1b[>4;2m", "\x1b]0;t\x07X", "e\u0301X"),
        *(
            "0123456789\x1b[KX",
            "0123456789\x1b[AX",
            "0123456789\nX",
            "0123456789\x1b[@X",
            "0123456789\x1b[PX",
            "0123456789\x1b[XY",
            "0123456789\tX",
        ),
    ],
)
def test_each_sequence_is_drawn_as_the_emulator_draws_it(before: str, text: str) -> None:
    grid = Grid(10, 5)
    with Screen(10, 5) as screen:
        for data in (before.encode(), text.encode()):
            grid.feed(data)
            screen.feed(data)
        assert [line.rstrip() for line in grid.lines()] == [plain(line) for line in screen.lines()]
        assert (grid.x, grid.y) == screen.cursor
