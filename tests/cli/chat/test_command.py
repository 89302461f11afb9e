"""How a chat begins."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.chat.terminal import ChatTerminal
from tests.installed import treadle
from treadle.agent.records import TurnBegan
from treadle.agent.transcript import Transcript
from treadle.cli.chat.command import _at_home, _branch, _forgotten, _theme


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


def test_the_home_directory_is_shortened_and_nothing_that_only_begins_like_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    assert [_at_home(path) for path in ("/home/ann", "/home/ann/x", "/home/anna", "/x")] == [
        *("~", "~/x", "/home/anna", "/x")
    ]


def test_the_branch_is_named_where_there_is_one(tmp_path: Path) -> None:
    assert _branch(str(tmp_path)) == ""
    subprocess.run(["git", "init", "-q", "-b", "trunk", str(tmp_path)], check=True)
    assert _branch(str(tmp_path)) == "trunk"


def test_a_session_in_which_nothing_was_said_is_removed_and_no_other(tmp_path: Path) -> None:
    empty, spoken = (Transcript.create(cwd=str(tmp_path), model="m") for _ in range(2))
    spoken.append(TurnBegan(turn="t", prompt="hello"), sync=True)
    for transcript in (empty, spoken):
        transcript.close()
    assert _forgotten(empty.header.id) and not _forgotten(empty.header.id)
    assert not _forgotten(spoken.header.id) and Transcript.read(spoken.header.id).listing.turns == 1
    assert not _forgotten("no-such-session")
