import subprocess
from pathlib import Path

from treadle.terminal.viewers.panel import branch_of


def git(directory: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
    return subprocess.run(command, cwd=directory, check=True, capture_output=True, text=True).stdout.strip()


def test_the_branch_is_that_of_the_repository_around_the_directory(tmp_path: Path) -> None:
    assert branch_of(str(tmp_path)) == ""
    git(tmp_path, "init", "-q", "-b", "fix/one")
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    assert branch_of(str(inner)) == "fix/one"
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "x")
    git(tmp_path, "worktree", "add", "-q", "-b", "two", "other")
    assert branch_of(str(tmp_path / "other")) == "two"
    git(tmp_path, "checkout", "-q", "--detach")
    assert branch_of(str(tmp_path)) == git(tmp_path, "rev-parse", "HEAD")[:9]


def test_a_strange_git_file_is_no_branch(tmp_path: Path) -> None:
    (tmp_path / ".git").write_bytes(b"\xff\xfe")
    assert branch_of(str(tmp_path)) == ""
