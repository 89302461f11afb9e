"""The tutorial "A fleet on this machine" is typed word by word, in a pipe and in a terminal."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.chat.terminal import ChatTerminal
from tests.fleet.conftest import nothing_left as nothing_left
from tests.fleet.conftest import repository as repository
from tests.fleet.repositories import DONE, bash, git, model, says, write

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[2] / "docs/tutorials/a-fleet-on-this-machine.md").read_text()
TYPED = [line.removeprefix("$ ") for line in PAGE.splitlines() if line.startswith("$ ")]


@pytest.fixture
def env(nothing_left: None, tmp_path: Path) -> Iterator[dict[str, str]]:
    scripted = model(
        tmp_path,
        says("I write.", write("NOTES.md", "Notes."), when="NOTES", turn=1),
        says("I make it.", bash("install -m 755 /dev/null hello.sh"), when="hello.sh", turn=1),
        DONE,
    )
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    yield {**os.environ, "PATH": path, "TREADLE_MODEL": scripted, "TERM": "xterm-256color", "PS1": ""}


def seen(said: str, repository: Path) -> None:
    """All of it happened, and was said."""
    assert "engine  started" in said and "page    http://" in said
    assert re.search(r"done .*Write NOTES.md", said), "the first order is in the list"
    assert "asks: " in said and "install -m 755 /dev/null hello.sh" in said
    assert "hello.sh" in git(repository, "show", "--stat", "--format=%s", "HEAD")
    assert "engine  stopped" in said


@pytest.mark.long
def test_in_a_pipe(env: dict[str, str], repository: Path) -> None:
    script = "\n".join(TYPED)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=repository,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stdout
    seen(done.stdout, repository)


@pytest.mark.timeout(500)
def test_in_a_terminal(env: dict[str, str], repository: Path) -> None:
    with ChatTerminal(["bash", "--norc", "--noprofile"], repository, env, cols=160, rows=300) as terminal:
        for number, line in enumerate(TYPED):
            terminal.say(f'{line}; echo "typed $((1000 + {number})) with $?"')
            said = terminal.until(rf"typed {1000 + number} with \d+", 120)
            assert f"typed {1000 + number} with 0" in said, said
        seen(terminal.text, repository)
