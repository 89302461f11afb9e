"""A type checker refuses wrong options, and editors list the names."""

import subprocess
import sys
from pathlib import Path

import pytest

import treadle
from treadle.library.conversation import SessionOptions
from treadle.session import _GROUPED, SessionSpec

CHECKED = """
import treadle

treadle.run("x", mode="nonsense")  # type: ignore[call-overload]
treadle.run("x", max_cost=1)  # type: ignore[call-overload]
treadle.run("x", cwd=3)  # type: ignore[call-overload]
treadle.query("x", limits=3)  # type: ignore[arg-type]
treadle.open(on_ask=lambda: True)  # type: ignore[arg-type,misc]
number: int = treadle.run("x", output_type=str).value  # type: ignore[assignment]
text: str = treadle.run("x", output_type=str).value
treadle.run("x", mode="plan", cwd=".", limits=treadle.Limits(max_cost_usd=1.0))
treadle.run("x", tools=["bash"], on_ask=lambda asked: True)
"""


@pytest.mark.slow
def test_mypy_refuses_wrong_options_and_takes_right_ones(tmp_path: Path) -> None:
    """Every ignore is needed, or mypy would say so."""
    (tmp_path / "program.py").write_text(CHECKED)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), "program.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_editors_and_dir_list_the_names() -> None:
    assert {"run", "query", "open", "tool", "Limits", "SessionOptions"} <= set(dir(treadle))
    assert all(getattr(treadle, name) is not None for name in dir(treadle))


def test_every_option_of_a_session_is_typed() -> None:
    """Those that `open` sets itself are left out."""
    fields = {*SessionSpec.__struct_fields__, *_GROUPED} - {"program", "answers"}
    assert fields <= SessionOptions.__annotations__.keys()
