"""A session that is exported as a trajectory, judged by Harbor's own validator, and taken up again by another agent."""

import os
import subprocess
import sys
from pathlib import Path

from tests.drivers.programs import CACHE
from tests.fleet.repositories import DONE, bash, model, other_agents, says, write
from tests.installed import treadle
from tests.outside import fetching

HARBOR = "harbor==0.25.0"
VALIDATE = "from harbor.utils.trajectory_validator import main; main()"


def fetched() -> Path:
    """It declares a newer Python than ours; its validator needs pydantic and nothing of that."""
    place = CACHE / HARBOR
    if not place.exists():
        pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--ignore-requires-python", "--target"]
        subprocess.run([*pip, str(place), HARBOR], check=True, timeout=300, env={**os.environ, **fetching()})
    return place


def test_harbor_accepts_a_session_and_another_agent_goes_on_with_it(state_home: Path, tmp_path: Path) -> None:
    begins = says("I chose tabs because of make.", bash("ls nosuch"), write("half.txt"))
    first = ("--model", model(tmp_path, begins, DONE, name="first"), "--permission-mode", "bypassPermissions")
    assert treadle("-p", "Call it Kestrel.", *first, cwd=tmp_path).returncode == 0
    (session,) = (state_home / "treadle" / "sessions").iterdir()
    exported = treadle("sessions", "export", session.name, "--format", "atif", "-o", "run.json", cwd=tmp_path)
    assert exported.returncode == 0, exported.stderr
    env = {**os.environ, "PYTHONPATH": str(fetched())}
    judged = subprocess.run(
        [sys.executable, "-c", VALIDATE, "run.json"], cwd=tmp_path, env=env, capture_output=True, text=True
    )
    assert judged.returncode == 0, judged.stdout + judged.stderr
    goes_on = says(
        "I go on.", when="(?s)take over a task from treadle.*Call it Kestrel.*ls nosuch.*tabs because.*Go on"
    )
    other_agents(other=model(tmp_path, goes_on, name="other"))
    done = treadle("-p", "Go on.", "--resume", "atif:run.json", "--agent", "other", cwd=tmp_path)
    assert "I go on." in done.stdout, done.stdout + done.stderr
