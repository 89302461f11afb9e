"""What a repository's own configuration has git run, judged by whether git really runs it."""

import os
import subprocess
from pathlib import Path

import pytest

from treadle.io.paths import DISK
from treadle.policy.rules import Profile
from treadle.session import Access, Rules
from treadle.workspace.user_repository import run_when_looking

ALLOWED = Rules(allow=("Bash(git *)", "Bash(git)"))


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    top = tmp_path / "w"
    git(tmp_path, "init", "-q", "w")
    (top / "f").write_text("one\n")
    (top / ".gitattributes").write_text("f diff=it filter=it\n")
    git(top, "add", "-A")
    git(top, "-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "one")
    (top / "f").write_text("two\n")
    return top


def git(where: Path, *words: str) -> None:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", *words], cwd=where, env=env, check=True, capture_output=True, timeout=60)


def verdict(top: Path, command: str, rules: Rules = ALLOWED) -> str:
    guard = Profile(str(top), rules, "suggest", disk=DISK, configured=run_when_looking)
    return guard(Access(tool="bash", kind="execute", command=command)).verdict


@pytest.mark.parametrize(
    ("key", "looks"),
    [
        ("diff.external", "diff"),
        ("diff.it.command", "diff"),
        ("diff.it.textconv", "show"),
        ("core.fsmonitor", "status"),
        ("filter.it.clean", "diff"),
    ],
)
def test_a_program_in_a_repositorys_own_configuration_does_not_run_unasked(
    repository: Path, key: str, looks: str
) -> None:
    assert verdict(repository, f"git {looks}") == "allow"
    made = repository.parent / "made"
    git(repository, "config", key, f"touch {made}; cat; true")
    git(repository, looks)
    assert made.exists(), "git does not run it"
    for command in (f"git {looks}", f"cd . && git {looks}", f"git {looks} | cat"):
        assert verdict(repository, command, Rules(allow=("Bash(git *)", "Bash(cat)", "Bash(cd *)"))) == "ask"
    assert verdict(repository, f"git {looks}", Rules(allow=(f"Bash(git {looks})",))) == "allow"  # exactly this


def test_it_is_seen_in_an_included_file_and_in_a_nested_repository(repository: Path) -> None:
    git(repository, "init", "-q", "inner")
    git(repository / "inner", "config", "diff.external", "evil")
    assert verdict(repository, "git diff") == "allow" and verdict(repository, "cd inner && git diff") == "ask"
    (repository / "more").write_text("[diff]\n\texternal = evil\n")
    git(repository, "config", "include.path", "../more")
    assert verdict(repository, "git diff") == "ask"


@pytest.mark.parametrize(
    ("key", "value"), [("core.fsmonitor", "true"), ("filter.lfs.process", "git-lfs filter-process"), ("user.name", "n")]
)
def test_ordinary_settings_need_no_question(repository: Path, key: str, value: str) -> None:
    git(repository, "config", key, value)
    assert verdict(repository, "git diff") == "allow"


def test_a_repository_of_an_unusual_form_is_asked_about_and_none_is_not(repository: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    assert verdict(other, "git diff") == "allow"
    (other / ".git").symlink_to(repository / ".git")
    assert verdict(other, "git diff") == "ask"
