"""The program that holds a local model, without llama.cpp: it says what is missing, by words and exit code."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from treadle.agent.providers.local.serve import WITHOUT


@pytest.mark.parametrize(
    ("raises", "code", "says"),
    [
        ("ModuleNotFoundError('no xllamacpp')", WITHOUT, "local models need llama.cpp (no xllamacpp)"),
        ("ImportError('libgomp.so.1 is missing')", 1, "this system lacks what it needs: libgomp.so.1 is missing"),
    ],
)
def test_a_library_that_is_missing_and_one_that_does_not_load_are_told_apart(
    tmp_path: Path, raises: str, code: int, says: str
) -> None:
    (tmp_path / "xllamacpp.py").write_text(f"raise {raises}")
    argv = [sys.executable, "-m", "treadle.agent.providers.local.serve", "{}"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(argv, capture_output=True, text=True, env=env, timeout=60)
    assert (done.returncode, done.stdout) == (code, "") and says in done.stderr


def test_a_place_where_no_socket_can_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "xllamacpp.py").write_text(
        "class CommonParams:\n"
        "    def __init__(self): self.model = self.cpuparams = self.cpuparams_batch = type('P', (), {})()\n"
    )
    place = str(tmp_path / "none" / "x.sock")
    settings = json.dumps({"path": "m", "socket": place, "context": 1, "threads": 1})
    argv = [sys.executable, "-m", "treadle.agent.providers.local.serve", settings]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(argv, capture_output=True, text=True, env=env, timeout=60)
    assert done.returncode == 1 and f"no socket can be made at {place}: [Errno 2]" in done.stderr
