"""`treadle merge` and `diff`: the work of a terminal with a worktree is shown, brought over or thrown away."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.terminal.shells import Here, Shell
from tests.terminal.support import until
from tests.workspace.repositories import make
from treadle.terminal import worktree
from treadle.terminal.settings import TerminalSettings

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


@pytest.mark.slow
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


def test_a_conflict_changes_nothing(shell: Shell, repository: Path) -> None:
    start(shell, "echo theirs > a.txt; echo new > b.txt")
    (repository / "a.txt").write_text("mine\n")
    done = shell.run("merge", "w")
    assert done.returncode == 1 and "a.txt" in done.stderr
    assert (repository / "a.txt").read_text() == "mine\n" and not (repository / "b.txt").exists()


def test_no_other_terminal_takes_the_id_by_which_the_work_is_found(shell: Shell, repository: Path) -> None:
    workdir = start(shell, "echo new > b.txt")
    shell("kill", "w")
    refused = shell.run("run", "--detach", "--id", "w", "--", "sleep", "100")
    assert refused.returncode == 1 and "has left work in its worktree" in refused.stderr
    assert "b.txt" in shell("diff", "w") and "1 changed file" in shell("merge", "w")
    assert (repository / "b.txt").read_text() == "new\n" and not workdir.exists()
    assert shell("run", "--detach", "--id", "w", "--", "sleep", "100")


@pytest.fixture
def work(here: Here, tmp_path: Path) -> tuple[Path, Path]:
    """A repository, and the worktree of a terminal `w` that has ended."""
    settings = TerminalSettings()
    settings.workdir = make(tmp_path / "r").top
    root = Path(worktree.make("w", settings).root)
    here.ended("w", workdir=str(root))
    return tmp_path / "r", root


def test_commits_of_its_own_keep_the_worktree_until_they_are_brought_or_thrown_away(
    here: Here, work: tuple[Path, Path]
) -> None:
    source, root = work
    (root / "a.txt").write_text("two\n")
    git(root, "commit", "-qam", "its own")
    code, out, err = here.run("merge", "w")
    assert (code, out) == (0, f"1 changed files are in {source.resolve()} now\n")
    assert "is kept: it has commits of its own" in err and root.exists()
    code, out, err = here.run("merge", "w", "--branch", "--discard")
    assert (code, out) == (2, "") and "cannot be combined" in err and root.exists()
    branch = here("merge", "w", "--branch").removeprefix("the branch ").removesuffix(" has it\n")
    assert git(source, "log", "-1", "--format=%s", branch) == "its own\n"
    assert here("merge", "w", "--discard") == f"the worktree {root} is gone\n" and not root.exists()


def test_files_that_other_programs_obey_are_brought_only_when_asked(here: Here, work: tuple[Path, Path]) -> None:
    source, root = work
    (root / "AGENTS.md").write_text("obey\n")
    assert here.run("merge", "w")[0] == 1 and not (source / "AGENTS.md").exists() and root.exists()
    assert here("merge", "w", "--anyway") == f"1 changed files are in {source.resolve()} now\n"
    assert (source / "AGENTS.md").read_text() == "obey\n"


def test_a_terminal_without_a_worktree_has_nothing_to_show(shell: Shell) -> None:
    shell("run", "--detach", "--id", "plain", "--", "sleep", "100")
    assert "no worktree of its own" in shell.run("diff", "plain").stderr
    done = shell.run("run", "--worktree", "--detach", "--", "sleep", "100")
    assert done.returncode == 1 and "not in a git repository" in done.stderr
    assert not os.path.exists(shell.directory.parent / "worktrees")
