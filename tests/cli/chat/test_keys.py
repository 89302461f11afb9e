"""What the keys do, on a real terminal."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.chat.terminal import ChatTerminal

Chat = Callable[..., ChatTerminal]
ESC, CTRL_C, CTRL_D, CTRL_G, CTRL_O, CTRL_R, TAB, UP = "\x1b", "\x03", "\x04", "\x07", "\x0f", "\x12", "\t", "\x1b[A"


def test_a_paste_is_one_prompt_however_many_lines_it_has(chat: Chat) -> None:
    terminal = chat()
    terminal.paste("still there\nbe quick\nthird")
    terminal.until(r"(?m)^> still there\n.*be quick\n.*third")
    terminal.keys("\r")
    terminal.until("Yes, I am.")
    terminal.ready()
    assert terminal.text.count("Yes, I am.") == 1 and "I heard." not in terminal.text


def test_a_long_paste_is_said_to_be_long_and_shown_by_its_beginning(chat: Chat) -> None:
    terminal = chat()
    terminal.paste("\n".join(f"line {number}" for number in range(500)))
    terminal.until("500 lines typed")
    terminal.keys("\r")
    seen = terminal.until("I heard.")
    assert "> line 0\n" in seen and "488 more lines" in seen and "line 13\n" not in seen


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


def test_a_queued_prompt_can_be_taken_back(chat: Chat) -> None:
    terminal = chat()
    terminal.say("for ever")
    terminal.until("waiting for the model")
    terminal.keys("still there?" + TAB)
    terminal.until("next: still there")
    terminal.keys(UP)
    terminal.until_gone("next: still there")
    terminal.until(r"(?m)^> still there\?$")


@pytest.mark.parametrize("key", [ESC, CTRL_C])
def test_esc_and_ctrl_c_interrupt_the_turn(chat: Chat, key: str) -> None:
    terminal = chat()
    terminal.say("for ever")
    terminal.until("waiting for the model")
    terminal.keys(key)
    terminal.until("(?m)^interrupted")
    assert "tokens unknown" in terminal.ready(), "no one knows what an interrupted call cost"
    terminal.say("still there?")
    terminal.until("Yes, I am.")


def test_ctrl_c_empties_the_line_and_twice_leaves(chat: Chat) -> None:
    terminal = chat()
    terminal.keys("secret words")
    terminal.until("> secret words")
    terminal.keys(CTRL_C)
    terminal.until_gone("secret words")
    terminal.keys(CTRL_C)
    terminal.until("Ctrl-C again leaves")
    terminal.keys(CTRL_C)
    assert terminal.ended() == 0


def test_ctrl_d_at_a_question_refuses_and_leaves_when_the_turn_is_over(chat: Chat, work: Path) -> None:
    terminal = chat()
    terminal.say("make it")
    terminal.until("waiting for you")
    terminal.keys(CTRL_D)
    assert terminal.ended() == 0 and not (work / "made.txt").exists()


def test_a_folded_call_is_opened_by_a_key(chat: Chat) -> None:
    terminal = chat("--permission-mode", "yolo")
    terminal.say("list it")
    assert "● bash env echo a; echo b; echo c  └ 3 lines" in terminal.until("That was it.")
    terminal.keys(CTRL_O)
    terminal.until(r"(?m)^a\nb\nc$")
    terminal.keys(CTRL_O)
    terminal.until("nothing more to show")


def test_slash_commands_and_files_are_completed(chat: Chat, work: Path) -> None:
    (work / "a_long_name.txt").write_text("")
    terminal = chat()
    terminal.keys("/perm" + TAB)
    terminal.until("(?m)^> /permissions")
    terminal.keys(CTRL_C + "look at @long" + TAB)
    terminal.until("(?m)^> look at @a_long_name.txt")


def test_a_line_is_made_by_alt_enter_and_by_a_backslash(chat: Chat) -> None:
    terminal = chat()
    terminal.keys("one\x1b\rtwo\\\r")
    terminal.until(r"(?m)^> one\n *two$")
    terminal.say("still there")
    terminal.until("Yes, I am.")


def test_the_editor_of_the_person_writes_the_prompt(chat: Chat, tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nprintf 'still there, said the editor' > \"$1\"\n")
    editor.chmod(0o755)
    terminal = chat(EDITOR=str(editor))
    terminal.keys(CTRL_G)
    terminal.until("> still there, said the editor")
