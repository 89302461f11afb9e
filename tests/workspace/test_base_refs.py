"""What a run began with is there until the run is over, whatever the user's own git removes."""

import shutil
from pathlib import Path

import pytest

from tests.agent.checkouts import checkout, git
from treadle.workspace.user_repository import UserRepository, forget, keep
from treadle.workspace.workspace import WorkspaceMode, prepare


def rewrite(top: Path) -> str:
    """Amend the last commit with other files, and remove all that nothing names any more."""
    base = git(top, "rev-parse", "HEAD")
    (top / "file.txt").write_text("rewritten\n")
    git(top, "commit", "-qa", "--amend", "-m", "rewritten")
    git(top, "reflog", "expire", "--expire=now", "--all")
    git(top, "gc", "-q", "--prune=now")
    return base


@pytest.mark.parametrize("mode", ["staged", "worktree"])
def test_a_workspace_can_state_its_changes_after_gc(tmp_path: Path, mode: WorkspaceMode) -> None:
    top, own = checkout(tmp_path / "w"), tmp_path / "run"
    own.mkdir()
    workspace = prepare(mode, str(top), str(own), name="x")
    Path(workspace.root, "file.txt").write_text("one\nand more\n")
    base = rewrite(top)
    found = workspace.difference()
    assert [change.path for change in found.changes] == ["file.txt"] and b"+and more" in found.patch
    workspace.discard()
    assert git(top, "for-each-ref", "refs/treadle") == ""
    git(top, "gc", "-q", "--prune=now")
    assert git(top, "cat-file", "-t", base, check=False) == ""


def test_each_keeps_its_own(tmp_path: Path) -> None:
    top = checkout(tmp_path / "w")
    user = UserRepository.at(str(top))
    assert user is not None
    commit = git(top, "rev-parse", "HEAD")
    assert keep(user, "/one", commit) == keep(user, "/other", commit) == ""
    forget(user, "/one")
    forget(user, "/one")
    assert len(git(top, "for-each-ref", "refs/treadle").splitlines()) == 1


def test_what_cannot_be_kept_is_said(tmp_path: Path) -> None:
    top = checkout(tmp_path / "w")
    user = UserRepository.at(str(top))
    assert user is not None and "is not kept from git gc" in keep(user, "/one", "1" * 40)


def test_with_a_repository_that_is_gone_nothing_is_left_to_forget(tmp_path: Path) -> None:
    top = checkout(tmp_path / "w")
    user = UserRepository.at(str(top))
    assert keep(user, str(tmp_path / "a"), git(top, "rev-parse", "HEAD")) == ""
    shutil.rmtree(top)
    forget(user, str(tmp_path / "a"))
