"""What a command would change that another holds."""

from pathlib import Path

import pytest

from tests.coordination.conftest import git
from treadle.coordination.changes import CommandJudge
from treadle.coordination.claims import Claims

ANN = "haid:ann.box-0001/native"


def judged(claims: Claims, project: Path, command: str) -> CommandJudge:
    judge = CommandJudge(claims, ANN, str(project))
    judge.judge(command)
    return judge


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf src",
        "rm src/a/*.ts",
        "mv src/a x",
        "cd src/a; echo > b.ts",
        "git checkout src/a/b.ts",
        "git checkout -- .",
        "git add -A && git commit -m x",
        "git commit -am x",
        "git add src && git commit -m x",
        "git ci",
        "git wipe",
        "link/a/b.ts; rm link/a/b.ts",
    ],
)
def test_what_another_holds_is_met(project: Path, claims: Claims, command: str) -> None:
    git(project, "config", "alias.ci", "commit -a -m x")
    git(project, "config", "alias.wipe", "!rm -f src/a/b.ts")
    (project / "link").symlink_to("src")
    (project / "src/a/b.ts").write_text("changed")
    judge = judged(claims, project, command)
    assert judge.overlaps and judge.overlaps[0].claim.haid == "haid:bob.box-0002"


@pytest.mark.parametrize(
    "command",
    [
        "mkdir -p src",
        "cp x src",
        "git add docs && git commit -m x",
        "git commit -m x -- docs",
        "npm test",
        "cat src/a/b.ts",
        "rm docs/x",
    ],
)
def test_other_work_goes_on(project: Path, claims: Claims, command: str) -> None:
    (project / "src/a/b.ts").write_text("changed by its holder")
    (project / "docs").mkdir()
    (project / "docs/x").write_text("x")
    judge = judged(claims, project, command)
    assert not judge.overlaps and not judge.unseen


@pytest.mark.parametrize("command", ["git checkout other", "git frobnicate", "tool src/a/b.ts", "python3 -c x"])
def test_what_cannot_be_seen_is_in_doubt(project: Path, claims: Claims, command: str) -> None:
    assert judged(claims, project, command).unseen
    claims.release("haid:bob.box-0002")
    assert not judged(claims, project, command).unseen


def test_a_push_of_what_another_holds_is_met(project: Path, claims: Claims) -> None:
    (project / "src/a/b.ts").write_text("changed")
    git(project, "commit", "-qam", "x")
    assert judged(claims, project, "git push --no-verify").overlaps


def test_an_alias_of_an_alias_is_followed_a_few_times_and_then_in_doubt(project: Path, claims: Claims) -> None:
    for number in range(6):
        git(project, "config", f"alias.a{number}", f"a{number + 1}" if number < 5 else "checkout src/a/b.ts")
    assert judged(claims, project, "git a2").overlaps
    deep = judged(claims, project, "git a0")
    assert not deep.overlaps and "what git a" in deep.unseen
