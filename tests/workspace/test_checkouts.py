"""What is not committed in a checkout is counted without git. What stands in the way of changing one is in
tests/landing/test_merging.py, by the command that does it."""

import os
from pathlib import Path

import pytest

from tests.workspace.repositories import Repository, git, make
from treadle.errors import WorkspaceError
from treadle.workspace import branch_moves
from treadle.workspace.changes import TreeEntry
from treadle.workspace.checkouts import around, enclosing, of_branch, uncommitted
from treadle.workspace.store import Store, lending


def count(repository: Repository, tmp_path: Path) -> int | None:
    store = Store.make(str(tmp_path / f"store{len(os.listdir(tmp_path))}"), lenders=[f"{repository.common}/objects"])
    _, files = store.borrow_tree(repository.commit())
    return uncommitted(around(repository.top), files)


@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_changed_staged_and_deleted_files_count_and_touched_ones_do_not(tmp_path: Path, version: str) -> None:
    repository = make(tmp_path / "repo")
    top = Path(repository.top)
    for name in ("deep/one.txt", "deep/two.txt", "deep/three.txt", "gone.txt", "touched.txt"):
        (top / name).parent.mkdir(exist_ok=True)
        (top / name).write_text(f"{name}\n")
    (top / "link").symlink_to("a.txt")
    git("add", "-A", cwd=repository.top)
    git("commit", "-qm", "more", cwd=repository.top)
    git("update-index", "--index-version", version, cwd=repository.top)
    assert count(repository, tmp_path) == 0
    (top / "deep" / "one.txt").write_text("edited\n")
    (top / "deep" / "two.txt").write_text("staged\n")
    git("add", "deep/two.txt", cwd=repository.top)
    (top / "gone.txt").unlink()
    git("rm", "-q", "--cached", "deep/three.txt", cwd=repository.top)
    os.utime(top / "touched.txt", (1, 1))
    assert count(repository, tmp_path) == 4


def test_an_edit_whose_size_and_time_are_put_back_counts(tmp_path: Path) -> None:
    repository = make(tmp_path / "repo")
    file = Path(repository.top) / "old.txt"
    file.write_text("before")
    os.utime(file, (1, 1))
    git("add", "-A", cwd=repository.top)
    git("commit", "-qm", "more", cwd=repository.top)
    file.write_text("edited")
    os.utime(file, (1, 1))
    assert count(repository, tmp_path) == 1


def test_an_index_in_two_parts_is_not_guessed_at(tmp_path: Path) -> None:
    repository = make(tmp_path / "repo")
    git("update-index", "--split-index", cwd=repository.top)
    assert count(repository, tmp_path) is None


def test_a_repository_is_found_from_inside_without_git(tmp_path: Path) -> None:
    repository = make(tmp_path / "repo")
    inside = tmp_path / "repo" / "deep" / "er"
    inside.mkdir(parents=True)
    assert around(str(inside)).top == repository.top
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / ".git").write_text("gitdir: /etc\n")
    assert enclosing(str(tmp_path / "plain")) is None
    with pytest.raises(WorkspaceError, match="not in a git repository"):
        around(str(tmp_path / "plain"))


def test_a_branch_does_not_move_over_a_file_that_the_persons_git_obeys(tmp_path: Path) -> None:
    repository = make(tmp_path / "repo")
    git("config", "include.path", "../team/gitconfig", cwd=repository.top)
    user = around(repository.top)
    old = repository.commit()
    store = Store.make(str(tmp_path / "store"), **lending(user))
    _, files = store.borrow_tree(old)
    evil = store.put("blob", b"[core]\n\tfsmonitor = evil\n")
    tree = store.put_files({**files, "team/gitconfig": TreeEntry(mode="100644", blob=evil)})
    with pytest.raises(WorkspaceError, match="team/gitconfig is read by your git"):
        branch_moves.move(user, "refs/heads/main", store, old, store.loose_commit(tree, [old]), "test")
    assert repository.commit() == old and not (tmp_path / "repo" / "team").exists()


def test_the_checkouts_of_a_branch_are_those_that_have_it_or_rebase_it(tmp_path: Path) -> None:
    repository = make(tmp_path / "repo")
    user = around(repository.top)
    branch = user.head()
    git("worktree", "add", "-q", "-b", "other", str(tmp_path / "two"), cwd=repository.top)
    git("worktree", "add", "-q", "--detach", str(tmp_path / "three"), cwd=repository.top)
    git("worktree", "add", "-q", "-b", "gone", str(tmp_path / "gone"), cwd=repository.top)
    (tmp_path / "gone").rename(tmp_path / "moved")

    def tops(ref: str) -> list[str]:
        return sorted(os.path.basename(each.top) for each in of_branch(user, ref))

    assert (tops(branch), tops("refs/heads/other"), tops("refs/heads/gone")) == (["repo"], ["two"], [])
    for name in ("rebase-merge", "rebase-apply"):
        place = Path(around(str(tmp_path / "three")).file(name))
        place.mkdir()
        (place / "head-name").write_text("refs/heads/other\n")
        assert (tops(branch), tops("refs/heads/other")) == (["repo"], ["three", "two"])
        (place / "head-name").unlink()
