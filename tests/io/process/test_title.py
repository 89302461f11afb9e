import io
import subprocess
import sys
from pathlib import Path

import pytest

from treadle.io.process import signals
from treadle.io.process.table import HAS_PROC

CODE = """
from treadle.io.process.signals import set_title
print(set_title({!r}))
print(open("/proc/self/cmdline").read())
"""


@pytest.mark.skipif(not HAS_PROC, reason="needs /proc")
@pytest.mark.parametrize("text", ["treadle: terminal a1", "", "long " * 2000])
def test_ps_shows_the_title_as_far_as_it_fits(text: str) -> None:
    command = [sys.executable, "-c", CODE.format(text)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3])
    said, shown = done.stdout.rstrip("\n").split("\n")
    room = sum(len(word) + 1 for word in command) - 1
    assert said == "True" and shown.rstrip("\0") == text[:room].rstrip("\0")


@pytest.mark.parametrize(
    "fields", ["0 " * 60, "0 " * 45 + "7 8" + " 0" * 10, "0 " * 10, "x " * 60, "0 " * 45 + "0 9" + " 0" * 10]
)
def test_where_there_is_no_room_or_the_kernel_says_something_else_nothing_is_written(
    fields: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = io.BytesIO(f"1 (python (x)) {fields}".encode())
    with monkeypatch.context() as patched:
        patched.setattr("builtins.open", lambda path, mode: shown)
        assert signals.set_title("treadle") is False
