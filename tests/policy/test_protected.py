"""Files that other programs act on."""

import pytest

from treadle.io.machine import DISK
from treadle.policy.profile import Mode, Profile
from treadle.policy.protected import is_protected
from treadle.session import Access, Rules

OBEYED = (
    *(".git/config", ".git/hooks/pre-commit", "sub/.git/config", ".vscode/tasks.json", ".envrc", ".mcp.json"),
    *(".github/workflows/ci.yml", ".gitlab-ci.yml", "AGENTS.md", "docs/CLAUDE.md", ".bashrc", ".treadle/config.toml"),
)


@pytest.mark.parametrize("path", OBEYED)
def test_they_are_known_wherever_they_lie(path: str) -> None:
    assert is_protected(f"/home/me/project/{path}")


@pytest.mark.parametrize("path", ["src/config", "README.md", ".gitignore", "github/x", "hooks/a", "a.vscode/b"])
def test_other_files_are_just_files(path: str) -> None:
    assert not is_protected(f"/home/me/project/{path}")


@pytest.mark.parametrize(("mode", "verdict"), [("auto-edit", "ask"), ("full-auto", "ask"), ("yolo", "allow")])
def test_writing_one_is_a_question_unless_a_rule_names_it(mode: Mode, verdict: str) -> None:
    write = Access(tool="write_file", kind="write", paths=("/w/.git/config",))
    assert Profile("/w", mode=mode, disk=DISK)(write).verdict == verdict
    assert Profile("/w", Rules(allow=("Write(.git/config)",)), mode, disk=DISK)(write).verdict == "allow"
    assert Profile("/w", Rules(allow=("Write",)), mode, disk=DISK)(write).verdict == verdict
    read = Access(tool="read_file", kind="read", paths=("/w/.git/config",))
    assert Profile("/w", mode=mode, disk=DISK)(read).verdict == "allow"


def test_a_redirection_to_one_is_a_question_too() -> None:
    guard = Profile("/w", mode="full-auto", disk=DISK)
    command = Access(tool="bash", kind="execute", command="echo x > .git/hooks/post-commit")
    assert guard(command).verdict == "ask"
