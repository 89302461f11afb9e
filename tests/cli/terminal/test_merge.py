"""`treadle merge`: the work of a terminal with a worktree is brought over or thrown away."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.cli.terminal.shells import Shell
from tests.terminal.support import until

GIT = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]


def git(directory: Path, *arguments: str) -> str:
    return subprocess.run([*GIT, *arguments], cwd=directory, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(shell: Shell) -> Path:
    git(shell.cwd, "init", "-q", "-b", "main")
    (shell.cwd / "a.txt").write_text("one\ntwo\nthree\n")
    (shell.cwd / ".gitignore").write_text("ignored\n")
    git(shell.cwd, "add", ".")
    git(shell.cwd, "commit", "-q", "-m", "first")
    return shell.cwd


def start(shell: Shell, script: str) -> Path:
    """Start it, and give the directory that it works in once the script has run."""
    shell("run", "--worktree", "--detach", "--id", "w", "--", "sh", "-c", f"{script}; touch ignored; exec sleep 100")
    workdir = Path(json.loads(shell("ls", "--json"))[0]["workdir"])
    until(lambda: (workdir / "ignored").exists())
    return workdir


def test_the_program_works_in_a_copy_and_its_changes_are_shown_and_brought_over(
    shell: Shell,
    repository: Path,
) -> None:
    workdir = start(shell, "echo four >> a.txt; echo new > b.txt")
    assert workdir != repository and (repository / "a.txt").read_text() == "one\ntwo\nthree\n"
    assert git(repository, "status", "--porcelain") == "" and git(repository, "branch").split() == ["*", "main"]
    patch = shell("diff", "w")
    assert "+four" in patch and "b/b.txt" in patch and "ignored" not in patch
    assert sorted(line.split()[-1] for line in shell("diff", "w", "--stat").splitlines()) == ["a.txt", "b.txt"]
    assert "2 changed files" in shell("merge", "w")
    assert (repository / "a.txt").read_text().endswith("four\n") and (repository / "b.txt").read_text() == "new\n"
    assert workdir.exists()
    shell("kill", "w")
    assert shell("merge", "w")
    assert not workdir.exists()
    assert "was removed" in shell.run("diff", "w").stderr


def test_its_commits_become_a_branch(shell: Shell, repository: Path) -> None:
    commit = "git -c user.name=b -c user.email=b@c commit -qam 'its own' && echo left > left.txt"
    workdir = start(shell, f"echo four >> a.txt; {commit}")
    made = json.loads(shell("merge", "w", "--branch", "--json"))
    log = git(repository, "log", "--format=%s", made["place"]).splitlines()
    assert made["outcome"] == "branch" and log[1:] == ["its own", "first"]
    assert git(repository, "show", f"{made['place']}:left.txt") == "left\n"
    assert git(repository, "status", "--porcelain") == "" and workdir.exists()


def test_a_conflict_changes_nothing(shell: Shell, repository: Path) -> None:
    start(shell, "echo theirs > a.txt; echo new > b.txt")
    (repository / "a.txt").write_text("mine\n")
    done = shell.run("merge", "w")
    assert done.returncode == 1 and "a.txt" in done.stderr
    assert (repository / "a.txt").read_text() == "mine\n" and not (repository / "b.txt").exists()


def test_work_is_thrown_away_only_when_the_program_has_ended(shell: Shell, repository: Path) -> None:
    workdir = start(shell, "echo new > b.txt")
    assert "still runs" in shell.run("merge", "w", "--discard").stderr and workdir.exists()
    shell("kill", "w")
    shell("merge", "w", "--discard")
    assert not workdir.exists() and not (repository / "b.txt").exists()


def test_no_other_terminal_takes_the_id_by_which_the_work_is_found(shell: Shell, repository: Path) -> None:
    workdir = start(shell, "echo new > b.txt")
    shell("kill", "w")
    shell("run", "--detach", "--id", "other", "--", "sleep", "100")
    for taking in (["run", "--detach", "--id", "w", "--", "sleep", "100"], ["rename", "other", "w"]):
        refused = shell.run(*taking)
        assert refused.returncode == 1 and "has left work in its worktree" in refused.stderr, taking
    assert "b.txt" in shell("diff", "w") and "1 changed file" in shell("merge", "w")
    assert (repository / "b.txt").read_text() == "new\n" and not workdir.exists()
    assert shell("rename", "other", "w") is not None
