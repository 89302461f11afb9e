"""A worktree for one task: made, kept if anything changed, removed if not, never left half made."""

import asyncio
import os
from pathlib import Path

import pytest

from tests.agent.repository import git, make_repository
from tests.conftest import need
from treadle.agent.isolation import isolated
from treadle.errors import WorkspaceError


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    need("git")
    return make_repository(tmp_path / "repository")


def worktrees(repository: Path) -> int:
    return git(repository, "worktree", "list", "--porcelain").count("worktree ")


def branches(repository: Path) -> list[str]:
    return git(repository, "branch", "--format=%(refname:short)").split()


async def test_one_in_which_nothing_changed_is_gone_with_its_branch(repository: Path) -> None:
    async with isolated(str(repository), "Look & see") as place:
        assert Path(place.cwd, "shared.txt").read_text() == "as it was\n"
        assert place.tree.branch.startswith("treadle/look-see-") and place.pending == 0
    assert not place.kept and not os.path.exists(place.cwd)
    assert worktrees(repository) == 1 and branches(repository) == ["main"]


async def test_one_with_a_change_is_kept_with_its_branch(repository: Path) -> None:
    async with isolated(str(repository), "x") as place:
        Path(place.cwd, "new.txt").write_text("hello")
    assert place.kept and Path(place.cwd, "new.txt").exists() and place.tree.branch in branches(repository)
    assert not (repository / "new.txt").exists()


async def test_a_commit_is_a_change_too(repository: Path) -> None:
    async with isolated(str(repository), "x") as place:
        Path(place.cwd, "shared.txt").write_text("changed\n")
        git(place.cwd, "commit", "-qam", "second")
    assert place.kept and git(repository, "log", "--format=%s", place.tree.branch).split() == ["second", "first"]


async def test_a_directory_inside_the_repository_stays_that_directory(repository: Path) -> None:
    (repository / "shared.txt").write_text("not committed\n")
    async with isolated(str(repository / "src"), "x") as place:
        assert Path(place.cwd).name == "src" and Path(place.cwd, "a.py").exists()
        assert place.pending == 1 and Path(place.cwd, "../shared.txt").read_text() == "as it was\n"


async def test_many_at_once_do_not_get_in_each_others_way(repository: Path) -> None:
    async def one(number: int) -> str:
        async with isolated(str(repository), "same") as place:
            Path(place.cwd, "shared.txt").write_text(f"{number}\n")
        return place.cwd

    places = await asyncio.gather(*map(one, range(6)))
    assert len(set(places)) == 6 and worktrees(repository) == 7


async def test_interrupted_while_it_is_made_it_is_taken_away_again(repository: Path) -> None:
    async def use() -> None:
        async with isolated(str(repository), "x"):
            pytest.fail("it was cancelled before")

    task = asyncio.create_task(use())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert worktrees(repository) == 1 and branches(repository) == ["main"]


async def test_where_there_is_no_repository_or_no_commit_it_says_what_to_do(tmp_path: Path) -> None:
    need("git")
    with pytest.raises(WorkspaceError, match="not in a git repository"):
        async with isolated(str(tmp_path), "x"):
            pass
    git(tmp_path, "init", "-q")
    with pytest.raises(WorkspaceError, match="commit something first"):
        async with isolated(str(tmp_path), "x"):
            pass
