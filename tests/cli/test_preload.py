"""What a warm parent has loaded."""

import subprocess
import sys
from pathlib import Path

import pytest

from treadle.cli.preload import terminal
from treadle.cli.warm import DECLINED

COPY = """
import sys
import treadle.io.process.warm_parent
from treadle.cli import preload

preload.preload()
before = set(sys.modules)
try:
    preload.once(sys.argv[1:])
finally:
    print(*sorted(set(sys.modules) - before), file=sys.stderr)
"""
SCRIPT = '[[reply]]\n[[reply.call]]\nname = "bash"\narguments = { command = "true" }\n[[reply]]\ntext = "done"\n'


def test_a_run_with_a_command_in_a_repository_has_nothing_left_to_load(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / "s.toml").write_text(SCRIPT)
    run = ["-p", "hello", "--model", "scripted:s.toml", "--permission-mode", "yolo"]
    done = subprocess.run(
        [sys.executable, "-c", COPY, *run], cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("done\n", "\n")


def test_what_attaches_is_not_for_a_copy_and_everything_else_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert terminal("run", ["cat"]) == DECLINED
    assert terminal("ls", ["--json"]) == 0 and capsys.readouterr().out == "[]\n"
