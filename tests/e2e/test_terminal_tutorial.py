"""The tutorial "An agent in a terminal", followed in an empty home with `bash` for the agent, as the page offers.

What the real programs show and ask is tried by tests/live/test_terminal_sends.py and the recordings of tests/terminal.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import need

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[2] / "docs/tutorials/agent-in-a-terminal.md").read_text()
BIN = str(Path(sys.executable).parent)
TYPED = [line.strip().removeprefix("$ ") for line in PAGE.splitlines() if line.startswith("    $ ")]


@pytest.fixture
def env(tmp_path: Path, state_home: Path) -> dict[str, str]:
    return {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(tmp_path), "PS1": "$ "}


def test_every_line_of_the_page_is_followed(tmp_path: Path, env: dict[str, str]) -> None:
    need("jq")

    def type_(line: str) -> subprocess.CompletedProcess[str]:
        followed.append(line)
        line = line.replace("--classifier claude", "").replace("-- claude", "-- bash --norc")
        return subprocess.run(["sh", "-c", line], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)

    followed: list[str] = []
    lines = iter(TYPED)
    try:
        assert type_(next(lines)).stdout == "a1\n"
        assert type_(next(lines)).returncode == 0  # `wait`: bash asks nothing
        followed.append(next(lines))  # `attach` needs a person: tests/terminal/test_attach.py
        assert type_(next(lines)).returncode == 0
        assert next(lines) == "echo $?"
        followed.append("echo $?")
        assert type_(next(lines)).returncode == 0
        assert "Now run the whole suite" in type_(next(lines)).stdout
        followed += [next(lines), next(lines)]  # a key that answers a dialog, which bash has not
        assert re.search(r"(?m)^  a1  idle .* pid \d+", type_(next(lines)).stdout)
        assert json.loads(type_(next(lines)).stdout)["name"] == "idle"
        follow = shlex.split(next(lines))
        followed.append(shlex.join(follow))
        tail = subprocess.run([w for w in follow if w != "-f"], cwd=tmp_path, env=env, capture_output=True, text=True)
        assert "Fix the failing test" in tail.stdout
        assert "Now run the whole suite" in type_(next(lines)).stdout
        assert from_python(tmp_path, env).startswith("b'")
    finally:
        ended = type_("treadle kill a1")
    assert next(lines) == "treadle kill a1" and ended.stdout.startswith("a1 ended with code ")
    assert type_(next(lines)).stdout.strip().isdecimal()
    assert followed == TYPED


def from_python(cwd: Path, env: dict[str, str]) -> str:
    """The first thing that the program at the end of the page prints."""
    program = PAGE.partition("## From Python")[2].partition("`examples/")[0].replace("\n    ", "\n")
    program = program.replace("print(data)", "print(data); break")
    done = subprocess.run([sys.executable, "-c", program], cwd=cwd, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_loop_is_a_script_that_a_shell_reads() -> None:
    script = PAGE.partition("A whole loop:")[2].partition("## Look at it")[0].replace("\n    ", "\n")
    assert "treadle run" in script and subprocess.run(["sh", "-n"], input=script, text=True).returncode == 0
