"""A shared remote that refuses pushes of what is held in its clones: real git, real pushes."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.coordination.conftest import Run, git
from treadle.coordination.claims import Claims
from treadle.coordination.planning import Planning

BOB = "haid:bob.box-0002/codex"


@pytest.fixture
def remote(project: Path, tmp_path: Path) -> Path:
    place = tmp_path / "shop.git"
    git(tmp_path, "clone", "-q", "--bare", str(project), str(place))
    git(project, "remote", "add", "origin", str(place))
    git(project, "fetch", "-q")
    return place


@pytest.fixture
def clone(remote: Path, tmp_path: Path) -> Path:
    """Another clone of it, of Ann's, in which no one has claimed anything."""
    place = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(remote), str(place))
    git(place, "config", "user.email", "ann@example.org")
    return place


def held(project: Path, haid: str = BOB) -> Claims:
    claims = Claims(Planning(project=str(project)), str(project))
    claims.claim(haid, ["src/a/**"], "T-1")
    return claims


def push(where: Path, path: str, *trailer: str) -> "subprocess.CompletedProcess[str]":
    (where / path).parent.mkdir(parents=True, exist_ok=True)
    with (where / path).open("a") as file:
        file.write("x\n")
    git(where, "add", ".")
    git(where, "commit", "-qm", "change", "--no-verify", *trailer)
    return subprocess.run(
        ["git", "-C", str(where), "push", "-q", "origin", "HEAD:main"], capture_output=True, text=True, timeout=60
    )


def test_a_push_from_any_clone_is_refused_with_who_holds_it(
    project: Path, remote: Path, clone: Path, heimdall: Run
) -> None:
    claims = held(project)
    done = heimdall("claim", "guard", "install", "--server", str(project), cwd=remote)
    assert done.stdout == f"installed {remote}/hooks/pre-receive (block)\n"
    assert push(clone, "docs/x.md").returncode == 0
    before = git(remote, "rev-parse", "main")
    refused = push(clone, "src/a/b.ts")
    assert refused.returncode != 0 and BOB in refused.stderr and "T-1" in refused.stderr
    assert "HEIMDALL_" not in refused.stderr and git(remote, "rev-parse", "main") == before
    claims.release(BOB)
    assert push(clone, "src/a/b.ts").returncode == 0


def test_what_its_holder_signed_goes_through(project: Path, remote: Path, clone: Path, heimdall: Run) -> None:
    held(project)
    heimdall("claim", "guard", "install", "--server", str(project), cwd=remote)
    assert push(clone, "src/a/b.ts", "--trailer", f"Heimdall-Agent: {BOB}").returncode == 0
    assert push(clone, "src/a/b.ts", "--trailer", "Heimdall-Agent: haid:eve.box-0003").returncode != 0


def test_a_person_pushes_what_they_hold_but_not_what_their_agent_holds(
    project: Path, remote: Path, clone: Path, heimdall: Run
) -> None:
    heimdall("claim", "guard", "install", "--server", str(project), cwd=remote)
    held(project, "haid:ann.box-0001").claim("haid:ann.box-0001/codex", ["docs/**"], "T-2")
    assert push(clone, "src/a/b.ts").returncode == 0
    assert push(clone, "docs/x.md").returncode != 0


def test_claims_that_cannot_be_seen_refuse_the_push(project: Path, remote: Path, clone: Path, heimdall: Run) -> None:
    held(project)
    heimdall("claim", "guard", "install", "--server", str(project), cwd=remote)
    broken = project / ".git" / "heimdall" / "ledger" / "claims" / "broken.json"
    broken.write_text("{")
    assert "cannot be seen" in push(clone, "docs/x.md").stderr
    broken.unlink()
    shutil.move(project, f"{project}-moved")
    assert "cannot be seen" in push(clone, "docs/x.md").stderr


def test_without_clones_a_copy_of_their_live_state_in_the_remote_counts(
    project: Path, remote: Path, clone: Path, heimdall: Run
) -> None:
    refused = heimdall("claim", "guard", "install", "--server", cwd=remote)
    assert refused.returncode == 2 and "no claims are kept in" in refused.stderr
    held(project)
    shutil.copytree(project / ".git" / "heimdall", remote / "heimdall")
    assert heimdall("claim", "guard", "install", "--server", cwd=remote).returncode == 0
    assert BOB in push(clone, "src/a/b.ts").stderr


def test_a_hook_that_was_there_runs_first_and_comes_back(
    project: Path, remote: Path, clone: Path, heimdall: Run
) -> None:
    held(project)
    hook = remote / "hooks" / "pre-receive"
    hook.write_text(f"#!/bin/sh\ncat > {remote}/seen\n")
    hook.chmod(0o755)
    heimdall("claim", "guard", "install", "--server", str(project), cwd=remote)
    assert push(clone, "src/a/b.ts").returncode != 0
    assert "refs/heads/main" in (remote / "seen").read_text()
    assert str(hook) in heimdall("claim", "guard", "uninstall", cwd=remote).stdout
    assert hook.read_text().startswith("#!/bin/sh\ncat > ")
    assert push(clone, "src/a/c.ts").returncode == 0
