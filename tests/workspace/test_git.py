"""Worktrees are added one at a time, and removed only when nothing would be lost."""

import subprocess
import threading
from pathlib import Path

import pytest

from treadle.errors import WorkspaceError
from treadle.workspace.git import Repository, disarmed, git


def make(path: Path, *, commit: bool = True) -> Repository:
    path.mkdir(parents=True)
    git("init", "--quiet", "-b", "main", cwd=str(path))
    git("config", "user.email", "t@example.com", cwd=str(path))
    git("config", "user.name", "T", cwd=str(path))
    (path / "a.txt").write_text("one\n")
    (path / ".gitignore").write_text("*.log\n")
    if commit:
        git("add", "-A", cwd=str(path))
        git("commit", "-qm", "start", cwd=str(path))
    found = Repository.find(str(path))
    assert found is not None
    return found


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return make(tmp_path / "repo")


def branches(repository: Repository) -> set[str]:
    return set(repository.git("for-each-ref", "--format=%(refname:short)", "refs/heads").split())


def test_a_directory_outside_any_repository_has_none(tmp_path: Path) -> None:
    assert Repository.find(str(tmp_path)) is None


def test_a_repository_is_found_from_inside_and_shares_one_directory(repository: Repository, tmp_path: Path) -> None:
    inside = Path(repository.top) / "deep"
    inside.mkdir()
    assert Repository.find(str(inside)).common == repository.common  # type: ignore[union-attr]
    tree = repository.add_worktree(str(tmp_path / "wt"), "b")
    assert Repository.find(tree.path).common == repository.common  # type: ignore[union-attr]


def test_a_repository_without_commits_has_nothing_to_work_from(tmp_path: Path) -> None:
    empty = make(tmp_path / "empty", commit=False)
    with pytest.raises(WorkspaceError, match="no commit"):
        empty.add_worktree(str(tmp_path / "wt"), "b")


def test_an_unchanged_worktree_is_removed_with_its_branch(repository: Repository, tmp_path: Path) -> None:
    tree = repository.add_worktree(str(tmp_path / "wt"), "task/1")
    (Path(tree.path) / "noise.log").write_text("what is ignored is no change\n")
    assert (Path(tree.path) / "a.txt").read_text() == "one\n"
    assert tree.remove_if_unchanged()
    assert not Path(tree.path).exists()
    assert branches(repository) == {"main"}


@pytest.mark.parametrize("change", ["edit", "new", "commit", "detached commit"])
def test_a_worktree_with_anything_new_is_kept(repository: Repository, tmp_path: Path, change: str) -> None:
    tree = repository.add_worktree(str(tmp_path / "wt"), "task/1")
    path = Path(tree.path)
    match change:
        case "edit":
            (path / "a.txt").write_text("two\n")
        case "new":
            (path / "b.txt").write_text("new\n")
        case _:
            if change == "detached commit":
                git("checkout", "-q", "--detach", cwd=tree.path)
            git("commit", "-qm", "more", "--allow-empty", cwd=tree.path)
    assert not tree.remove_if_unchanged()
    assert path.exists()
    assert branches(repository) == {"main", "task/1"}


def test_a_worktree_that_somebody_deleted_is_forgotten(repository: Repository, tmp_path: Path) -> None:
    tree = repository.add_worktree(str(tmp_path / "wt"), "task/1")
    subprocess.run(["rm", "-r", tree.path], check=True)
    assert tree.remove_if_unchanged()
    assert branches(repository) == {"main"}


def test_a_worktree_with_submodules_is_removed_too(repository: Repository, tmp_path: Path) -> None:
    local = ["-c", "protocol.file.allow=always", "submodule", "--quiet"]
    git(*local, "add", make(tmp_path / "library").top, "lib", cwd=repository.top)
    git("commit", "-qm", "with a library", cwd=repository.top)
    tree = repository.add_worktree(str(tmp_path / "tree"), "work")
    git(*local, "update", "--init", cwd=tree.path)
    assert tree.remove_if_unchanged() and not (tmp_path / "tree").exists()


def test_many_at_once_get_one_each(repository: Repository, tmp_path: Path) -> None:
    made, failed = [], []

    def add(number: int) -> None:
        try:
            made.append(repository.add_worktree(str(tmp_path / f"wt{number}"), f"task/{number}"))
        except WorkspaceError as error:
            failed.append(error)

    threads = [threading.Thread(target=add, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert len({tree.path for tree in made}) == 8


def test_hooks_of_the_repository_do_not_run(repository: Repository, tmp_path: Path) -> None:
    hook = Path(repository.top) / ".git" / "hooks" / "post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    repository.add_worktree(str(tmp_path / "wt"), "b")
    assert not (tmp_path / "ran").exists()


def test_a_failure_says_what_git_said(repository: Repository, tmp_path: Path) -> None:
    repository.add_worktree(str(tmp_path / "wt"), "b")
    with pytest.raises(WorkspaceError, match="b"):
        repository.add_worktree(str(tmp_path / "other"), "b")


def test_programs_that_the_config_of_one_worktree_names_are_taken_away_too(repository: Repository) -> None:
    git("config", "filter.shared.clean", "true", cwd=repository.top)
    shared = ["-c", "filter.shared.clean=", "-c", "filter.shared.required=false"]
    assert disarmed(repository.top) == shared
    git("config", "extensions.worktreeConfig", "true", cwd=repository.top)
    git("config", "--worktree", "filter.own.clean", "true", cwd=repository.top)
    assert disarmed(repository.top) == [*shared, "-c", "filter.own.clean=", "-c", "filter.own.required=false"]
