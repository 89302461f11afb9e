"""A few of the random schedules; `make soak` runs ten thousand."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


def run_schedules(first: int, count: int, directory: Path, timeout: float) -> str:
    command = [sys.executable, "-m", "tests.terminal.schedules", str(first), str(count), str(directory)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=timeout).stdout


@pytest.mark.slow
def test_whatever_clients_do_each_subscriber_gets_all_of_it_in_order_and_then_exit(tmp_path: Path) -> None:
    assert run_schedules(0, 25, tmp_path / "s", 110).splitlines()[-1] == "25 schedules, 0 violations"
