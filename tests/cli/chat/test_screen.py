"""`treadle` on a real terminal, as a person uses it."""

import asyncio
import os
import re
import signal
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.chat.conftest import TREADLE
from tests.cli.chat.terminal import ChatTerminal
from tests.cli.chat.typing import typing
from tests.waiting import until
from treadle.cli.chat import screen as chat_screen
from treadle.cli.chat.page import Folded
from treadle.events import Asked

Chat = Callable[..., ChatTerminal]
ESC, CTRL_D, CTRL_R = "\x1b", "\x04", "\x12"


def test_the_change_is_seen_before_it_is_allowed_and_not_made_before(chat: Chat, work: Path) -> None:
    terminal = chat(cols=200)
    terminal.say("make it")
    seen = terminal.until("y yes · n no")
    assert "I will write the file." in seen and "+hello" in seen and "+world" in seen
    assert "May made.txt be made?" in seen and "approval" not in seen
    assert "a keeps this rule: write_file(" in seen and not (work / "made.txt").exists()
    terminal.asked()
    terminal.keys("y")
    seen = terminal.until("It is written.")
    assert (work / "made.txt").read_text() == "hello\nworld\n" and seen.count("+hello") == 1


@pytest.mark.slow
def test_a_terminal_that_does_not_say_where_its_cursor_is_is_used_without_a_word(begin: Chat) -> None:
    terminal = begin()
    terminal.says_where = False
    terminal.ready()
    terminal.say("!sleep 2.5; echo it is $((40 + 2))")  # after two seconds the library gives up on the answer
    assert "WARNING" not in terminal.until("it is 42")


def test_a_key_for_the_question_is_not_taken_for_typing_and_a_reason_is_read_by_the_model(chat: Chat) -> None:
    terminal = chat()
    terminal.say("list it")
    seen = terminal.until("y yes · n no")
    assert "May this command run?\n  env echo a; echo b; echo c\n" in seen and "Files: none named" in seen
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


def test_a_confined_command_says_to_what_it_is_kept(chat: Chat, work: Path) -> None:
    terminal = chat("--sandbox", cols=200)
    terminal.say("list it")
    seen = terminal.until("y yes · n no")
    assert re.search(rf"confined by (bubblewrap|landlock): writes only to {work}", seen)


def test_what_is_typed_while_the_agent_starts_is_its_first_prompt(begin: Chat) -> None:
    terminal = begin()
    terminal.say("still there?")
    terminal.until("Yes, I am.")


def test_an_agent_that_cannot_start_gives_the_terminal_back_and_says_why(begin: Chat) -> None:
    terminal = begin("--model", "nobody:x")
    assert terminal.ended() == 1 and "treadle: " in terminal.text and "nobody" in terminal.text
    assert termios.tcgetattr(terminal.master)[3] & termios.ECHO


def test_leaving_while_the_agent_starts_is_no_failure(begin: Chat) -> None:
    terminal = begin()
    terminal.until("(?m)^>$")
    terminal.keys(CTRL_D)
    assert terminal.ended() == 0


def test_what_was_being_typed_when_the_question_came_does_not_answer_it(chat: Chat, work: Path) -> None:
    terminal = chat()
    terminal.keys("make it\ryes")  # in one write: the rest is there before the question is
    terminal.until("y yes · n no")
    terminal.until(r"(?m)^> yes$")
    assert not (work / "made.txt").exists()


def test_the_running_command_shows_its_end_and_is_gone_after_an_interrupt(chat: Chat) -> None:
    terminal = chat("--permission-mode", "yolo")
    terminal.say("wait for it")
    terminal.until("(?s)◐ bash echo begun; exec sleep 600.*begun.*waiting for bash")
    terminal.keys(ESC)
    terminal.until("(?m)^interrupted")


def test_the_status_line_says_what_is_known(chat: Chat) -> None:
    terminal = chat()
    assert "scripted · suggest · trunk" in terminal.text
    terminal.say("still there?")
    terminal.until(r"tokens · \$\? · trunk")


def spoken(chat: Chat) -> None:
    """A chat in which something was said, and which was left."""
    terminal = chat()
    terminal.say("still there?")
    terminal.until("Yes, I am.")
    terminal.ready()
    terminal.keys(CTRL_D)
    assert terminal.ended() == 0


def test_what_was_typed_is_there_in_the_next_chat_and_answers_are_not(chat: Chat) -> None:
    spoken(chat)
    again = chat()
    again.keys(CTRL_R + "still")
    again.until("still there\\?")


def test_going_on_shows_what_was_said_last(chat: Chat) -> None:
    spoken(chat)
    again = chat("-c")
    assert "> still there?" in again.until("Yes, I am.")


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


def test_forty_columns_and_a_resize_are_enough(chat: Chat) -> None:
    terminal = chat(cols=40, rows=12)
    terminal.say("make it")
    terminal.until("y yes · n no")
    terminal.asked()
    terminal.resize(60, 20)
    os.kill(terminal.process.pid, signal.SIGWINCH)
    terminal.keys("y")
    terminal.until("It is written.")


def test_without_colour_there_is_none(chat: Chat) -> None:
    terminal = chat(NO_COLOR="1")
    terminal.say("make it")
    terminal.until("y yes · n no")
    assert not re.search(rb"\x1b\[(?:\d+;)*(?:3[0-8]|9[0-7])\b", terminal.raw)


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_leave_gives_the_terminal_back(chat: Chat, signum: signal.Signals) -> None:
    terminal = chat()
    terminal.say("for ever")
    terminal.until("waiting for the model")
    terminal.process.send_signal(signum)
    assert terminal.ended() == 1
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


async def test_of_many_options_those_near_the_chosen_one_are_shown() -> None:
    async with typing() as me:
        options = tuple(f"option {letter}" for letter in "abcdefghijkl")
        answering = await me.asked(Asked(request="r", kind="question", text="?", options=options))
        seen = await me.sees("❯ option a")
        assert "  option h" in seen and "option i" not in seen
        me.types("\x1b[B" * 6)
        seen = await me.sees("❯ option g")
        assert "option b" not in seen and "  option c" in seen and "  option j" in seen
        me.types("\x1b[B" * 9)
        seen = await me.sees("❯ option l")
        assert "  option e" in seen and "option d" not in seen
        me.types("n k\r")
        assert (await answering).text == "option k"


async def test_a_list_is_chosen_from_by_its_labels(capsys: pytest.CaptureFixture[str]) -> None:
    async with typing() as me:
        for keys, value in (("\x1b[B\r", "2"), ("one\r", "1"), ("other\r", "other"), ("\x1b", None)):
            choosing = asyncio.create_task(me.screen.choose("Which?", [("1", "the one"), ("2", "the two")]))
            await until(lambda: me.screen.question is not None)
            me.types(keys)
            assert await choosing == value
        capsys.readouterr()
        assert await me.screen.choose("Which?", []) is None
        await until(lambda: "Which? There is nothing to choose from." in capsys.readouterr().out)


async def test_what_was_folded_is_shown_newest_first(capsys: pytest.CaptureFixture[str]) -> None:
    async with typing() as me:
        assert me.screen.page is not None
        me.screen.page.folded = [Folded("first", "one\n"), Folded("second", "")]
        printed = ""

        def has(text: str) -> bool:
            nonlocal printed
            printed += capsys.readouterr().out
            return text in printed

        me.types("\x0f")
        await until(lambda: has("second\n(nothing)\n"))
        assert "first" not in printed
        me.types("\x0f")
        await until(lambda: has("first\none\n"))
        me.types("\x0f")
        await until(lambda: me.screen.hint == "nothing more to show")


async def test_vim_is_switched_on_by_the_settings_or_the_person() -> None:
    async with typing() as me:
        assert me.screen.vim() and not me.screen.vim()
    async with typing(vim=True) as me:
        me.types("ab\x1bx")
        await me.holds("a")
        assert not me.screen.vim()


def test_the_menu_of_commands_has_eight_rows_also_at_the_bottom_of_a_full_screen(chat: Chat) -> None:
    terminal = chat(rows=24)
    terminal.say("!seq 40")
    terminal.until("(?m)^40$")
    terminal.ready()
    terminal.keys("/")
    terminal.until(r"(?m)(^\s*/\w+.*\n){8}")
