"""`treadle` on a real terminal, as a person uses it."""

import asyncio
import signal
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.chat.conftest import TREADLE
from tests.cli.chat.terminal import ChatTerminal
from tests.cli.chat.typing import typing
from treadle.cli.chat import screen as chat_screen
from treadle.events import Asked

Chat = Callable[..., ChatTerminal]
ESC, CTRL_D, CTRL_R = "\x1b", "\x04", "\x12"


def test_the_change_is_seen_before_it_is_allowed_and_not_made_before(chat: Chat, work: Path) -> None:
    terminal = chat(cols=200)
    terminal.say("make it")
    seen = terminal.until("y yes · n no")
    assert "I will write the file." in seen and "+hello" in seen and "+world" in seen
    assert "Create made.txt?" in seen and "approval" not in seen
    assert "a keeps this rule: write_file(" in seen and not (work / "made.txt").exists()
    terminal.asked()
    terminal.keys("y")
    seen = terminal.until("It is written.")
    assert (work / "made.txt").read_text() == "hello\nworld\n" and seen.count("+hello") == 1


def test_a_key_for_the_question_is_not_taken_for_typing_and_a_reason_is_read_by_the_model(chat: Chat) -> None:
    terminal = chat()
    terminal.say("list it")
    seen = terminal.until("y yes · n no")
    assert "Run this command?\n  env echo a; echo b; echo c\n" in seen and "Files: none named" in seen
    assert "not sandboxed: runs with your full permissions" in seen
    terminal.asked()
    terminal.keys("e")
    terminal.until("change it, Enter runs it")
    terminal.keys(ESC)
    terminal.until("y yes")
    terminal.keys("n")  # at once
    terminal.until("why not?")
    terminal.say("use make")
    terminal.until("Then make it is.")


def test_ctrl_z_gives_the_terminal_to_the_shell_and_fg_takes_it_back(begin: Chat) -> None:
    terminal = begin("--norc", "--noprofile", "-i", program="bash")
    terminal.say(TREADLE)
    terminal.ready()
    terminal.keys("half a li")
    terminal.until("> half a li")
    terminal.keys("\x1a")
    terminal.until("Stopped")
    terminal.say("echo $((6*7)) in the shell")
    terminal.until("42 in the shell")
    terminal.say("fg")
    terminal.until("(?s)42 in the shell.*> half a li")
    terminal.keys("ne")
    terminal.until("(?m)^> half a line$")


def test_a_command_can_be_changed_before_it_runs(chat: Chat, work: Path) -> None:
    terminal = chat()
    terminal.say("list it")
    terminal.asked()
    terminal.keys("e")
    terminal.until(r"(?m)^\? env echo a; echo b; echo c")
    terminal.keys("; echo changed > changed.txt\r")
    terminal.until("That was it.")
    assert (work / "changed.txt").read_text() == "changed\n"


def test_what_is_typed_while_the_agent_starts_is_its_first_prompt(begin: Chat) -> None:
    terminal = begin()
    terminal.say("still there?")
    terminal.until("Yes, I am.")


def test_an_agent_that_cannot_start_gives_the_terminal_back_and_says_why(begin: Chat) -> None:
    terminal = begin("--model", "nobody:x")
    assert terminal.ended() == 1 and "treadle: " in terminal.text and "nobody" in terminal.text
    assert termios.tcgetattr(terminal.master)[3] & termios.ECHO


def spoken(chat: Chat) -> None:
    """A chat in which something was said, and which was left."""
    terminal = chat()
    terminal.say("still there?")
    terminal.until("Yes, I am.")
    terminal.ready()
    terminal.keys(CTRL_D)
    assert terminal.ended() == 0


@pytest.mark.slow
def test_what_was_typed_is_there_in_the_next_chat_and_answers_are_not(chat: Chat) -> None:
    spoken(chat)
    again = chat()
    again.keys(CTRL_R + "still")
    again.until("still there\\?")


@pytest.mark.slow
def test_resume_is_a_picker(chat: Chat) -> None:
    spoken(chat)
    again = chat()
    again.say("/resume")
    again.until("(?s)Which session.*❯ .*1 turns still there")
    again.keys("\r")
    again.until("Now in session .*: 1 turns so far")


def test_a_chat_in_which_nothing_was_said_is_not_kept(chat: Chat, state_home: Path) -> None:
    terminal = chat()
    terminal.keys(CTRL_D)
    assert terminal.ended() == 0 and "is kept" not in terminal.text
    assert list((state_home / "treadle" / "sessions").iterdir()) == []


def test_a_signal_to_leave_gives_the_terminal_back(chat: Chat) -> None:
    terminal = chat()
    terminal.say("for ever")
    terminal.until("waiting for the model")
    terminal.process.send_signal(signal.SIGHUP)
    assert terminal.ended() == 129
    assert termios.tcgetattr(terminal.master)[3] & termios.ECHO


async def test_a_question_shows_its_keys_its_rule_and_what_is_wrong(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(chat_screen, "GLANCE", -1.0)
    monkeypatch.setattr(chat_screen, "CALM", -1.0)
    asked = Asked(
        request="r", kind="permission", text="?", name="write_file", args={"x": 1}, always=("Write(a)",),
        changeable=True, deadline=time.time() + 100,
    )  # fmt: skip
    async with typing() as me:
        answering = await me.asked(asked, "/work")
        shown = capsys.readouterr().out
        assert shown.startswith("? ") and "write_file: {'x': 1}" in shown
        seen = await me.sees("a keeps this rule: Write(a)")
        assert "y yes · n no, and why" in seen and "no answer is a no in 1:" in seen and "\n>" in seen
        me.types("e")
        assert "\n>" not in await me.sees('"x": 1'), "what is typed is the answer now"
        me.types("\x1b[F\x7f\r")
        await me.sees("this is no JSON")
        answering.cancel()
        await asyncio.wait([answering])
        assert me.screen.question is None


def test_the_menu_of_commands_has_eight_rows_also_at_the_bottom_of_a_full_screen(chat: Chat) -> None:
    terminal = chat(rows=24)
    terminal.say("!seq 40")
    terminal.until("(?m)^40$")
    terminal.ready()
    terminal.keys("/")
    terminal.until(r"(?m)(^\s*/\w+.*\n){8}")
