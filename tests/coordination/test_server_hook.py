"""A shared remote that refuses pushes of what is held in its clones: real git, real pushes."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.coordination.conftest import Run, git
from treadle.coordination import hooks
from treadle.coordination.claims import Claims, Collision
from treadle.coordination.planning import Planning
from treadle.errors import ConfigError, Denied

BOB = "haid:bob.box-0002/codex"
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


def test_what_comes_in_is_judged_by_who_signed_it_or_else_by_its_author(
    project: Path, remote: Path, clone: Path
) -> None:
    """In this process: what was pushed is in the store of the remote, and no branch has it yet."""
    ann, bob = "haid:ann.box-0001", "haid:bob.box-0002"
    held(project, bob).claim(ann, ["mine.md"], "T-2")

    def judged(path: str, trailer: str = "", author: str = "ann@example.org") -> None:
        git(clone, "checkout", "-q", "--detach", "origin/main")
        (clone / path).write_text("changed")
        git(clone, "add", ".")
        git(clone, "commit", "-qm", f"change\n\n{trailer}", f"--author=x <{author}>")
        git(remote, "fetch", "-q", str(clone), "HEAD")
        commit = git(clone, "rev-parse", "HEAD")
        hooks.judge_push(str(remote), [str(project)], [f"{ZEROS} {commit} refs/heads/new\n"])

    judged("mine.md")
    judged("src/a/b.ts", f"Heimdall-Agent: {bob}")
    judged("src/a/b.ts", author="bob@example.org")
    with pytest.raises(Collision, match="cannot push what"):
        judged("src/a/b.ts")
    with pytest.raises(Collision):
        judged("mine.md", author="bob@example.org")
    with pytest.raises(Collision):
        judged("mine.md", "Heimdall-Agent: haid:eve.box-0003")
    with pytest.raises(Denied, match="cannot be seen: "):
        judged("other.md", "Heimdall-Agent: someone")
    main = git(remote, "rev-parse", "main")
    gone, known = f"{main} {ZEROS} refs/heads/old", f"{ZEROS} {main} refs/heads/copy"
    hooks.judge_push(str(remote), [str(project)], [gone, known, "three words only here", ""])
