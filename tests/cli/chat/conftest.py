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

SCRIPT = """
[[reply]]
when = "make it"
text = "I will write the **file**."
[[reply.call]]
name = "write_file"
arguments = { file_path = "made.txt", content = "hello\\nworld\\n" }

[[reply]]
when = "[Ww]rote|made.txt"
text = "It is written."
times = "always"

[[reply]]
when = "list it"
[[reply.call]]
name = "bash"
arguments = { command = "echo a; echo b; echo c" }

[[reply]]
when = "wait for it"
[[reply.call]]
name = "bash"
arguments = { command = "echo begun; exec sleep 600" }

[[reply]]
when = "use make"
text = "Then make it is."

[[reply]]
when = "a\\nb\\nc|changed"
text = "That was it."
times = "always"

[[reply]]
when = "hold on"
[[reply.call]]
name = "bash"
arguments = { command = "until [ -e go ]; do sleep 0.05; done" }

[[reply]]
when = "be brief"
text = "Brief, then."
times = "always"

[[reply]]
when = "still there"
text = "Yes, I am."
times = "always"

[[reply]]
when = "for ever"
text = "never"
delay = 600
times = "always"

[[reply]]
when = ".*"
text = "I heard."
times = "always"
"""


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
