"""Radar: what would conflict, in real branches and worktrees."""

import json
import shutil
from pathlib import Path

import pytest

from tests.coordination.conftest import Run, git
from treadle.coordination import changes
from treadle.coordination.claims import Claims
from treadle.coordination.planning import Planning
from treadle.workspace.store import Store, lending

BOB = "haid:bob.box-0002"


@pytest.fixture
def claims(project: Path, tmp_path: Path) -> Claims:
    """main, a worktree `one` and a branch `two`, all with one commit of their own."""
    for branch, text in (("one", "one\n"), ("two", "two\n")):
        git(project, "checkout", "-qb", branch, "main")
        (project / "src/a/b.ts").write_text(text)
        (project / f"{branch}.txt").write_text(text)
        git(project, "add", ".")
        git(project, "commit", "-qm", branch)
    git(project, "checkout", "-q", "main")
    git(project, "worktree", "add", "-q", str(tmp_path / "one"), "one")
    return Claims(Planning(project=str(project)), str(project))


def test_the_command_exits_with_3_when_something_would_conflict(heimdall: Run, claims: Claims, project: Path) -> None:
    done = heimdall("claim", "radar")
    assert done.returncode == 3
    assert done.stdout.splitlines()[0].startswith("CONFLICT one (")
    assert done.stdout.splitlines()[1] == "  src/a/b.ts  held by no one"
    assert json.loads(heimdall("claim", "radar", "--json").stdout)[0]["files"][0]["file"] == "src/a/b.ts"
    git(project, "branch", "-D", "two")
    assert heimdall("claim", "radar").returncode == 0


def test_what_only_exists_on_disk_is_not_written_into_the_repository(claims: Claims, project: Path) -> None:
    (project / "src/a/b.ts").write_text("main, not committed\n")
    before = git(project, "count-objects")
    assert changes.scan(claims)
    assert git(project, "count-objects") == before


def test_lines_of_work_are_worktrees_that_are_there_and_branches_that_none_of_them_has(
    claims: Claims, project: Path, tmp_path: Path
) -> None:
    user = changes.of(str(project))
    store = Store.make(str(tmp_path / "store"), **lending(user))
    commits = {name: git(project, "rev-parse", name) for name in ("main", "one", "two")}
    main, one = f"main ({project})", f"one ({tmp_path / 'one'})"
    assert changes.live(user, store) == {main: commits["main"], one: commits["one"], "two": commits["two"]}
    git(tmp_path / "one", "checkout", "-q", "--detach")
    alone = f"{commits['one'][:12]} ({tmp_path / 'one'})"
    assert changes.live(user, store).keys() == {main, alone, "one", "two"}
    shutil.rmtree(tmp_path / "one")
    assert changes.live(user, store).keys() == {main, "one", "two"}


def test_a_file_that_was_removed_and_not_committed_conflicts_with_its_change(claims: Claims, project: Path) -> None:
    (project / "src/a/b.ts").unlink()
    pairs = [found["between"] for found in changes.scan(claims)]
    assert [f"main ({project})", "two"] in pairs
    git(project, "checkout", "-q", "src/a/b.ts")
    (project / "src/a/b.ts").chmod(0o644)
    assert len(changes.scan(claims)) == 1


def test_the_repository_says_how_files_are_merged(claims: Claims, project: Path) -> None:
    (project / ".gitattributes").write_text("*.ts merge=union\n")
    git(project, "add", ".")
    git(project, "commit", "-qm", "attributes")
    assert changes.scan(claims) == []
