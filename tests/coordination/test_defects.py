"""Defects seen in the original tools: they fail each of these tests."""

from pathlib import Path

import pytest

from tests.coordination.conftest import Run, git

ANN, BOB = "haid:ann.box-0001", "haid:bob.box-0002"
GOOD = '{"type":"question","from":"a","msg_id":"m","question":"?"}'


def trail(project: Path) -> list[list[str]]:
    return [line.split("\t") for line in (project / ".git/heimdall/protocol.log").read_text().splitlines()]


# Messages...


def test_a_last_line_without_a_newline_was_lost(heimdall: Run) -> None:
    assert heimdall("validate", "--on-receipt", stdin=GOOD).stdout == "ACCEPTED\n"
    mended = heimdall("validate", "--on-receipt", stdin="nonsense\n" + GOOD)
    assert mended.stdout == "ACCEPTED on retry (attempt 2)\n"


# The trail...


def test_tabs_and_newlines_in_values_split_the_log_and_the_list(heimdall: Run, project: Path) -> None:
    assert heimdall("resolve", "set", "A", "x\ty\nz").returncode == 0
    assert heimdall("resolve", "A").stdout == "x\ty\nz\n"
    assert heimdall("resolve", "list").stdout == "A\tx\\ty\\nz\n"
    assert [len(row) for row in trail(project)] == [4, 4, 4]


@pytest.mark.parametrize(
    "words",
    [
        "resolve list", "resolve nothing", "blackboard list", "blackboard get nothing", "capsule list",
        "capsule show nothing", "capsule deps nothing", "capsule hydrate nothing", "ledger report", "ledger delta",
        "haid current", "haid list", "claim list", "claim check a", "claim show", "claim reap", "claim release",
    ],
)  # fmt: skip
def test_some_actions_left_no_line_in_the_log(heimdall: Run, project: Path, words: str) -> None:
    heimdall(*words.split())
    (row,) = trail(project)
    assert len(row) == 4


# Symbols and facts...


# Capsules and briefs...


def test_a_diamond_was_hydrated_out_of_order(heimdall: Run) -> None:
    heimdall("capsule", "write", "base", "--what", "x")
    heimdall("capsule", "write", "L", "--what", "x", "--depends", "base")
    heimdall("capsule", "write", "T", "--what", "x", "--depends", "base,L")
    assert heimdall("capsule", "deps", "T").stdout.split() == ["base", "L", "T"]


def test_a_missing_dependency_was_noticed_after_half_the_output(heimdall: Run) -> None:
    heimdall("capsule", "write", "w2", "--what", "x", "--depends", "gone")
    for done in (
        heimdall("capsule", "hydrate", "w2"),
        heimdall("capsule", "deps", "w2"),
        heimdall("brief", "build", "--task", "1", "--spec", "s", "--capsules", "w2"),
    ):
        assert (done.returncode, done.stdout) == (1, "")
        assert "gone (needed by w2)" in done.stderr


# The ledger...


# Places and identities...


def test_the_planning_directory_was_that_of_the_tools_own_checkout(
    heimdall: Run, project: Path, tmp_path: Path
) -> None:
    git(project, "worktree", "add", "-q", str(tmp_path / "other"), "-b", "other")
    heimdall("resolve", "set", "F1", "x", cwd=tmp_path / "other")
    assert heimdall("resolve", "F1", cwd=project / "src").stdout == "x\n"
    assert heimdall("haid", cwd=tmp_path / "other").stdout != heimdall("haid").stdout


def test_a_missing_option_value_was_an_error_of_the_shell(heimdall: Run) -> None:
    for words in (["capsule", "write", "w", "--what"], ["ledger", "log", "--role"], ["brief", "build", "--task"]):
        assert heimdall(*words).returncode == 2
    assert heimdall("capsule", "write", "w", "--what", "x", "--where", "").returncode == 2


# MCP...
