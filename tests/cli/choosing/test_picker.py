"""One of a few rows: by arrows, by numbers, or left."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.chat.terminal import ChatTerminal
from treadle.settings import config


def test_at_a_terminal_one_of_several_is_picked_with_the_arrows_and_kept(
    terminal: Callable[..., ChatTerminal], agent: str
) -> None:
    chat = terminal(ANTHROPIC_API_KEY="a", OPENAI_API_KEY="b")
    for shown in ("Which one should Treadle use", "anthropic:claude", "openai:gpt", "helper"):
        chat.until(shown)
    chat.keys("\x1b[B\x1b[B\r")
    chat.until("helper is used from now on")
    chat.ready()
    chat.say("are you there")
    chat.until("I heard")
    assert config.load(".").settings.agent == agent


@pytest.mark.parametrize(("options", "more"), [([], {}), (["--plain"], {}), (["--plain"], {"OPENAI_API_KEY": "b"})])
def test_ctrl_c_leaves_the_first_screen(
    terminal: Callable[..., ChatTerminal], options: list[str], more: dict[str, str]
) -> None:
    keys = {**more, "ANTHROPIC_API_KEY": "a"} if more else {}
    chat = terminal(*options, **keys)
    chat.until("or nothing to leave" if more else r"\[l/q\]")
    chat.keys("\x03")
    assert chat.ended() in (2, 130)


def test_without_a_screen_rows_have_numbers(terminal: Callable[..., ChatTerminal], script: Path) -> None:
    chat = terminal("--plain", OPENAI_API_KEY="b", ANTHROPIC_API_KEY="a")
    chat.until("or nothing to leave")
    chat.say("7")
    chat.say("2")
    chat.until("openai:gpt-6-sol is used from now on")
