"""A repository of two people's agents, and the installed commands run in it as a person would."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from treadle.coordination.origin import SESSION_VARIABLES

BIN = Path(sys.executable).parent
Run = Callable[..., "subprocess.CompletedProcess[str]"]


def git(where: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(where), *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture(autouse=True)
def quiet_git(monkeypatch: pytest.MonkeyPatch) -> None:
    """Git with no settings of the machine's, and a known user."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for variable in (
        *SESSION_VARIABLES,
        "HEIMDALL_HAID",
        "HEIMDALL_PROCESS",
        "HEIMDALL_PLANNING_DIR",
    ):  # an agent may run the tests
        monkeypatch.delenv(variable, raising=False)
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "Ann")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "ann@example.org")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one commit, as the working directory."""
    top = tmp_path / "project"
    (top / "src" / "a").mkdir(parents=True)
    (top / "src" / "a" / "b.ts").write_text("export {}\n")
    git(tmp_path, "init", "-q", "-b", "main", str(top))
    git(top, "config", "user.email", "ann@example.org")
    git(top, "config", "user.name", "Ann")
    git(top, "add", ".")
    git(top, "commit", "-qm", "start")
    monkeypatch.chdir(top)
    return top


@pytest.fixture
def heimdall(project: Path) -> Run:
    """`heimdall("resolve", "set", "F1", "x")` runs `heimdall-resolve set F1 x` in the project."""

    def run(
        name: str, *arguments: str, stdin: str | bytes = "", cwd: Path = project, **env: str
    ) -> "subprocess.CompletedProcess[Any]":
        return subprocess.run(
            [str(BIN / f"heimdall-{name}"), *arguments],
            input=stdin if isinstance(stdin, bytes) else stdin.encode(errors="surrogateescape"),
            capture_output=True,
            cwd=cwd,
            env={**os.environ, **env},
            timeout=60,
        )

    def decoded(*arguments: Any, **more: Any) -> "subprocess.CompletedProcess[str]":
        done = run(*arguments, **more)
        return subprocess.CompletedProcess(
            done.args, done.returncode, done.stdout.decode(errors="surrogateescape"), done.stderr.decode()
        )

    return decoded
