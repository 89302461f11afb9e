"""Two thousand racing answers to programs that ask one thing after the other, with stops and a busy machine."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.terminal.tally import ROOT, Tally

ANSWERS = 2000
PROGRAMS, DIALOGS, BUSY = 8, 12, 2
"""How many ask at once, how often each in a block, and how many busy processes there are beside them."""


def test_of_two_thousand_answers_none_runs_a_command_unread_or_is_lost_in_silence(tmp_path: Path) -> None:
    def block(seed: int) -> dict[str, Any]:
        numbers = map(str, (seed, PROGRAMS, DIALOGS, BUSY))
        command = [sys.executable, "-m", "tests.terminal.racing_answers", *numbers, str(tmp_path / str(seed))]
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found

    found = Tally("answers").fill(ANSWERS, block)
    print(found)
    assert ", 0 violations" in found
