"""How a chat begins."""

from collections.abc import Callable
from pathlib import Path

from tests.cli.chat.terminal import ChatTerminal
from tests.imports import loaded_by
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


def test_a_one_shot_run_loads_nothing_that_only_a_chat_needs(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text('[[reply]]\ntext = "hello"\n')
    said, loaded = loaded_by("-p", "hi", "--model", f"scripted:{tmp_path / 's.toml'}", cwd=tmp_path)
    assert said == "hello\n" and "treadle.agent.loop" in loaded
    assert not {"rich", "prompt_toolkit", "httpx2", "h11", "anyio", "pydantic"} & loaded
