"""`treadle coord setup`: shown before it is done, done once, and taken out again byte for byte."""

from pathlib import Path

import pytest

from tests.coordination.conftest import Run


def files(top: Path) -> dict[str, bytes]:
    found = [path for path in top.rglob("*") if path.is_file() and ".git" not in path.relative_to(top).parts[:1]]
    return {str(path.relative_to(top)): path.read_bytes() for path in found if ".planning" not in path.parts}


@pytest.fixture
def beside(project: Path) -> Path:
    (project / "AGENTS.md").write_text("# Ours\r\n\nKeep.")
    return project


def test_a_dry_run_shows_the_difference_and_changes_nothing(heimdall: Run, beside: Path) -> None:
    before = files(beside)
    done = heimdall("setup", "codex", "--dry-run")
    assert done.returncode == 0 and "+++ " in done.stdout and "AGENTS.md" in done.stdout
    assert files(beside) == before


def test_it_is_set_up_once_and_taken_out_as_it_was(heimdall: Run, beside: Path) -> None:
    before = files(beside)
    first = heimdall("setup", "codex", "--no-guard")
    assert first.returncode == 0 and f"changed {beside}/AGENTS.md" in first.stdout and files(beside) != before
    again = heimdall("setup", "codex", "--no-guard")
    assert "wrote" not in again.stdout and f"unchanged {beside}/AGENTS.md" in again.stdout
    shown = heimdall("setup", "codex", "--remove", "--dry-run")
    assert f"would take our part out of {beside}/AGENTS.md" in shown.stdout and files(beside) != before
    assert heimdall("setup", "codex", "--remove").returncode == 0
    assert files(beside) == before
    assert heimdall("setup", "codex", "--remove").stdout == "codex was not set up here\n"


def test_commits_are_checked_unless_that_is_not_wanted_and_then_it_says_so(heimdall: Run, project: Path) -> None:
    hook = project / ".git" / "hooks" / "pre-commit"
    done = heimdall("setup", "claude", "--no-guard")
    assert "commits are not checked yet" in done.stderr and not hook.exists()
    assert "(block)" in heimdall("setup", "claude").stdout and hook.exists()


@pytest.mark.parametrize("words", [(), ("emacs",), ("claude", "codex"), ("claude", "--force")])
def test_what_is_no_program_of_ours_is_refused(heimdall: Run, words: tuple[str, ...]) -> None:
    assert heimdall("setup", *words).returncode == 2


def test_the_difference_has_only_the_lines_that_change_and_says_which_files_are_new(
    heimdall: Run, beside: Path
) -> None:
    shown = heimdall("setup", "codex", "--dry-run").stdout
    assert f"--- {beside}/AGENTS.md\n+++ {beside}/AGENTS.md\n" in shown and "--- /dev/null\n+++ " in shown
    assert "-# Ours" not in shown and " # Ours" in shown and "-Keep." in shown
    done = heimdall("setup", "codex", "--no-guard").stdout
    assert any(line.startswith("wrote ") for line in done.splitlines())
    removed = heimdall("setup", "codex", "--remove").stdout.splitlines()
    assert f"changed {beside}/AGENTS.md" in removed and any(line.startswith("removed ") for line in removed)
