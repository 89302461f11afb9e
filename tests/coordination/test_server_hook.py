"""A shared remote that refuses pushes of what is held in its clones: real git, real pushes."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.coordination.conftest import Run, git
from treadle.coordination import hooks
from treadle.coordination.claims import Claims, Collision
from treadle.coordination.planning import Planning, digest
from treadle.coordination.record import claim_name
from treadle.errors import ConfigError
from treadle.wire.common.jsontext import dumps, loads

BOB, EVE = "haid:bob.box-0002/codex", "haid:eve.box-0003"
ZEROS = "0" * 40


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


def again(where: Path, code: str) -> "subprocess.CompletedProcess[str]":
    """The same push with an option."""
    command = ["git", "-C", str(where), "push", "-q", "--push-option", code, "origin", "HEAD:main"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


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


@pytest.mark.slow
def test_only_a_proof_of_the_claim_lets_its_holder_push(
    project: Path, remote: Path, clone: Path, heimdall: Run
) -> None:
    """Author and trailer are what anyone can write."""
    held(project).claim(EVE, ["docs/**"], "T-2")
    heimdall("claim", "guard", "install", "--server", str(project), cwd=remote)
    forged = push(clone, "src/a/b.ts", "--trailer", f"Heimdall-Agent: {BOB}", "--author=Bob <bob@example.org>")
    assert forged.returncode != 0 and "heimdall-claim proof" in forged.stderr
    old, code, other = (
        heimdall("claim", "proof", "--haid", haid, cwd=project).stdout.strip() for haid in (BOB, BOB, EVE)
    )
    assert len({old, code, other}) == 3 and code.startswith("heimdall=")
    for wrong in (old, other, f"{code} ", ""):
        assert again(clone, wrong).returncode != 0
    assert again(clone, code).returncode == 0
    assert "has no claim" in heimdall("claim", "proof", "--haid", "haid:ann.box-0001/none", cwd=project).stderr


def test_a_file_beside_the_record_proves_nothing(project: Path, remote: Path, clone: Path, heimdall: Run) -> None:
    claims = held(project)
    heimdall("claim", "guard", "install", "--server", str(project), cwd=remote)
    path = Path(claims.directory) / claim_name(BOB)
    mine = {**loads(path.read_text()), "proof": digest("heimdall=mine")}
    path.with_name("other.json").write_text(dumps(mine))
    path.write_text(dumps(mine))
    assert push(clone, "src/a/b.ts").returncode != 0 and again(clone, "heimdall=mine").returncode != 0


def test_claims_that_cannot_be_seen_refuse_the_push(project: Path, remote: Path, clone: Path, heimdall: Run) -> None:
    held(project)
    heimdall("claim", "guard", "install", "--server", str(project), cwd=remote)
    broken = project / ".git" / "heimdall" / "ledger" / "claims" / "broken.json"
    broken.write_text("{")
    assert "cannot be read" in push(clone, "docs/x.md").stderr
    broken.unlink()
    shutil.move(project, f"{project}-moved")
    assert "cannot be read" in push(clone, "docs/x.md").stderr


def test_without_clones_a_copy_of_their_live_state_in_the_remote_counts(
    project: Path, remote: Path, clone: Path, heimdall: Run
) -> None:
    refused = heimdall("claim", "guard", "install", "--server", cwd=remote)
    assert refused.returncode == 2 and "there are no claims in" in refused.stderr
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


def test_claims_count_only_in_a_repository_that_keeps_them(
    project: Path, remote: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (known,) = hooks.ledgers(str(remote), [str(project)])
    assert known.top == str(project) and known.active() == []
    with pytest.raises(ConfigError, match=f"{tmp_path} is not a git repository"):
        hooks.ledgers(str(remote), [str(project), str(tmp_path)])
    monkeypatch.setenv("HEIMDALL_PLANNING_DIR", str(tmp_path / "plans"))
    with pytest.raises(ConfigError, match="its claims are not seen"):
        hooks.ledgers(str(remote), [str(project)])


def test_what_a_living_session_holds_is_refused_without_its_proof(project: Path, remote: Path, clone: Path) -> None:
    """In this process: what was pushed is in the store of the remote, and no branch has it yet."""
    claims = Claims(Planning(project=str(project)), str(project))
    claims.bindings.note(BOB, (os.getpid(), 1))
    claims.claim(BOB, ["src/a/**"], "T-1")

    def judged(path: str, *given: str) -> None:
        git(clone, "checkout", "-q", "--detach", "origin/main")
        (clone / path).write_text("changed")
        git(clone, "add", ".")
        git(clone, "commit", "-qm", "change")
        git(remote, "fetch", "-q", str(clone), "HEAD")
        commit = git(clone, "rev-parse", "HEAD")
        hooks.judge_push(str(remote), [str(project)], [f"{ZEROS} {commit} refs/heads/new\n"], given)

    judged("mine.md")
    with pytest.raises(Collision, match="cannot push what"):
        judged("src/a/b.ts", "heimdall=")
    judged("src/a/b.ts", "ci.skip", claims.prove(BOB))
    main = git(remote, "rev-parse", "main")
    gone, known = f"{main} {ZEROS} refs/heads/old", f"{ZEROS} {main} refs/heads/copy"
    hooks.judge_push(str(remote), [str(project)], [gone, known, "three words only here", ""])
