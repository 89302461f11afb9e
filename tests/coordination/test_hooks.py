"""The guard in git: real commits and real pushes."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.coordination.conftest import Run, git
from treadle.coordination.claims import Claims
from treadle.coordination.planning import Planning

ANN, BOB = "haid:ann.box-0001", "haid:bob.box-0002"


@pytest.fixture
def claims(project: Path) -> Claims:
    claims = Claims(Planning(project=str(project)), str(project))
    claims.claim(BOB, ["src/a/**"], "T-1")
    return claims


def attempt(project: Path, *arguments: str, **env: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["git", "-C", str(project), *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "HEIMDALL_HAID": ANN, **env},
    )


def change(project: Path, name: str = "src/a/b.ts", text: str = "changed\n") -> None:
    (project / name).parent.mkdir(parents=True, exist_ok=True)
    (project / name).write_text(text)
    git(project, "add", name)


def test_a_commit_under_anothers_claim_is_refused_and_says_how_to_go_on(
    heimdall: Run, project: Path, claims: Claims
) -> None:
    assert heimdall("claim", "guard", "install").returncode == 0
    change(project)
    refused = attempt(project, "commit", "-qm", "no")
    assert refused.returncode != 0
    for part in ("COLLISION:", "src/a/b.ts", BOB, "T-1", ANN, "HEIMDALL_HAID", "HEIMDALL_GUARD_BYPASS"):
        assert part in refused.stderr
    assert attempt(project, "commit", "-qm", "as the holder", HEIMDALL_HAID=BOB).returncode == 0
    change(project, "docs/x.md")
    assert attempt(project, "commit", "-qm", "elsewhere").returncode == 0


def test_it_also_sees_commit_all_and_renames_out_of_the_claim(heimdall: Run, project: Path, claims: Claims) -> None:
    heimdall("claim", "guard", "install")
    (project / "src/a/b.ts").write_text("not added")
    assert attempt(project, "commit", "-qam", "no").returncode != 0
    git(project, "checkout", "-q", "src/a/b.ts")
    git(project, "mv", "src/a/b.ts", "moved.ts")
    assert attempt(project, "commit", "-qm", "no").returncode != 0


def test_a_bypass_must_give_a_reason_and_it_is_kept(heimdall: Run, project: Path, claims: Claims) -> None:
    heimdall("claim", "guard", "install")
    change(project)
    assert attempt(project, "commit", "-qm", "no", HEIMDALL_GUARD_BYPASS=" ").returncode != 0
    assert attempt(project, "commit", "-qm", "hot fix", HEIMDALL_GUARD_BYPASS="production is down").returncode == 0
    assert "production is down" in (project / ".planning/ledger/decisions.md").read_text()


def test_warn_lets_it_through_with_a_word(heimdall: Run, project: Path, claims: Claims) -> None:
    heimdall("claim", "guard", "install", "--mode", "warn")
    change(project)
    done = attempt(project, "commit", "-qm", "warned")
    assert done.returncode == 0 and "warning: src/a/b.ts" in done.stderr
    assert heimdall("claim", "guard", "status").stdout == "pre-commit: warn\npre-push: warn\n"


def test_a_push_is_refused_too_but_not_for_what_its_holder_made(
    heimdall: Run, project: Path, claims: Claims, tmp_path: Path
) -> None:
    git(tmp_path, "init", "-q", "--bare", str(tmp_path / "remote.git"))
    git(project, "remote", "add", "origin", str(tmp_path / "remote.git"))
    claims.release(BOB)
    heimdall("claim", "guard", "install")
    assert attempt(project, "push", "-q", "origin", "main").returncode == 0
    change(project)
    git(project, "commit", "-qm", "before the claim")
    claims.claim(BOB, ["src/a/**"], "T-1")
    refused = attempt(project, "push", "-q", "origin", "main")
    assert refused.returncode != 0 and "cannot push what" in refused.stderr
    git(project, "commit", "-q", "--amend", "--no-verify", "-m", f"signed\n\nHeimdall-Agent: {BOB}")
    assert attempt(project, "push", "-q", "origin", "main").returncode == 0
    git(project, "checkout", "-qb", "new-branch")
    change(project, "docs/y.md")
    assert attempt(project, "commit", "-qm", "elsewhere").returncode == 0
    assert attempt(project, "push", "-q", "origin", "new-branch").returncode == 0
    assert attempt(project, "push", "-q", "origin", ":new-branch").returncode == 0  # to delete is to change no file


def test_taking_in_what_the_holder_has_pushed_is_no_change_of_ours(
    heimdall: Run, project: Path, claims: Claims, tmp_path: Path
) -> None:
    git(tmp_path, "init", "-q", "--bare", str(tmp_path / "remote.git"))
    git(project, "remote", "add", "origin", str(tmp_path / "remote.git"))
    git(project, "push", "-q", "origin", "main", "main:ours")
    change(project)
    git(project, "commit", "-qm", "the holder's, without a trailer")
    change(project, "docs/x.md", "theirs\n")
    git(project, "commit", "-qm", "more of the holder's")
    git(project, "push", "-q", "origin", "main")
    heimdall("claim", "guard", "install")
    git(project, "checkout", "-q", "-b", "ours", "origin/ours")
    change(project, "docs/x.md", "ours\n")
    assert attempt(project, "commit", "-qm", "ours").returncode == 0
    assert attempt(project, "merge", "-q", "origin/main").returncode != 0  # a conflict, to be resolved by hand
    change(project, "docs/x.md", "both\n")
    assert attempt(project, "commit", "-qm", "merge").returncode == 0
    assert attempt(project, "push", "-q", "origin", "ours").returncode == 0


@pytest.mark.parametrize("hook", ["pre-commit", "pre-push"])
def test_a_hook_that_was_there_runs_first_and_comes_back(heimdall: Run, project: Path, hook: str) -> None:
    path = project / ".git" / "hooks" / hook
    path.parent.mkdir(exist_ok=True)
    path.write_text("#!/bin/sh\necho from the old hook >&2\nexit 7\n")
    path.chmod(0o755)
    before = path.read_text()
    heimdall("claim", "guard", "install")
    heimdall("claim", "guard", "install", "--mode", "warn")  # again: nothing is lost
    done = subprocess.run([str(path)], input="", capture_output=True, text=True, cwd=project)
    assert (done.returncode, done.stderr) == (7, "from the old hook\n")
    heimdall("claim", "guard", "uninstall")
    assert path.read_text() == before
    assert heimdall("claim", "guard", "status").stdout == "pre-commit: absent\npre-push: absent\n"


def test_a_hook_that_was_there_reads_what_git_says_and_no_more(heimdall: Run, project: Path) -> None:
    path = project / ".git" / "hooks" / "pre-push"
    path.parent.mkdir(exist_ok=True)
    path.write_text('#!/bin/sh\ncat > "$0.heard"\n')
    path.chmod(0o755)
    heimdall("claim", "guard", "install")
    for said in ("", "refs/heads/x 1 refs/heads/x 0\nrefs/heads/y 1 refs/heads/y 0\n"):
        subprocess.run([str(path)], input=said, text=True, cwd=project)
        assert Path(f"{path}.before-heimdall.heard").read_text() == said


def test_a_hook_whose_program_is_gone_says_what_to_do(heimdall: Run, project: Path) -> None:
    heimdall("claim", "guard", "install")
    path = project / ".git" / "hooks" / "pre-commit"
    path.write_text(path.read_text().replace("/heimdall-claim", "/no-longer-there"))
    change(project, "docs/x.md")
    refused = attempt(project, "commit", "-qm", "no")
    assert refused.returncode != 0 and "is gone: install treadle again, or remove this hook" in refused.stderr


def test_it_guards_every_worktree(heimdall: Run, project: Path, claims: Claims, tmp_path: Path) -> None:
    heimdall("claim", "guard", "install")
    git(project, "worktree", "add", "-q", str(tmp_path / "other"), "-b", "other")
    change(tmp_path / "other")
    assert attempt(tmp_path / "other", "commit", "-qm", "no").returncode != 0


def test_outside_of_a_repository_there_is_nothing_to_guard(heimdall: Run, tmp_path: Path) -> None:
    done = heimdall("claim", "guard", "install", cwd=tmp_path)
    assert done.returncode == 2 and "not in a git repository" in done.stderr
