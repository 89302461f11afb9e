"""What an agent does with git in a user's checkout: no program of it runs outside, and nothing else changes."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.machines import path_without
from tests.safety import as_nobody, git_ways
from treadle.io.sandbox import landlock, methods

NAMES = sorted(git_ways.WAYS)
EVERY = "TREADLE_EVERY_WAY" in os.environ
"""Otherwise a third of the ways is tried for each further user and method: each takes about a second."""


def some(at: int) -> list[str]:
    return NAMES if EVERY else NAMES[at::3]


def test_there_are_enough_ways() -> None:
    assert len(NAMES) >= 60


if methods.available().method == "bubblewrap":

    @pytest.mark.parametrize("part", range(4))
    async def test_no_program_of_an_agent_runs_later_and_nothing_of_the_users_repository_changes(
        tmp_path: Path, part: int
    ) -> None:
        found = await git_ways.main(tmp_path, NAMES[part::4])
        assert {name: wrong for name, wrong in found.items() if wrong} == {}

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can try it as another user")
    def test_the_same_as_a_user_without_rights() -> None:
        with tempfile.TemporaryDirectory(dir="/var/tmp") as base:
            os.chown(base, as_nobody.NOBODY, as_nobody.NOBODY)
            os.chmod(base, 0o755)
            found = json.loads(as_another(Path(base), some(0)))
        assert len(found) >= 20 and {name: wrong for name, wrong in found.items() if wrong} == {}


def as_another(base: Path, names: list[str]) -> str:
    program = [sys.executable, git_ways.__file__, str(base / "world"), *names]
    argv = as_nobody.opened_for(program, base)
    env = {
        **os.environ,
        "HOME": str(base),
        "TREADLE_HOME": str(base / "state"),
        "TREADLE_TEST_AS": str(as_nobody.NOBODY),
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=300, cwd=base)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.skipif(landlock.problem() is not None, reason="needs Landlock")
def test_the_same_with_landlock(tmp_path: Path) -> None:
    env = {
        **os.environ,
        "PATH": path_without("bwrap", tmp_path / "programs"),
        "TREADLE_HOME": str(tmp_path / "state"),
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    argv = [sys.executable, git_ways.__file__, str(tmp_path / "world"), *some(1)]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert len(found) >= 20 and {name: wrong for name, wrong in found.items() if wrong} == {}


async def test_without_a_sandbox_they_work_so_the_canaries_can_sing(tmp_path: Path) -> None:
    tried = ["monitor", "hooks", "huge config", "module two levels down", "new nested repository", "nested repository"]
    tried += [
        "hooks in the checkout",
        "submodule that is not there yet",
        "new bare repository",
        "clean filter",
        "rebase",
    ]
    found = await git_ways.main(tmp_path, tried, confined=False)
    assert [name for name, wrong in found.items() if not any(one.startswith("ran:") for one in wrong)] == []
