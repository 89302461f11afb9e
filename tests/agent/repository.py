"""A real git repository for tests, with one commit."""

import subprocess
from pathlib import Path

WHO = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false"]


def git(directory: Path | str, *arguments: str) -> str:
    done = subprocess.run(["git", *WHO, *arguments], cwd=directory, check=True, capture_output=True, text=True)
    return done.stdout


def make_repository(directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    git(directory, "init", "-q", "-b", "main")
    (directory / "shared.txt").write_text("as it was\n")
    (directory / "src").mkdir()
    (directory / "src" / "a.py").write_text("a = 1\n")
    git(directory, "add", "-A")
    git(directory, "commit", "-q", "-m", "first")
    return directory
