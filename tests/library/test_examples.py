"""The examples of the library, run as a person would run them."""

import os
import subprocess
import sys
from pathlib import Path

from tests.scripts import reply, says

EXAMPLES = Path(__file__).parents[2] / "examples" / "library"


def run(name: str, cwd: Path, replies: str, *words: str) -> subprocess.CompletedProcess[str]:
    (cwd / "script.toml").write_text(replies)
    env = {**os.environ, "TREADLE_MODEL": f"scripted:{cwd / 'script.toml'}"}
    command = [sys.executable, str(EXAMPLES / name), *words]
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=120)


def test_every_example_is_run_here() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == {"ask.py", "tools_and_hooks.py", "script.py"}


def test_one_turn_event_by_event(tmp_path: Path) -> None:
    done = run("ask.py", tmp_path, '[[reply]]\ntext = "It weaves."\n', "What?")
    assert done.stdout == "It weaves.\n(completed)\n", done.stderr


def test_tools_hooks_and_answers_of_a_program(tmp_path: Path) -> None:
    replies = reply(
        call=[
            {"name": "in_stock", "arguments": {"article": "loom"}},
            {"name": "bash", "arguments": {"command": "cat stock.txt"}},
        ]
    ) + says("Two looms.", when="no shell here")
    done = run("tools_and_hooks.py", tmp_path, replies)
    # What a hook blocks, nobody is asked about.
    assert done.stdout.splitlines() == ["in_stock: 2 of loom", "Two looms.", "cost: unknown"], done.stderr


def test_without_async_what_changed_is_told(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("a mispeling\n")
    replies = reply(
        call=[
            {"name": "read_file", "arguments": {"file_path": "README.md"}},
            {
                "name": "edit_file",
                "arguments": {"file_path": "README.md", "old_string": "mispeling", "new_string": "misspelling"},
            },
        ]
    ) + says("Done.")
    done = run("script.py", tmp_path, replies)
    assert done.returncode == 0 and done.stdout.startswith("Done.\nchanged: "), done.stderr
    assert (tmp_path / "README.md").read_text() == "a misspelling\n"
