"""A person's repository for tests, and git as that person would run it."""

import os
from collections.abc import Mapping
from pathlib import Path

from treadle.io.process.programs import Finished, run_program
from treadle.workspace.git import FETCHING, OPTIONS, environment
from treadle.workspace.workspace import Workspace, WorkspaceMode, prepare


def git(*arguments: str, cwd: str, env: Mapping[str, str] | None = None, stdin: bytes = b"") -> Finished:
    done = run_program(
        ["git", *OPTIONS, *arguments], cwd=cwd, env=environment({**FETCHING, **(env or {})}), stdin=stdin
    )
    assert done.code == 0, done.complaint
    return done


class Repository:
    def __init__(self, top: str) -> None:
        self.top = top
        self.common = os.path.join(top, ".git")

    def git(self, *arguments: str) -> str:
        return os.fsdecode(git(*arguments, cwd=self.top).stdout)

    def commit(self, name: str = "HEAD") -> str:
        return self.git("rev-parse", "--verify", f"{name}^{{commit}}").strip()


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
    return Repository(os.path.realpath(path))


def branches(repository: Repository) -> set[str]:
    return set(repository.git("for-each-ref", "--format=%(refname:short)", "refs/heads").split())


def open_in(tmp_path: Path, source: Path, mode: WorkspaceMode = "staged", **more: object) -> Workspace:
    directory = tmp_path / "run"
    directory.mkdir()
    return prepare(mode, str(source), str(directory), name="r1", **more)  # type: ignore[arg-type]
