"""What is shown to a person cannot act on their terminal, and keys are known by their names."""

import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.terminal.support import Desk
from treadle.terminal.viewers.panel import GONE, RESIZED, Panel, fitted, harmless, width
from treadle.terminal.viewers.screen import INVERSE, Screen


@given(st.text(), st.integers(0, 30))
def test_a_text_fills_its_columns_and_has_nothing_that_acts(text: str, cols: int) -> None:
    shown = fitted(text, cols)
    assert width(shown) == cols and (shown.isprintable() or not shown)
    assert width(harmless(text)) == width(text)


@pytest.fixture
def panel(desk: Desk) -> Panel:
    return Panel(desk.signals)


def marked(desk: Desk) -> tuple[list[str], list[int]]:
    """The rows of the terminal, and which of them are marked."""
    with Screen(40, 10) as screen:
        screen.feed(desk.written().encode())
        rows = screen.lines()
        return rows, [number for number in range(len(rows)) if any(run[3] & INVERSE for run in screen.runs(number))]


def test_it_has_a_screen_of_its_own_while_it_is_open(desk: Desk, panel: Panel) -> None:
    with panel as same:
        assert same is panel and desk.written() == "\x1b[?1049h\x1b[?25l\x1b[2J"
    assert desk.written() == "\x1b[0m\x1b[?25h\x1b[?1049l"
    assert panel.size == (40, 10)
    desk.resize(1, 1)
    assert panel.size == (2, 2)
    panel.write("\ud800é")
    assert desk.written() == "?é"


@pytest.mark.parametrize(
    ("number", "key", "gone"),
    [
        (signal.SIGWINCH, RESIZED, False),
        (signal.SIGTERM, GONE, True),
        (signal.SIGHUP, GONE, True),
        (signal.SIGQUIT, GONE, True),
    ],
)
def test_a_signal_is_told_as_if_it_were_a_key(desk: Desk, panel: Panel, number: int, key: str, gone: bool) -> None:
    desk.signalled(number)
    assert panel.key() == key and panel.gone is gone


def test_keys_come_one_by_one_until_the_terminal_is_gone(desk: Desk, panel: Panel) -> None:
    desk.types(b"a\x1b[5~\x1b[99~b")
    assert [panel.key() for _ in range(3)] == ["a", "page up", "b"] and not panel.gone
    desk.hangs_up()
    assert panel.key() == GONE and panel.gone


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        (b"yz\x7f\x1b[5~\r", "xy"),
        (b"\x15new\n", "new"),
        (b"\x7f\x7f\b\r", ""),
        (b"\x01 \xc3\xa9\r", "x é"),
        (b"z\x03", None),
        (b"\x1b", None),
    ],
)
def test_a_line_is_typed_at_the_bottom_or_left(desk: Desk, panel: Panel, typed: bytes, text: str | None) -> None:
    desk.types(typed)
    assert panel.ask("name?", "x") == text
    assert desk.written().startswith(f"\x1b[10;1H\x1b[0m{'name? x█':40}")


def test_a_line_that_is_being_typed_follows_the_window_and_ends_with_it(desk: Desk, panel: Panel) -> None:
    desk.signalled(signal.SIGWINCH)
    desk.types(b"a\r")
    assert panel.ask("q?") == "a"
    desk.signalled(signal.SIGTERM)
    assert panel.ask("q?") is None and panel.gone


@pytest.mark.parametrize(
    ("typed", "chosen"),
    [
        (b"\r", 1),
        (b"jjj\r", 2),
        (b"\x1b[B\r", 2),
        (b"\t\r", 2),
        (b"kkk\r", 0),
        (b"\x1b[A\r", 0),
        (b"\x1b[Z\r", 0),
        (b"043", 2),
        (b"1", 0),
        (b"xq", None),
        (b"\x1b", None),
        (b"\x03", None),
    ],
)
def test_a_line_is_chosen_by_arrows_or_by_its_number(
    desk: Desk, panel: Panel, typed: bytes, chosen: int | None
) -> None:
    desk.types(typed)
    assert panel.choose(["one", "two", "three"], "foot", 1) == chosen
    desk.types(b"\r")
    desk.written()
    assert panel.choose(["one", "two"], "foot") == 0
    assert marked(desk) == (["one", "two", *[""] * 7, "foot"], [0, 9])
