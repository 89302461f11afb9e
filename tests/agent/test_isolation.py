"""A directory for one task: made, kept with a branch if anything changed, removed if not, never left half made."""

import asyncio
import os
import subprocess
import sys
import zlib
from pathlib import Path

import msgspec
import pytest

from tests.agent.repository import git, make_repository
from tests.conftest import need
from tests.safety.own_git import SETS, canaries, script
from treadle.errors import WorkspaceError
from treadle.io.paths import state_dir
from treadle.io.sandbox import methods
from treadle.sandboxed.repositories import isolated, take_over
from treadle.workspace.in_place import OWNED
from treadle.workspace.workspace import RECORD


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    need("git")
    return make_repository(tmp_path / "repository")


def places() -> list[str]:
    return os.listdir(os.path.join(state_dir(), "worktrees"))


def branches(repository: Path) -> list[str]:
    return git(repository, "branch", "--format=%(refname:short)").split()


async def test_one_in_which_nothing_changed_is_gone_and_has_no_branch(repository: Path) -> None:
    async with isolated(str(repository), "Look & see") as place:
        assert Path(place.cwd, "shared.txt").read_text() == "as it was\n"
        assert git(place.cwd, "symbolic-ref", "--short", "HEAD").strip() == place.branch
        assert place.branch.startswith("treadle/look-see-") and not place.notes
        assert branches(repository) == ["main"] and not (repository / ".git" / "worktrees").exists()
    assert not place.exists and places() == [] and branches(repository) == ["main"]
    async with isolated(str(repository), "&&&") as place:
        assert place.branch.startswith("treadle/agent-")


async def test_a_change_is_a_commit_on_a_branch_and_the_directory_is_kept(repository: Path) -> None:
    async with isolated(str(repository), "x") as place:
        Path(place.cwd, "new.txt").write_text("hello")
    assert place.exists and place.published and not place.problems and Path(place.cwd, "new.txt").exists()
    assert git(repository, "show", f"{place.branch}:new.txt") == "hello" and not (repository / "new.txt").exists()
    assert git(repository, "log", "--format=%s", place.branch).splitlines() == ["x: what a subagent left", "first"]
    assert git(repository, "status", "--porcelain") == "" == git(repository, "for-each-ref", "refs/treadle")
    directory = place._workspace.store.directory
    assert not os.path.exists(directory) and not os.path.exists(place._held.path)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(place._held.fd)


async def test_its_own_commits_are_on_the_branch_below_what_it_left_uncommitted(repository: Path) -> None:
    async with isolated(str(repository), "x") as place:
        Path(place.cwd, "shared.txt").write_text("changed\n")
        git(place.cwd, "commit", "-qam", "second")
        Path(place.cwd, "new.txt").write_text("hello")
    said = git(repository, "log", "--format=%s", place.branch).splitlines()
    if methods.available().method == "bubblewrap":
        assert not place.problems and said == ["x: what a subagent left", "second", "first"]
    else:
        assert "its own commits are only in" in place.problems[0] and said == ["x: what a subagent left", "first"]
    assert place.exists and git(repository, "diff", "--stat", "main", place.branch).count("|") == 2


async def test_a_commit_of_a_forged_object_is_not_believed_and_that_is_said(repository: Path) -> None:
    async with isolated(str(repository), "x") as place:
        Path(place.cwd, "shared.txt").write_text("harmless\n")
        git(place.cwd, "commit", "-qam", "second")
        name = git(place.cwd, "rev-parse", "HEAD:shared.txt").strip()
        loose = Path(place.cwd, ".git", "objects", name[:2], name[2:])
        loose.chmod(0o600)
        loose.write_bytes(zlib.compress(b"blob 5\0evil\n"))
        Path(place.cwd, "shared.txt").write_text("third\n")
        git(place.cwd, "commit", "-qam", "third")
    assert "its own commits are only in" in place.problems[0] and place.top in place.problems[0]
    assert os.path.exists(place._workspace.store.directory), "it is needed to look into them"
    assert git(repository, "show", f"{place.branch}:shared.txt") == "third\n"
    assert git(repository, "log", "--format=%s", place.branch).splitlines() == ["x: what a subagent left", "first"]


@pytest.mark.parametrize("name", SETS)
async def test_nothing_that_it_left_is_run_by_us(repository: Path, tmp_path: Path, name: str) -> None:
    """Filters, hooks, monitors and nested repositories: a git of ours in that directory would run most of them."""
    (repository / "a.txt").write_text("one\n")
    git(repository, "add", "a.txt")
    git(repository, "commit", "-qm", "a")
    async with isolated(str(repository), "x") as place:
        subprocess.run(["sh", "-c", script(name, tmp_path)], cwd=place.cwd, check=False, capture_output=True)
    assert (tmp_path / "ended").exists() and canaries(tmp_path) == set()
    assert place.exists and Path(place.cwd, "work.txt").exists()
    if name == "nested":  # it has a .gitmodules that names a program, which must not enter a repository
        assert not place.published and "gitmodulesUpdate" in place.problems[-1]
    else:
        assert git(repository, "show", f"{place.branch}:work.txt") == "the work\n"


async def test_a_directory_inside_the_repository_stays_that_directory(repository: Path) -> None:
    (repository / "shared.txt").write_text("not committed\n")
    async with isolated(str(repository / "src"), "x") as place:
        assert Path(place.cwd).name == "src" and Path(place.cwd, "a.py").exists()
        assert place.notes == [f"1 uncommitted changes of {repository} are not in the worktree"]
        assert Path(place.cwd, "../shared.txt").read_text() == "as it was\n"


async def test_many_at_once_do_not_get_in_each_others_way(repository: Path) -> None:
    async def one(number: int) -> str:
        async with isolated(str(repository), "same") as place:
            Path(place.cwd, "shared.txt").write_text(f"{number}\n")
        return place.branch

    made = await asyncio.gather(*map(one, range(6)))
    assert sorted(branches(repository)) == sorted(["main", *made]) and len(places()) == 6


async def test_interrupted_while_it_is_made_it_is_taken_away_again(repository: Path) -> None:
    async def use() -> None:
        async with isolated(str(repository), "x"):
            pytest.fail("it was cancelled before")

    task = asyncio.create_task(use())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert places() == [] and branches(repository) == ["main"]


async def test_what_a_task_left_that_had_not_begun_is_removed_and_what_cannot_be_read_is_told(
    repository: Path,
) -> None:
    unbegun, broken, kept = (Path(state_dir(), "worktrees", name) for name in ("unbegun-1", "broken-2", "kept-3"))
    for place in (unbegun, broken, kept):
        place.mkdir(parents=True)
        if place != kept:
            (place / OWNED).touch()
    async with isolated(str(repository), "x") as living:
        record = msgspec.json.decode(Path(living._held.path).with_name(RECORD).read_bytes())
    (broken / RECORD).write_bytes(msgspec.json.encode({**record, "format": 99}))  # of a later release
    for _ in range(2):  # it is not locked for ever by the one who could not read it
        [said] = await take_over(str(repository))
        assert said.startswith(f"a task was killed, and its work is only in {broken}: ")
    assert sorted(places()) == ["broken-2", "kept-3"]


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from treadle.sandboxed.repositories import isolated

async def main():
    async with isolated(sys.argv[1], "A task") as place:
        if sys.argv[2]:
            Path(place.cwd, sys.argv[2]).write_text("left")
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


def killed(repository: Path, name: str) -> None:
    words = [sys.executable, "-c", KILLED, str(repository), name]
    assert subprocess.run(words, check=False, env=dict(os.environ)).returncode == -9


@pytest.mark.slow
async def test_the_work_of_a_task_that_was_killed_becomes_a_branch_and_is_told_once(repository: Path) -> None:
    killed(repository, "new.txt")
    killed(repository, "")
    assert len(places()) == 2 and branches(repository) == ["main"]
    async with isolated(str(repository), "alive") as living:
        assert await take_over(str(repository / "elsewhere")) == []
        [said] = await take_over(str(repository))
        branch = next(name for name in branches(repository) if name.startswith("treadle/a-task-"))
        assert said.startswith(f"a task was killed before it ended: its work is now the branch {branch}, and in ")
        assert git(repository, "show", f"{branch}:new.txt") == "left" and len(places()) == 2
        assert Path(living.cwd).exists() and await take_over(str(repository)) == []


async def test_where_there_is_no_repository_or_no_commit_it_says_so(tmp_path: Path) -> None:
    need("git")
    with pytest.raises(WorkspaceError, match="not in a git repository"):
        async with isolated(str(tmp_path), "x"):
            pass
    git(tmp_path, "init", "-q")
    with pytest.raises(WorkspaceError, match="commit something first"):
        async with isolated(str(tmp_path), "x"):
            pass
