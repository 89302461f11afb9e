"""Two thousand sends at random moments, to eight agents that are stopped for up to ten seconds."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.terminal.tally import ROOT, Tally

SENDS, BLOCK = 2000, 64


def test_two_thousand_sends_approve_join_and_misstate_nothing(tmp_path: Path) -> None:
    def block(seed: int) -> dict[str, Any]:
        command = [sys.executable, "-m", "tests.terminal.random_sends", str(seed), str(BLOCK), "8", "10"]
        done = subprocess.run([*command, str(tmp_path / str(seed))], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found

    found = Tally("terminals").fill(SENDS, block)
    print(found)
    assert ", 0 violations" in found
