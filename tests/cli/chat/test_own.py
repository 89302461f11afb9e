"""The chat's own commands and keys, on a real terminal."""

import base64
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.chat.terminal import ChatTerminal
from treadle.cli.chat.own import COMMANDS, changes
from treadle.io.paths import config_file

Chat = Callable[..., ChatTerminal]
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def settings(text: str) -> None:
    path = Path(config_file())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_a_question_mark_and_help_show_the_keys(chat: Chat) -> None:
    terminal = chat()
    terminal.keys("?")
    terminal.until("Shift-Tab +the next permission mode")
    terminal.say("/help")
    assert "/review" in terminal.until(r"/vim +Edit the input")


def test_shift_tab_goes_through_the_modes(chat: Chat) -> None:
    terminal = chat()
    terminal.until("suggest")
    for mode in ("auto-edit", "plan", "suggest"):
        terminal.keys("\x1b[Z")
        terminal.until(rf"(?m)^scripted · {mode}")


def test_a_question_waits_for_the_person_for_ever(chat: Chat, work: Path) -> None:
    settings("[timeouts]\nquestion = 1\n")
    terminal = chat()
    terminal.say("make it")
    seen = terminal.until(r"waiting for you 0:0[3-9]")
    assert "no answer is a no" not in seen
    terminal.keys("y")
    terminal.until("It is written")
    assert (work / "made.txt").exists()


def test_escape_twice_goes_back_with_the_files(chat: Chat, work: Path) -> None:
    terminal = chat("--permission-mode", "auto-edit")
    terminal.say("make it")
    terminal.until("It is written")
    terminal.ready()
    terminal.keys("\x1b\x1b")
    seen = terminal.until("Go back to before which turn")
    assert "made.txt" in seen
    terminal.keys("\r")
    terminal.until("And the files")
    terminal.keys("\r")
    terminal.until(r"Removed: made\.txt")
    assert not (work / "made.txt").exists()


def test_diff_shows_new_files_too(chat: Chat, work: Path) -> None:
    (work / "new.txt").write_text("fresh\n")
    terminal = chat()
    terminal.say("/diff")
    terminal.until(r"\+fresh")


def test_the_changes_of_a_repository_are_whole(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    assert changes(str(tmp_path)) == ""
    (tmp_path / "a").write_text("one\n")
    subprocess.run(["git", "add", "-A"], cwd=tmp_path, check=True)
    (tmp_path / "b").write_text("two\n")
    assert "+one" in changes(str(tmp_path)) and "+two" in changes(str(tmp_path))


def test_copy_export_mcp_and_theme(chat: Chat, work: Path) -> None:
    terminal = chat()
    terminal.say("/copy")
    terminal.until("no answer to copy")
    terminal.say("be brief")
    terminal.until("Brief, then")
    terminal.say("/copy")
    terminal.until("in the clipboard")
    assert b"\x1b]52;c;" + base64.b64encode(b"Brief, then.") in terminal.raw
    terminal.say("/export talk.md")
    terminal.until("The session is in")
    assert "Brief, then." in (work / "talk.md").read_text()
    terminal.say("/export talk.md")
    terminal.until(r"exists\s+already")
    terminal.say("/mcp")
    terminal.until("No MCP servers")
    terminal.say("/theme light")
    terminal.until("The theme is now light")


def test_review_and_init_are_prompts_for_the_agent(chat: Chat) -> None:
    terminal = chat()
    terminal.say("/review")
    assert "Review the changes that are not committed" in terminal.until("I heard")


def test_vim_keys_edit_the_input(chat: Chat) -> None:
    terminal = chat()
    terminal.say("/vim")
    terminal.until("as in vim")
    terminal.keys("be brieff")
    terminal.until("be brieff")
    terminal.keys("\x1b")
    terminal.keys("x\r")
    terminal.until("Brief, then")


def test_keys_can_be_changed_in_the_settings(chat: Chat, begin: Chat) -> None:
    settings('[chat.keys]\nmode = "c-t"\n')
    terminal = chat()
    terminal.keys("\x14")
    terminal.until(r"(?m)^scripted · auto-edit")
    for wrong in ('fly = "c-t"', 'mode = "ctrl+t"'):
        settings(f"[chat.keys]\n{wrong}\n")
        assert "[chat.keys]" in begin().until("chat.keys")


def test_an_image_of_the_clipboard_becomes_a_file_of_the_prompt(chat: Chat, tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "image.png").write_bytes(PNG)
    (programs / "wl-paste").write_text(f"#!/bin/sh\ncat {programs}/image.png\n")
    (programs / "wl-paste").chmod(0o755)
    terminal = chat(PATH=f"{programs}:{os.environ['PATH']}")
    terminal.keys("\x16")
    terminal.until(r"@\S+\.png")


def test_the_person_is_called_by_bell_notification_and_title(chat: Chat) -> None:
    settings('[chat]\nnotify = ["bell", "desktop", "title"]\n')
    terminal = chat()
    terminal.say("make it")
    terminal.asked()
    assert b"\x1b]9;treadle asks: " in terminal.raw and b"\a" in terminal.raw
    assert b"\x1b]2;treadle: waits for you" in terminal.raw


def test_nothing_of_that_is_written_when_it_is_switched_off(chat: Chat) -> None:
    settings("[chat]\nnotify = []\n")
    terminal = chat()
    terminal.say("make it")
    terminal.asked()
    assert b"\x1b]9;" not in terminal.raw and b"\a" not in terminal.raw and b"\x1b]2;" not in terminal.raw


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_of_the_chat_is_on_its_page(name: str) -> None:
    page = Path(__file__).parents[3] / "docs" / "how-to" / "chat.md"
    assert f"`/{name}" in page.read_text()
