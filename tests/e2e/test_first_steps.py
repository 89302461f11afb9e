"""The tutorial "First steps" is followed word by word, from an empty home."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.chat.terminal import ChatTerminal
from tests.conftest import need
from tests.installed import TREADLE, treadle
from tests.scripts import says

PAGE = (Path(__file__).parents[2] / "docs/tutorials/first-steps.md").read_text()
BIN = str(Path(sys.executable).parent)


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)


def typed() -> list[str]:
    return [line.removeprefix("$ ") for block in blocks("console") for line in block.splitlines() if line[0] == "$"]


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "model.toml").write_text(says("Three tests.", times="always"))
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    scripted = f"scripted:{tmp_path / 'model.toml'}"
    return {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "TREADLE_MODEL": scripted, "TERM": "xterm-256color"}


def test_nothing_is_typed_on_the_page_that_is_not_tried_here() -> None:
    assert [line.split("  ")[0] for line in typed()] == [
        "uv tool install '.[all]'",  # tests/newcomer.py installs
        "treadle demo --one",
        'treadle "the tests fail, fix them"',
        'treadle -p "write a changelog entry for the last commit" --output-format json | jq -r .result',
        "treadle -p \"make the tests pass\" --permission-mode auto-edit --allowed-tools 'Bash(pytest*)' --max-turns 30"
        " --strict-exit",
        "treadle models use anthropic",  # tests/cli/choosing/test_choice.py chooses
    ]


def test_the_demo(tmp_path: Path) -> None:
    done = treadle("demo", "--one", cwd=tmp_path)
    assert done.returncode == 0 and "passes with this change" in done.stdout


def test_the_chat_that_begins_with_a_prompt(tmp_path: Path, env: dict[str, str]) -> None:
    with ChatTerminal([TREADLE, "the tests fail, fix them"], tmp_path, env) as chat:
        chat.until(r"Three tests\.")


@pytest.mark.parametrize("number", [3, 4])
def test_the_lines_for_scripts(tmp_path: Path, env: dict[str, str], number: int) -> None:
    if "jq" in typed()[number]:
        need("jq")
    done = subprocess.run(["sh", "-c", typed()[number]], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "Three tests.\n"), done.stderr


def test_the_program(tmp_path: Path, env: dict[str, str]) -> None:
    [program] = blocks("python")
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "Three tests.\n"), done.stderr
