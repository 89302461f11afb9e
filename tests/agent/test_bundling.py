"""Commits come out of a repository that an agent could write, and nothing that it set up runs outside for that."""

from pathlib import Path

import pytest

from tests.fleet.repositories import git
from tests.machines import no_bubblewrap as no_bubblewrap
from treadle.errors import ConfigError, WorkspaceError
from treadle.sandboxed import repositories
from treadle.sandboxed.repositories import bundle_of


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    top = tmp_path / "repo"
    top.mkdir()
    git(top, "init", "-q", "-b", "main")
    git(top, "commit", "-q", "--allow-empty", "-m", "start")
    return top


async def test_what_is_new_at_head_is_in_the_bundle_and_no_program_of_the_repository_ran_outside(
    repository: Path, tmp_path: Path
) -> None:
    base, ran = git(repository, "rev-parse", "HEAD"), tmp_path / "ran"
    (repository / "a.txt").write_text("two\n")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "two")
    git(repository, "config", "core.fsmonitor", f"touch {ran}; false")
    git(repository, "config", "pack.packObjectsHook", f"touch {ran}; false")
    bundle = tmp_path / "new.bundle"
    bundle.write_bytes(await bundle_of(str(repository), base, ()))
    other = tmp_path / "other"
    git(tmp_path, "clone", "-q", str(repository), "other")
    assert git(other, "bundle", "list-heads", str(bundle)).split() == [git(repository, "rev-parse", "HEAD"), "HEAD"]
    assert not ran.exists()


async def test_where_there_is_no_sandbox_no_git_runs(repository: Path, no_bubblewrap: None) -> None:
    with pytest.raises(ConfigError, match="on this machine: bubblewrap: there is no program bwrap"):
        await bundle_of(str(repository), "HEAD", ())


async def test_a_git_that_does_not_end_is_given_up(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = tmp_path / "bin"
    slow.mkdir()
    (slow / "git").write_text("#!/bin/sh\nexec sleep 600\n")
    (slow / "git").chmod(0o755)
    base = git(repository, "rev-parse", "HEAD")
    monkeypatch.setattr(repositories, "BUNDLE_SECONDS", 0.3)
    monkeypatch.setenv("PATH", f"{slow}:/usr/bin:/bin")
    with pytest.raises(WorkspaceError, match=r"not bundled within 0\.3 s"):
        await bundle_of(str(repository), base, (str(slow),))
