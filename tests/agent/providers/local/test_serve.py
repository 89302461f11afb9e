"""The program that holds a local model, without llama.cpp: it says what is missing, by words and exit code."""

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
