"""A machine on which nothing is set up, except what a test adds."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.cli.chat.terminal import ChatTerminal
from tests.installed import TREADLE, treadle
from tests.scripts import says
from treadle.io.paths import config_file

SCRIPT = says("I heard.", when=".*", times="always")


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An environment without keys, agents and servers, in a directory of its own."""
    monkeypatch.chdir(tmp_path)
    programs = tmp_path / "bin"
    programs.mkdir()
    git = shutil.which("git")
    assert git is not None
    (programs / "git").symlink_to(git)
    return {**os.environ, "PATH": str(programs), "OLLAMA_HOST": "127.0.0.1:9", "TERM": "xterm-256color"}


@pytest.fixture
def nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same for this process. Programs can be put into the directory."""
    programs = tmp_path / "bin"
    programs.mkdir(exist_ok=True)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:9")
    return programs


@contextmanager
def typed(text: str) -> Iterator[None]:
    """What a person has typed on standard input, and then left."""
    reading, writing = os.pipe()
    os.write(writing, text.encode())
    os.close(writing)
    before = os.dup(0)
    os.dup2(reading, 0)
    try:
        yield
    finally:
        os.dup2(before, 0)
        os.close(before)
        os.close(reading)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.toml"
    path.write_text(SCRIPT)
    return path


@pytest.fixture
def agent(script: Path, state_home: Path) -> str:
    """An agent that is installed, in the settings: our own program behind the protocol of editors."""
    settings = Path(config_file())
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(
        '[agents.helper]\nspeaks = "acp"\n'
        f'command = "/usr/bin/env CLAUDE_CONFIG_DIR={state_home}/inner {TREADLE} acp --model scripted:{script}"\n'
        f'set = {{ TREADLE_HOME = "{state_home}/inner" }}\n'
    )
    return "helper"


@pytest.fixture
def terminal(tmp_path: Path, bare: dict[str, str]) -> Iterator[Callable[..., ChatTerminal]]:
    work = tmp_path / "work"
    work.mkdir()
    with ExitStack() as stack:

        def start(*arguments: str, **more: str) -> ChatTerminal:
            return stack.enter_context(ChatTerminal([TREADLE, *arguments], work, {**bare, **more}))

        yield start


def once(env: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return treadle("-p", "hello", *arguments, env=env)
