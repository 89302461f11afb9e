"""What the keys do, on a real terminal, and which answer they make of a question."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.chat.terminal import ChatTerminal
from tests.cli.chat.typing import typing
from tests.waiting import until
from treadle.cli.chat import screen as chat_screen
from treadle.events import Asked
from treadle.session import Answer

Chat = Callable[..., ChatTerminal]
ESC, CTRL_C, CTRL_D, CTRL_G, TAB = "\x1b", "\x03", "\x04", "\x07", "\t"


def test_a_paste_is_one_prompt_however_many_lines_it_has(chat: Chat) -> None:
    terminal = chat()
    terminal.paste("still there\nbe quick\nthird")
    terminal.until(r"(?m)^> still there\n.*be quick\n.*third")
    terminal.keys("\r")
    terminal.until("Yes, I am.")
    terminal.ready()
    assert terminal.text.count("Yes, I am.") == 1 and "I heard." not in terminal.text


def test_enter_during_a_turn_steers_it_and_tab_queues_the_next(chat: Chat, work: Path) -> None:
    terminal = chat("--permission-mode", "yolo")
    terminal.say("hold on")
    terminal.until("waiting for bash")
    terminal.say("be brief")
    terminal.until("» be brief")
    terminal.keys("still there?" + TAB)
    terminal.until("next: still there")
    (work / "go").touch()
    terminal.until("Brief, then.")
    terminal.until("(?s)> still there.*Yes, I am.")


def test_esc_interrupts_the_turn(chat: Chat) -> None:
    terminal = chat()
    terminal.say("for ever")
    terminal.until("waiting for the model")
    terminal.keys(ESC)
    terminal.until("(?m)^interrupted\n.*tokens unknown")  # no one knows what an interrupted call cost
    terminal.ready()
    terminal.say("still there?")
    terminal.until("Yes, I am.")


def test_the_editor_of_the_person_writes_the_prompt(chat: Chat, tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nprintf 'still there, said the editor' > \"$1\"\n")
    editor.chmod(0o755)
    terminal = chat(EDITOR=str(editor))
    terminal.keys(CTRL_G)
    terminal.until("> still there, said the editor")


async def test_enter_sends_a_backslash_goes_on_and_up_brings_back_what_was_sent() -> None:
    async with typing() as me:
        me.types("one\\\r")
        await me.holds("one\n")
        me.types("two\x1b\rthree\r")
        await me.did("enter one\ntwo\nthree")
        assert me.screen.input.text == ""
        me.types("a\\b\x1b[D\x1b[D\r")  # the backslash is not at the end
        await me.did("enter a\\b")
        me.types("\x1b[A")
        await me.holds("a\\b")


async def test_tab_queues_while_the_agent_works_and_completes_otherwise() -> None:
    async with typing() as me:
        me.types("/he\t")
        await me.holds("/help")
        me.types("\x15/mod")
        await until(lambda: me.screen.input.complete_state)  # what is offered is shown as one types
        me.types("\t")
        await me.holds("/mode")
        me.types("\t")
        await me.holds("/model")
        me.done.busy = True
        me.types("\x15later\t")
        await me.did("queue later")
        assert me.screen.input.text == ""
        me.types("/he\x01\x0b  \t")  # nothing but blanks is not queued
        me.types("\x15x\t")
        await me.did("queue x")
        me.done.waiting = ["first", "last"]
        me.types("\x1b[A")
        await me.holds("last")
        assert me.done.waiting == ["first"]


@pytest.mark.parametrize(
    ("keys", "busy", "acts"),
    [
        ("\x1b[Z", False, ["mode"]),
        ("?", False, ["queue ?"]),
        ("\x1b\x1b", False, ["queue /rewind"]),
        ("\x04", False, ["leave"]),
        ("\x1b", True, ["interrupt"]),
        ("\x1b\x1b", True, ["interrupt", "interrupt"]),
        ("?\r", True, ["enter ?"]),
        ("a?\r", False, ["enter a?"]),
        ("a\x04\r", False, ["enter a"]),
        ("\x03\x03", True, ["interrupt", "quit"]),
        ("\x03\x03", False, ["interrupt", "quit"]),
        ("a\x03\x03\x03", False, ["interrupt", "quit"]),
    ],
)
async def test_what_a_key_does_depends_on_the_line_and_on_what_runs(keys: str, busy: bool, acts: list[str]) -> None:
    async with typing() as me:
        me.done.busy = busy
        me.types(keys)
        await me.did(*acts)


ASKED = Asked(
    request="r",
    kind="permission",
    text="?",
    name="bash",
    args={"command": "ls", "timeout": 3},
    command="ls",
    changeable=True,
)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys count for a question as soon as it is there."""
    monkeypatch.setattr(chat_screen, "GLANCE", -1.0)
    monkeypatch.setattr(chat_screen, "CALM", -1.0)


@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        ("y", Answer(decision="allow")),
        ("S", Answer(decision="allow", scope="session")),
        ("a", Answer(decision="allow", scope="always")),
        ("n use make \r", Answer(decision="deny", text="use make")),
        ("e -l\r", Answer(decision="allow", changed_args={"command": "ls -l", "timeout": 3})),
        ("\ry", Answer(decision="allow")),
    ],
)
async def test_a_question_is_answered_by_its_keys(keys: str, answer: Answer, at_once: None) -> None:
    async with typing() as me:
        me.types("half a li")
        await me.holds("half a li")
        answering = await me.asked(ASKED)
        me.types(keys)
        assert await answering == answer
        assert me.screen.input.text == "half a li" and me.done.did == [] and me.screen.question is None


async def test_escape_goes_back_to_the_keys_and_then_interrupts(at_once: None) -> None:
    async with typing() as me:
        answering = await me.asked(ASKED)
        me.types("n")
        await until(lambda: me.screen.question is not None and me.screen.question.want == "reason")
        me.types("\x1b")
        await until(lambda: me.screen.question is not None and me.screen.question.want == "keys")
        me.types("\r")
        await until(lambda: me.screen.hint == "answer with one of the keys above; what you typed is kept")
        me.types("\x1b")
        await me.did("interrupt")
        me.types("\x04")
        await me.did("leave")
        with pytest.raises(EOFError):
            await answering


async def test_a_key_that_comes_with_the_question_is_typed() -> None:
    async with typing() as me:
        answering = await me.asked(ASKED)
        me.types("y")
        await me.holds("y")
        assert not answering.done()
        answering.cancel()
