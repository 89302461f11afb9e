"""Two thousand sends at random moments, to eight agents that are stopped for up to ten seconds."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_two_thousand_sends_approve_join_and_misstate_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.terminal.random_sends", "7", "2000", "8", "10", str(tmp_path / "s")]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=14_000)
    print(done.stdout)
    assert done.stdout.splitlines()[-1] == "2000 sends, 0 violations"
