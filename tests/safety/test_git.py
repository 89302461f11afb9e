"""What an agent does with git in a user's checkout: no program of it runs outside, and nothing else changes."""

import os
from pathlib import Path

import pytest

from tests.safety import as_nobody, git_ways
from tests.tiers import spread
from treadle.io.sandbox import landlock, methods

pytestmark = pytest.mark.slow

NAMES = sorted(git_ways.WAYS)
EVERY = "TREADLE_EVERY_WAY" in os.environ
"""Otherwise a sixth of the ways is tried for each further user and method: each takes about a second."""


def some(at: int) -> list[str]:
    return NAMES if EVERY else NAMES[at::6]


def test_there_are_enough_ways() -> None:
    assert len(NAMES) >= 60


if methods.available().method == "bubblewrap":

    @pytest.mark.parametrize("part", spread(range(4), quick=1))
    async def test_no_program_of_an_agent_runs_later_and_nothing_of_the_users_repository_changes(
        tmp_path: Path, part: int
    ) -> None:
        found = await git_ways.main(tmp_path, NAMES[part::4])
        assert {name: wrong for name, wrong in found.items() if wrong} == {}

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can try it as another user")
    def test_the_same_as_a_user_without_rights() -> None:
        with as_nobody.room() as base:
            found = as_nobody.as_another(base, [git_ways.__file__, str(base / "world"), *some(0)])
        assert len(found) >= 10 and {name: wrong for name, wrong in found.items() if wrong} == {}


@pytest.mark.long
@pytest.mark.skipif(landlock.problem() is not None, reason="needs Landlock")
def test_the_same_with_landlock(tmp_path: Path) -> None:
    found = as_nobody.with_landlock(tmp_path, [git_ways.__file__, str(tmp_path / "world"), *some(1)])
    assert len(found) >= 10 and {name: wrong for name, wrong in found.items() if wrong} == {}


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
