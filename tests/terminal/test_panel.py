"""What is shown to a person cannot act on their terminal, and keys are known by their names."""

import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.terminal.support import Desk
from treadle.terminal.viewers.panel import (
    DRAGGED,
    GONE,
    PRESSED,
    RELEASED,
    RESIZED,
    WHEEL_DOWN,
    WHEEL_UP,
    Panel,
    fitted,
    harmless,
    key_forms,
    key_name,
    keys_in,
    mouse_at,
    width,
)


@given(st.text(), st.integers(0, 30))
def test_a_text_fills_its_columns_and_has_nothing_that_acts(text: str, cols: int) -> None:
    shown = fitted(text, cols)
    assert width(shown) == cols and (shown.isprintable() or not shown)
    assert width(harmless(text)) == width(text)


@pytest.fixture
def panel(desk: Desk) -> Panel:
    return Panel(desk.signals)


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


def test_the_detach_key_is_known_in_every_form_that_terminals_send_it() -> None:
    assert key_forms(0x1C) == {b"\x1c", b"\x1b[92;5u", b"\x1b[92;5:1u", b"\x1b[27;5;92~"}
    assert b"\x1b[97;5u" in key_forms(0x01) and key_forms(0) == frozenset() and key_forms(0x20) == {b" "}
    assert [key_name(key) for key in (1, 0x1D, 0x1F, 0x41)] == ["Ctrl-A", "Ctrl-]", "Ctrl-_", "A"]


def test_what_the_mouse_does_is_told_with_its_place_and_other_buttons_are_left_out() -> None:
    found = keys_in(b"a\x1b[<0;3;2M\x1b[<32;3;3M\x1b[<0;3;3m\x1b[<64;1;1M\x1b[<65;9;9M\x1b[<2;1;1Mb")
    assert [mouse_at(key) for key in found[1:-1]] == [
        (PRESSED, 2, 1),
        (DRAGGED, 2, 2),
        (RELEASED, 2, 2),
        (WHEEL_UP, 0, 0),
        (WHEEL_DOWN, 8, 8),
    ]
    assert (found[0], found[-1], mouse_at("page up")[0]) == ("a", "b", "")
