"""The checks in examples/ci, run as they are, in a clone of a repository to which an agent's work was pushed."""

import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.test_receipt_verify import made_by_a_run
from tests.conftest import need
from tests.installed import TREADLE, treadle
from tests.workspace.repositories import git

CI = Path(__file__).parents[2] / "examples" / "ci"
WHO = ("-c", "user.name=x", "-c", "user.email=x")
EXPECT = "outcome=complete,confined=yes,verified=yes"


def script(name: str) -> str:
    """What the job runs, without what fetches Treadle."""
    found: Any = yaml.safe_load((CI / name).read_text())
    if "receipt" in found:
        return "\n".join(found["receipt"]["script"])
    (text,) = (step["run"] for step in found["runs"]["steps"] if "git notes" in step.get("run", ""))
    return str(text)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["github/action.yml", "gitlab.yml"])
def test_the_check_passes_for_what_the_run_made_and_for_nothing_else(tmp_path: Path, name: str) -> None:
    need("bwrap")
    public = treadle("receipt", "keygen").stdout.strip()
    top, origin, clone = tmp_path / "top", tmp_path / "origin.git", tmp_path / "clone"
    run_id = made_by_a_run(top)
    assert treadle("receipt", "export", run_id, "--out", str(tmp_path / "run.intoto.jsonl")).returncode == 0
    commit = git("rev-parse", f"treadle/{run_id[:8]}", cwd=str(top)).stdout.decode().strip()
    git("init", "-q", "--bare", str(origin), cwd=str(tmp_path))
    git("notes", "--ref=receipts", "add", "-F", str(tmp_path / "run.intoto.jsonl"), commit, cwd=str(top))
    git("push", "-q", str(origin), f"{commit}:refs/heads/agent", "refs/notes/receipts", cwd=str(top))
    git("clone", "-q", "-b", "agent", str(origin), str(clone), cwd=str(tmp_path))
    (clone / "keys.toml").write_text(f'[[key]]\npublic = "{public}"\nwho = "ci"\n')

    def check(**changes: str) -> subprocess.CompletedProcess[str]:
        places = f"{shlex.quote(os.path.dirname(TREADLE))}:{os.environ['PATH']}"
        wanted = {"COMMIT": commit, "TRUSTED": "keys.toml", "EXPECT": EXPECT, "REPORT": "report.xml", "PATH": places}
        env = {**os.environ, **wanted, **changes}
        return subprocess.run(["bash", "-c", script(name)], cwd=clone, env=env, capture_output=True, text=True)

    done = check()
    assert done.returncode == 0 and "signed by ci" in done.stdout, done.stdout + done.stderr
    assert 'failures="0"' in (clone / "report.xml").read_text()
    assert check(EXPECT="differences=none,agent=another").returncode == 13
    (clone / "more.txt").write_text("slipped in")
    git("add", "-A", cwd=str(clone))
    git(*WHO, "commit", "-qm", "more", cwd=str(clone))
    other = git("rev-parse", "HEAD", cwd=str(clone)).stdout.decode().strip()
    git(*WHO, "notes", "--ref=receipts", "copy", commit, other, cwd=str(clone))
    git("push", "-qf", str(origin), "refs/notes/receipts", cwd=str(clone))
    assert check(COMMIT=other).returncode == 20, "the receipt is about another tree"
