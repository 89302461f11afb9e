"""One of a few rows: by arrows, by numbers, or left."""

import io
from collections.abc import Callable, Iterator

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output.plain_text import PlainTextOutput

from tests.cli.chat.terminal import ChatTerminal
from tests.cli.choosing.conftest import typed
from treadle.cli.choice import choose_key, choose_row
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


class Screen:
    def __init__(self, keys: PipeInput) -> None:
        self.keys, self.text = keys, io.StringIO()

    def shown(self) -> str:
        return self.text.getvalue()


@pytest.fixture
def screen() -> Iterator[Screen]:
    with create_pipe_input() as keys:
        made = Screen(keys)
        with create_app_session(input=keys, output=PlainTextOutput(made.text)):
            yield made


ROWS = [f"row {number}" for number in range(12)]


@pytest.mark.parametrize(
    ("keys", "chosen"),
    [
        ("\r", 0),
        ("\x1b[B\r", 1),
        ("jj\x0e\t\r", 4),
        ("jjk\r", 1),
        ("\x1b[A\r", 11),
        ("\x10\x1b[B\r", 0),
        ("3", 2),
        ("9", 8),
        ("q", None),
        ("\x03", None),
        ("\x04", None),
    ],
)
async def test_keys_move_and_choose_around_the_ends(screen: Screen, keys: str, chosen: int | None) -> None:
    screen.keys.send_text(keys)
    assert await choose_row("Which?", ROWS) == chosen


async def test_the_row_that_is_chosen_is_marked_and_how_to_choose_is_said(screen: Screen) -> None:
    screen.keys.send_text("q")
    assert await choose_row("Which?", ["a", "b"]) is None
    shown = screen.shown()
    assert "Which?" in shown and "> 1  a" in shown and "  2  b" in shown
    assert "arrows and Enter, or a number; q leaves" in shown


@pytest.mark.parametrize(("keys", "chosen"), [("l", "l"), ("xi", "i"), ("q", None), ("\x03", None)])
async def test_one_of_a_few_letters_is_enough(screen: Screen, keys: str, chosen: str | None) -> None:
    screen.keys.send_text(keys)
    assert await choose_key(f"l  {'word ' * 40}\n\ni  install", "li") == chosen
    assert "\n   word" in screen.shown(), "what is too long goes on further in"
    assert "[l/i]" in screen.shown() and "i  install" in screen.shown()


@pytest.mark.parametrize(("text", "chosen"), [("2\n", 1), ("7\nx\n 1 \n", 0), ("\n", None), ("", None), ("3", None)])
async def test_without_a_screen_a_number_is_typed_until_it_is_one(
    text: str, chosen: int | None, capsys: pytest.CaptureFixture[str]
) -> None:
    with typed(text):
        assert await choose_row("Which?", ["a", "b"], plain=True) == chosen
    assert capsys.readouterr().out.startswith("Which?\n1  a\n2  b\n1-2, or nothing to leave: ")


@pytest.mark.parametrize(("text", "chosen"), [("L\n", "l"), ("x\nq\n", "q"), ("\n", None)])
async def test_without_a_screen_a_letter_is_typed(
    text: str, chosen: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    with typed(text):
        assert await choose_key("l  fetch\nq  leave", "lq", plain=True) == chosen
    assert capsys.readouterr().out.startswith("l  fetch\nq  leave\n[l/q] ")
