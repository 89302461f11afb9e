"""Workspaces are found again, also those of the release before: nothing that was kept is lost by an upgrade."""

import hashlib
import json
from pathlib import Path

import msgspec
import pytest

from tests.workspace.format0 import leave
from tests.workspace.repositories import Repository, branches, git, open_in
from treadle.workspace import journal
from treadle.workspace.workspace import (
    FORMAT,
    RECORD,
    Prepared,
    Workspace,
    abandoned,
    open_workspace,
    read_record,
)

MODES = ["staged", "worktree"]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    place = tmp_path / "run"
    place.mkdir()
    return place


def opened(directory: Path) -> Workspace:
    found = open_workspace(str(directory))
    assert found is not None
    return found


def worktrees(repository: Repository) -> int:
    return repository.git("worktree", "list", "--porcelain").count("worktree ")


@pytest.mark.parametrize("mode", MODES)
def test_what_an_earlier_release_kept_is_compared_and_applied(
    repository: Repository, directory: Path, mode: str
) -> None:
    root = leave(repository, directory, mode)
    (root / "a.txt").write_text("two\n")
    (root / "new.txt").write_text("new\n")
    (root / "noise.log").write_text("ignored\n")
    workspace = opened(directory)
    assert workspace.difference().status == "M  a.txt\nA  new.txt" and workspace.holds_work()
    assert b"-one\n+two\n" in workspace.difference().patch
    assert workspace.apply().written == ("a.txt", "new.txt")
    assert Path(repository.top, "a.txt").read_text() == "two\n"
    assert opened(directory).release(applied=True) is None
    assert not root.exists() and branches(repository) == {"main"} and worktrees(repository) == 1
    assert [path.name for path in directory.iterdir()] == [RECORD], "neither its snapshots nor its store are left"


@pytest.mark.parametrize("mode", MODES)
def test_it_can_be_discarded(repository: Repository, directory: Path, mode: str) -> None:
    (leave(repository, directory, mode) / "a.txt").write_text("two\n")
    if mode == "worktree":
        repository.git("update-ref", "-d", "refs/heads/treadle/r1")  # by hand
    opened(directory).discard()
    assert not directory.exists() and branches(repository) == {"main"} and worktrees(repository) == 1
    git("fsck", cwd=repository.top)


def test_commits_in_a_worktree_of_an_earlier_release_are_kept(repository: Repository, directory: Path) -> None:
    root = leave(repository, directory, "worktree")
    git("commit", "-q", "--allow-empty", "-m", "agent", cwd=str(root))
    assert opened(directory).release(applied=True) == str(root)
    assert branches(repository) == {"main", "treadle/r1"}


def test_its_filters_and_its_index_have_no_say(repository: Repository, directory: Path, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    root = leave(repository, directory, "worktree")
    git("update-index", "--skip-worktree", "a.txt", cwd=str(root))
    git("config", "filter.ev.clean", f"touch {canary}", cwd=str(root))
    (root / ".gitattributes").write_text("* filter=ev\n")
    (root / "a.txt").write_text("two\n")
    workspace = opened(directory)
    assert workspace.difference().status == "A  .gitattributes\nM  a.txt"
    workspace.discard()
    assert not canary.exists()


def test_what_died_while_it_was_made_leaves_no_worktree(repository: Repository, directory: Path) -> None:
    root = leave(repository, directory, "worktree", finished=False)
    assert open_workspace(str(directory)) is None
    for path in sorted(root.rglob("*"), reverse=True):
        path.unlink()
    root.rmdir()
    abandoned(str(directory), "r1")  # no repository
    abandoned(repository.top, "r2")
    assert branches(repository) == {"main", "treadle/r1"}
    abandoned(repository.top, "r1")
    assert branches(repository) == {"main"} and worktrees(repository) == 1


def test_a_branch_that_has_moved_since_is_not_abandoned(repository: Repository) -> None:
    repository.git("checkout", "-q", "-b", "treadle/r1")
    repository.git("commit", "-q", "--allow-empty", "-m", "mine")
    repository.git("checkout", "-q", "main")
    abandoned(repository.top, "r1")
    repository.git("checkout", "-q", "--orphan", "empty")
    abandoned(repository.top, "r1")
    assert branches(repository) == {"main", "treadle/r1"}


def test_an_unfinished_apply_of_an_earlier_release_is_finished(tmp_path: Path) -> None:
    target = tmp_path / "target"
    beside = target / ".treadle-apply-0123abcd"
    beside.mkdir(parents=True)
    (target / "a.txt").write_text("one\n")
    (beside / "old-0").write_text("one\n")
    (beside / "new-0").write_text("two\n")
    old, new = (f"file {hashlib.sha256(text).hexdigest()}" for text in (b"one\n", b"two\n"))
    step = {"path": "a.txt", "old": old, "new": new}
    record = {"format": 1, "target": str(target), "beside": str(beside), "state": "committed", "steps": [step]}
    (tmp_path / "apply.json").write_text(json.dumps(record))
    assert journal.settle(str(tmp_path / "apply.json")) == "finished"
    assert (target / "a.txt").read_text() == "two\n" and not beside.exists()


PLACE = Prepared(format=FORMAT, mode="staged", source="/s", root="/r", directory="/d", before="b")


def test_a_workspace_is_found_again_after_a_crash(tmp_path: Path, source: Path) -> None:
    first = open_in(tmp_path, source)
    Path(first.root, "new.txt").write_text("n")
    again = open_workspace(str(tmp_path / "run"))
    assert again is not None and [change.path for change in again.difference().changes] == ["new.txt"]
    assert open_workspace(str(tmp_path)) is None


def test_what_is_unfinished_is_none_and_what_an_earlier_release_prepared_is_read(tmp_path: Path) -> None:
    def record(data: bytes) -> Prepared | None:
        (tmp_path / RECORD).write_bytes(data)
        return read_record(str(tmp_path))

    assert read_record(str(tmp_path)) is None and record(b"") is None and record(b'{"mode": "staged"') is None
    assert record(msgspec.json.encode(PLACE)) == PLACE
    earlier = {"mode": "staged", "source": "/s", "root": "/r", "directory": "/d", "before": "b"}
    assert record(msgspec.json.encode(earlier)) == msgspec.structs.replace(PLACE, format=0)
