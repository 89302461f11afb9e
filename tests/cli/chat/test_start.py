"""How a chat begins."""

from collections.abc import Callable

import pytest

from tests.cli.chat.terminal import ChatTerminal
from treadle.cli.chat.command import _theme


def test_a_prompt_on_the_command_line_is_the_first_one(chat: Callable[..., ChatTerminal]) -> None:
    terminal = chat("chat", "still there?")
    terminal.until("(?s)> still there.*Yes, I am.")
    terminal.ready()
    terminal.say("/model")
    terminal.until("Which model")


@pytest.mark.parametrize(
    ("wanted", "colours", "theme"),
    [
        ("light", "15;0", "light"),
        ("dark", "0;15", "dark"),
        ("auto", "0;15", "light"),
        ("auto", "0;default;7", "light"),
        ("auto", "15;0", "dark"),
        ("auto", "", "dark"),
    ],
)
def test_the_theme_is_the_one_that_was_asked_for_or_fits_the_terminal(
    wanted: str, colours: str, theme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLORFGBG", colours)
    assert _theme(wanted) == theme
