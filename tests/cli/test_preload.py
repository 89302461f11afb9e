"""What a warm parent has loaded."""

import json
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
preload.work()
print(*sorted(set(sys.modules) - before), file=sys.stderr)
"""
SCRIPT = '[[reply]]\n[[reply.call]]\nname = "bash"\narguments = { command = "true" }\n[[reply]]\ntext = "done"\n'


def test_a_worker_with_a_command_in_a_repository_has_nothing_left_to_load(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / "s.toml").write_text(SCRIPT)
    config = {"model": "scripted:s.toml", "system_prompt": "", "tools": ["bash"]}
    lines = [{"type": "init", "config": config}, {"type": "send", "message": "hello"}, {"type": "shutdown"}]
    said = "".join(json.dumps({**line, "id": str(number)}) + "\n" for number, line in enumerate(lines))
    done = subprocess.run([sys.executable, "-c", COPY], cwd=tmp_path, input=said, capture_output=True, text=True)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["response"] for one in answers if one["type"] == "result"] == ["done"] and done.stderr == "\n"


def test_what_attaches_is_not_for_a_copy_and_everything_else_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert terminal("run", ["cat"]) == DECLINED
    assert terminal("ls", ["--json"]) == 0 and capsys.readouterr().out == "[]\n"
