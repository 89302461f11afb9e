"""`treadle demo`."""

import os
import subprocess
from pathlib import Path

from tests.installed import TREADLE
from treadle.io.process import table


def test_the_demo_shows_what_it_promises_and_leaves_nothing_behind(tmp_path: Path) -> None:
    env = {**os.environ, "TMPDIR": str(tmp_path), "TREADLE_WARM": "60"}  # as on a person's machine
    done = subprocess.run([TREADLE, "demo"], capture_output=True, text=True, timeout=400, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    for part in ("dollars waits: prices.py overlaps", "stock asks: python3 check_shop.py", "was killed (kill -9)"):
        assert part in done.stdout
    assert "back     dollars to its author as" in done.stdout or "back     dollars as" in done.stdout
    assert "the page, for your browser: http://127.0.0.1:" in done.stdout
    for part in (
        "planned by an agent",
        "discount: red: prices.py:7",
        "met: the shop counts",
        "| reviewer |",
        "briefs took",
    ):
        assert part in done.stdout
    assert "check_shop.py: OK" in done.stdout and "4 receipts for 4 orders" in done.stdout
    assert list(tmp_path.iterdir()) == []
    left = [each for each in table.processes() if any(str(tmp_path) in word for word in table.command_line(each.pid))]
    assert left == []
