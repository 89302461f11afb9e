"""The git hooks come with the first claim, and everyone is told when they are gone."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.coordination.conftest import Run, git
from tests.coordination.test_hooks import attempt, change
from treadle.coordination.hooks import HOOKS

BOB = "haid:bob.box-0002"


def claim(heimdall: Run, *surfaces: str, **env: str) -> str:
    done = heimdall("claim", "claim", *surfaces, "--task", "T", **{"HEIMDALL_HAID": BOB, **env})
    assert done.returncode == 0, done.stderr
    return "".join(
        line for line in (done.stdout + done.stderr).splitlines(True) if "hooks" in line or "warning" in line
    )


def test_the_first_claim_installs_the_hooks_and_says_so(heimdall: Run, project: Path) -> None:
    assert "git hooks were installed" in claim(heimdall, "src/a")
    change(project)
    assert attempt(project, "commit", "-qm", "no").returncode != 0
    assert claim(heimdall, "src") == ""
    assert heimdall("claim", "list").stderr == heimdall("claim", "who").stderr == ""


def overwritten(project: Path) -> None:
    for hook in HOOKS:
        (project / ".git/hooks" / hook).write_text("#!/bin/sh\n# lefthook\n")


def moved_away(project: Path) -> None:
    git(project, "config", "core.hooksPath", ".husky/_")


@pytest.mark.parametrize("spoil", [overwritten, moved_away])
def test_hooks_that_no_longer_run_are_missed_in_every_claim_list_and_who(
    heimdall: Run, project: Path, spoil: Callable[[Path], None]
) -> None:
    claim(heimdall, "src/a")
    spoil(project)
    said = [claim(heimdall, "docs"), heimdall("claim", "list").stderr, heimdall("claim", "who").stderr]
    assert all("warning: " in text and "are not refused here" in text and "guard install" in text for text in said)
    heimdall("claim", "guard", "install")
    assert heimdall("claim", "list").stderr == ""


def test_hooks_that_cannot_be_installed_do_not_stop_the_claim(heimdall: Run, project: Path) -> None:
    for name in ("pre-commit", "pre-commit.before-heimdall"):
        (project / ".git/hooks").mkdir(exist_ok=True)
        (project / ".git/hooks" / name).write_text(f"#!/bin/sh\n# {name}\n")
    assert "are not refused here" in claim(heimdall, "src/a")


def test_one_who_removed_them_is_not_told_again(heimdall: Run, project: Path) -> None:
    claim(heimdall, "src/a")
    heimdall("claim", "guard", "uninstall")
    assert claim(heimdall, "docs") == "warning: docs matches no file\n"
    assert heimdall("claim", "list").stderr == ""


def test_before_the_first_claim_and_in_a_directory_of_its_own_nothing_is_installed(
    heimdall: Run, project: Path, tmp_path: Path
) -> None:
    heimdall("claim", "list")
    heimdall("claim", "check", "src")
    (tmp_path / "apart").mkdir()
    claim(heimdall, "src/a", HEIMDALL_PLANNING_DIR=str(tmp_path / "apart"))
    assert not any((project / ".git/hooks" / hook).exists() for hook in HOOKS)
