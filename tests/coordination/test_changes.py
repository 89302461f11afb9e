"""What was changed, compared with what is claimed, in a real repository."""

import subprocess
from pathlib import Path

import pytest

from tests.coordination.conftest import Run, git
from tests.safety.own_git import SETS, canaries, script
from treadle.coordination import changes
from treadle.coordination.claims import Claims
from treadle.coordination.planning import Planning
from treadle.errors import ConfigError

ANN, BOB = "haid:ann.box-0001", "haid:bob.box-0002"


def commit(project: Path, name: str, message: str = "change") -> None:
    (project / name).parent.mkdir(parents=True, exist_ok=True)
    (project / name).write_text(message)
    git(project, "add", name)
    git(project, "commit", "-qm", message)


def asked(found: list[changes.Overlap]) -> list[str]:
    return sorted(overlap.asked for overlap in found)


def test_staged_and_uncommitted_files_are_found_whatever_their_names(project: Path) -> None:
    (project / 'a b\n"ü#.txt').write_text("x")
    git(project, "mv", "src/a/b.ts", "src/a/renamed.ts")
    (project / "new.txt").write_text("x")
    assert sorted(changes.staged_changes(str(project))) == ["src/a/b.ts", "src/a/renamed.ts"]
    listed = changes.uncommitted(str(project / "src"))
    assert {'a b\n"ü#.txt', "new.txt", "src/a/b.ts", "src/a/renamed.ts"} == set(listed)


def test_a_commit_under_anothers_claim_is_found_unless_its_holder_signed_it(project: Path, claims: Claims) -> None:
    commit(project, "docs/x.md")
    commit(project, "src/a/new.ts", "mine")
    commit(project, "src/a/theirs.ts", f"theirs\n\nHeimdall-Agent: {BOB}")
    found = changes.check_commits(claims, ANN, changes.commits(str(project), "HEAD~3..HEAD"))
    assert asked(found) == ["src/a/new.ts"]
    assert changes.check_commits(claims, BOB, changes.commits(str(project), "HEAD~3..HEAD")) == []


def test_what_agents_coordinate_with_can_always_be_committed(project: Path, claims: Claims, tmp_path: Path) -> None:
    claims.claim(BOB, ["**"], "T-1")
    git(project, "add", "-f", ".planning")
    assert any(name.startswith(".planning/") for name in changes.staged_changes(str(project)))
    assert changes.overlaps(claims, ANN, changes.staged_changes(str(project))) == []
    git(project, "worktree", "add", "-q", str(tmp_path / "other"))
    elsewhere = Claims(Planning(project=str(tmp_path / "other")))
    assert asked(changes.overlaps(elsewhere, ANN, [".planning/protocol.log", ".planning.md"])) == [".planning.md"]


def test_merging_what_others_did_is_not_changing_it(project: Path, claims: Claims) -> None:
    git(project, "checkout", "-qb", "side")
    commit(project, "docs/x.md")
    git(project, "checkout", "-q", "main")
    commit(project, "README.md")
    git(project, "merge", "-q", "--no-edit", "side")
    assert [names for _, names in changes.commits(str(project), "HEAD^..HEAD")] == [[], ["docs/x.md"]]


def test_what_a_merge_adds_of_its_own_is_a_change(project: Path) -> None:
    git(project, "checkout", "-qb", "side")
    commit(project, "docs/x.md")
    git(project, "checkout", "-q", "main")
    commit(project, "README.md")
    git(project, "merge", "-q", "--no-commit", "side")
    (project / "src/a/b.ts").write_text("slipped in")
    git(project, "add", "src/a/b.ts")
    assert changes.staged_changes(str(project)) == ["src/a/b.ts"]
    git(project, "commit", "-qm", "merge")
    assert [names for _, names in changes.commits(str(project), "HEAD^1..HEAD")] == [["src/a/b.ts"], ["docs/x.md"]]


def test_the_first_commit_and_one_that_changes_nothing_are_commits(project: Path) -> None:
    git(project, "commit", "-q", "--allow-empty", "-m", "nothing")
    found = list(changes.commits(str(project), "HEAD"))
    assert found[0] == ("", []) and "src/a/b.ts" in found[-1][1]
    assert list(changes.commits(str(project), "HEAD..HEAD")) == []


@pytest.mark.parametrize("revisions", ["--all", "-n1", "--output=x"])
def test_an_option_is_not_a_range(project: Path, revisions: str) -> None:
    with pytest.raises(ConfigError):
        list(changes.commits(str(project), revisions))


def test_check_diff_is_for_ci(heimdall: Run, project: Path, claims: Claims) -> None:
    commit(project, "docs/x.md")
    assert heimdall("claim", "check", "--diff", "HEAD~1", HEIMDALL_HAID=ANN).returncode == 0
    commit(project, "src/a/new.ts")
    refused = heimdall("claim", "check", "--diff", "HEAD~2..HEAD", HEIMDALL_HAID=ANN)
    assert refused.returncode == 3 and "src/a/new.ts" in refused.stderr and BOB in refused.stderr
    assert heimdall("claim", "check", "--diff", "HEAD~2..HEAD", HEIMDALL_HAID=BOB).returncode == 0
    (project / "src/a/b.ts").write_text("changed")
    assert heimdall("claim", "check", "--diff", HEIMDALL_HAID=ANN).returncode == 3
    assert heimdall("claim", "check", "--diff", "no-such-commit", HEIMDALL_HAID=ANN).returncode == 2


def test_what_a_hostile_repository_configures_does_not_run(project: Path, claims: Claims, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho $0 >> {mark}\ncat\n")
    program.chmod(0o755)
    for name in ("diff.x.textconv", "diff.x.command", "diff.external", "filter.x.clean", "filter.x.smudge"):
        git(project, "config", name, str(program))
    for name in ("core.fsmonitor", "core.pager", "gpg.program", "core.sshCommand"):
        git(project, "config", name, str(program))
    git(project, "config", "log.showSignature", "true")
    (project / ".gitattributes").write_text("* diff=x filter=x\n")
    (project / "src/a/b.ts").write_text("changed\n")
    mark.unlink(missing_ok=True)
    assert "src/a/b.ts" in changes.uncommitted(str(project))
    changes.staged_changes(str(project))
    assert list(changes.commits(str(project), "HEAD"))
    assert changes.overlaps(claims, ANN, changes.uncommitted(str(project)))
    assert not mark.exists(), mark.read_text()


@pytest.mark.parametrize("name", SETS)
def test_nothing_that_an_agent_left_in_a_checkout_is_run(
    project: Path, claims: Claims, tmp_path: Path, name: str
) -> None:
    """Filters, monitors, drivers and nested repositories, set up by an agent that was not confined."""
    (project / "a.txt").write_text("one\n")
    commit(project, "b.txt")
    subprocess.run(["sh", "-c", script(name, tmp_path)], cwd=project, check=False, capture_output=True)
    listed = changes.uncommitted(str(project))
    changes.staged_changes(str(project))
    if not name.startswith("git-"):  # those have put another repository in the place of this one
        changes.scan(claims)
        list(changes.commits(str(project), "HEAD"))
    assert "work.txt" in listed and (tmp_path / "ended").exists() and canaries(tmp_path) == set()
