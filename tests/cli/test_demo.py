"""`treadle demo --one`."""

import os
import subprocess
from pathlib import Path

from tests.installed import TREADLE
from tests.scripts import calls, says
from treadle.agent.stored_sessions import list_sessions


def demo(place: Path, *options: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "TMPDIR": str(place)}
    done = subprocess.run([TREADLE, "demo", *options], capture_output=True, text=True, timeout=120, env=env)
    assert list(place.glob("treadle-demo-*")) == []
    return done


def test_the_small_demo_shows_the_change_and_that_the_test_passes(tmp_path: Path) -> None:
    done = demo(tmp_path, "--one")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "+    return full - full * discount_percent // 100" in done.stdout
    assert "The test as it was at the start passes" in done.stdout and "bold" not in done.stdout
    parts = ("A repository with a failing test: ", "> The test in check_prices.py fails.", "What changed (git diff):")
    for part in (*parts, "The model's words: scripted; the loop, the tools, the edit and the test were real."):
        assert part.strip() in " ".join(done.stdout.split())
    assert list_sessions() == [], "nothing is kept"


def test_an_agent_that_changes_the_test_in_place_of_the_code_is_found_out(tmp_path: Path) -> None:
    mine, script = tmp_path / "mine", tmp_path / "cheat.toml"
    mine.write_text("a file of the user")
    script.write_text(calls("bash", {"command": f"ln -sf {mine} check_prices.py"}) + says("The test passes now."))
    done = demo(tmp_path, "--model", f"scripted:{script}")
    assert "The test passes now." in done.stdout and "The model's words: all of it was real." in done.stdout
    assert "The test as it was at the start still FAILS" in done.stdout and done.returncode == 1
    assert mine.read_text() == "a file of the user"
