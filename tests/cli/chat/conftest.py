"""A chat with a scripted model, on a terminal."""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.cli.chat.terminal import ChatTerminal
from tests.installed import TREADLE
from tests.scripts import calls, says

SCRIPT = (
    calls(
        "write_file",
        {"file_path": "made.txt", "content": "hello\nworld\n"},
        when="make it",
        text="I will write the **file**.",
    )
    + says("It is written.", when="[Ww]rote|made.txt", times="always")
    + calls("bash", {"command": "env echo a; echo b; echo c"}, when="list it")
    + calls("bash", {"command": "echo begun; exec sleep 600"}, when="wait for it")
    + says("Then make it is.", when="use make")
    + says("That was it.", when="a\nb\nc|changed", times="always")
    + calls("bash", {"command": "until [ -e go ]; do sleep 0.05; done"}, when="hold on")
    + says("Brief, then.", when="be brief", times="always")
    + says("Yes, I am.", when="still there", times="always")
    + says("never", when="for ever", delay=600, times="always")
    + says("I heard.", when=".*", times="always")
)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    subprocess.run(["git", "init", "-q", "-b", "trunk", work], check=True)
    return work


@pytest.fixture
def begin(tmp_path: Path, work: Path, state_home: Path) -> Iterator[Callable[..., ChatTerminal]]:
    """A chat that is just starting."""
    script = tmp_path / "script.toml"
    script.write_text(SCRIPT)
    env = {**os.environ, "TERM": "xterm-256color", "TREADLE_MODEL": f"scripted:{script}", "PROMPT_TOOLKIT_NO_CPR": ""}
    with ExitStack() as stack:

        def start(*options: str, cols: int = 100, rows: int = 40, program: str = TREADLE, **more: str) -> ChatTerminal:
            return stack.enter_context(ChatTerminal([program, *options], work, {**env, **more}, cols, rows))

        yield start


@pytest.fixture
def chat(begin: Callable[..., ChatTerminal]) -> Callable[..., ChatTerminal]:
    """A chat that has started."""

    def start(*options: str, **more: Any) -> ChatTerminal:
        terminal = begin(*options, **more)
        terminal.ready()
        return terminal

    return start
