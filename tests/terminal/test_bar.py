import re

import pytest

from treadle.terminal.bar import Bar, span


def shown(bar: Bar, cols: int, now: float) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", bar.line(cols, now))


@pytest.mark.parametrize("cols", [1, 10, 40, 200])
def test_the_line_is_exactly_as_wide_as_the_terminal(cols: int) -> None:
    bar = Bar("a-rather-long-session-name")
    assert len(shown(bar, cols, 0.0)) == cols
    bar.state({"name": "thinking", "since_ms": 0})
    assert len(shown(bar, cols, bar._since + 5)) == cols


def test_it_shows_name_state_and_time_and_what_is_waited_for() -> None:
    bar = Bar("a1")
    assert shown(bar, 40, 0.0).rstrip().endswith("...")
    bar.state({"name": "streaming", "since_ms": 2000})
    assert shown(bar, 60, bar._since + 75).rstrip().endswith("streaming 1m15s")
    bar.state({"name": "idle", "waiting_for": "permission", "since_ms": 0})
    assert "waiting: permission 3s" in shown(bar, 60, bar._since + 3)


def test_a_program_that_takes_the_whole_screen_gets_all_but_the_last_line() -> None:
    assert Bar("x").fenced(b"a\x1b[rb\x1b[;rc\x1b[2;5rd", 80, 24) == b"a\x1b[1;23rb\x1b[1;23rc\x1b[2;5rd"


def test_it_is_painted_when_something_changed_and_once_a_second() -> None:
    bar = Bar("x")
    assert bar.paint(80, 24)
    assert not bar.paint(80, 24)
    assert 0 < bar.pause() <= 1
    bar.fenced(b"\x1b[2J", 80, 24)
    assert bar.paint(80, 24)


def test_a_time_is_short() -> None:
    assert [span(0), span(59), span(60), span(3725)] == ["0s", "59s", "1m0s", "62m5s"]
