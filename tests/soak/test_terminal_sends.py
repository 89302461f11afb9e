"""Two thousand sends at random moments, to agents that are stopped for up to ten seconds."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.terminal.tally import ROOT, Tally

SENDS = 2000
AGENTS, EACH = 40, 10
"""How many are driven at once, because nearly all of the time is spent in stops, and how often each in a block."""


def test_two_thousand_sends_approve_join_and_misstate_nothing(tmp_path: Path) -> None:
    def block(seed: int) -> dict[str, Any]:
        numbers = (seed, AGENTS * EACH, AGENTS, 10)
        command = [sys.executable, "-m", "tests.terminal.random_sends", *map(str, numbers), str(tmp_path / str(seed))]
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found

    found = Tally("terminals").fill(SENDS, block)
    print(found)
    assert ", 0 violations" in found
