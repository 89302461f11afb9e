"""How a chat begins."""

from collections.abc import Callable

from tests.cli.chat.terminal import ChatTerminal
from tests.installed import treadle


def test_without_a_terminal_it_says_what_to_use_instead() -> None:
    done = treadle("chat")
    assert done.returncode == 2 and "treadle -p PROMPT" in done.stderr


def test_a_terminal_that_only_knows_lines_gets_lines(chat: Callable[..., ChatTerminal]) -> None:
    terminal = chat(TERM="dumb")
    terminal.say("still there?")
    terminal.until("Yes, I am.")
    assert b"\x1b" not in terminal.raw


def test_a_prompt_on_the_command_line_is_the_first_one(chat: Callable[..., ChatTerminal]) -> None:
    terminal = chat("chat", "still there?")
    terminal.until("(?s)> still there.*Yes, I am.")
